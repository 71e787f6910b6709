// Caches profiles of users and items that were read from a remote store, each for a limited time. For
// each lookup it says whether the row is fresh, stale or missing, and whether this caller should
// read it from the store now.
#include "runtime/features/expiring_profiles.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "runtime/features/profile_cache.h"

namespace troupe {
namespace {

constexpr double share_of(std::uint64_t hash) { return static_cast<double>(hash >> 11) * 0x1p-53; }

std::uint64_t hash_of(const std::string& key, std::uint64_t seed) {
  return XXH64(key.data(), key.size(), seed);
}

}  // namespace

std::size_t cached_bytes(const std::string& key, const StoredItem* item) {
  const std::size_t of_item = item ? sizeof(StoredItem) + item->item.id.size() + item->item.title.size() +
                                         item->item.tokens.size() * sizeof(Token)
                                   : 0;
  return cached_bytes(key, static_cast<const Profile*>(nullptr)) + of_item;
}

template <class Row>
ExpiringRows<Row>::ExpiringRows(const ExpiryOptions& options)
    : options_(options), buckets_(std::max(1u, options.buckets)) {}

template <class Row>
typename ExpiringRows<Row>::Bucket& ExpiringRows<Row>::bucket_of(const std::string& key) {
  return buckets_[hash_of(key, 0) % buckets_.size()];
}

template <class Row>
typename ExpiringRows<Row>::Entry* ExpiringRows<Row>::entry_of(Bucket& bucket, const std::string& key) {
  const auto at = bucket.entries.find(key);
  if (at == bucket.entries.end()) return nullptr;
  bucket.order.splice(bucket.order.begin(), bucket.order, at->second);
  return &*at->second;
}

template <class Row>
typename ExpiringRows<Row>::Entry& ExpiringRows<Row>::touch(Bucket& bucket, const std::string& key) {
  if (Entry* entry = entry_of(bucket, key)) return *entry;
  bucket.order.push_front({.key = key});
  bucket.entries[key] = bucket.order.begin();
  return bucket.order.front();
}

// The changed entry is the first in the order; it may also be the only one to evict.
template <class Row>
void ExpiringRows<Row>::fit(Bucket& bucket, Entry& changed) const {
  const std::size_t bytes = cached_bytes(changed.key, changed.row.get());
  bucket.bytes += bytes - changed.bytes;
  changed.bytes = bytes;
  while (bucket.bytes > options_.bytes_max / buckets_.size() && !bucket.order.empty()) {
    bucket.bytes -= bucket.order.back().bytes;
    bucket.entries.erase(bucket.order.back().key);
    bucket.order.pop_back();
  }
}

template <class Row>
Duration ExpiringRows<Row>::expiry_of(const std::string& key, bool there, std::uint64_t put) const {
  const Duration full = there ? options_.expiry : options_.unknown_expiry;
  const double share = 1 - options_.jitter * share_of(hash_of(key, put));
  return {std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(full.us) * share))};
}

template <class Row>
typename ExpiringRows<Row>::Lookup ExpiringRows<Row>::find(const std::string& key, Instant now, bool asks) {
  Bucket& bucket = bucket_of(key);
  const std::lock_guard lock(bucket.mutex);
  Entry* entry = entry_of(bucket, key);
  Lookup found;
  // Absence of a row is never stale: no request should be refused for it so long afterwards.
  if (entry && entry->known && now < entry->expires + (entry->row ? options_.stale_for : Duration{0})) {
    const bool fresh = now < entry->expires;
    found.of = fresh ? Features::Source::cache : Features::Source::stale;
    found.row = entry->row;
  }
  if (!asks || found.of == Features::Source::cache) return found;
  if (!entry) entry = &touch(bucket, key);
  found.ask = entry->reading_until <= now;
  if (found.ask) entry->reading_until = now + options_.asking;
  fit(bucket, *entry);
  return found;
}

template <class Row>
void ExpiringRows<Row>::put(const std::string& key, RowPointer row, Instant asked) {
  Bucket& bucket = bucket_of(key);
  const std::lock_guard lock(bucket.mutex);
  Entry& entry = touch(bucket, key);
  entry.reading_until = {INT64_MIN};
  if (asked > entry.written && (!entry.known || asked >= entry.asked)) {
    entry.expires = asked + expiry_of(key, row != nullptr, ++bucket.puts);
    entry.row = std::move(row);
    entry.known = true;
    entry.asked = asked;
  }
  fit(bucket, entry);
}

template <class Row>
void ExpiringRows<Row>::failed(const std::string& key, Instant now) {
  Bucket& bucket = bucket_of(key);
  const std::lock_guard lock(bucket.mutex);
  if (Entry* entry = entry_of(bucket, key)) entry->reading_until = now + Duration{options_.asking.us / 8};
}

template <class Row>
void ExpiringRows<Row>::written(const std::string& key, Instant now) {
  Bucket& bucket = bucket_of(key);
  const std::lock_guard lock(bucket.mutex);
  Entry& entry = touch(bucket, key);
  entry.row = nullptr;
  entry.known = false;
  entry.written = now;
  fit(bucket, entry);
}

template <class Row>
std::size_t ExpiringRows<Row>::bytes() const {
  std::size_t sum = 0;
  for (const Bucket& bucket : buckets_) {
    const std::lock_guard lock(bucket.mutex);
    sum += bucket.bytes;
  }
  return sum;
}

template class ExpiringRows<Profile>;
template class ExpiringRows<StoredItem>;

}  // namespace troupe
