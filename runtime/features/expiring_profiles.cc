// Caches profiles of users that were read from a remote store, each for a limited time. For each
// lookup it says whether the profile is fresh, stale or missing, and whether this caller should
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

ExpiringProfiles::ExpiringProfiles(const ExpiryOptions& options)
    : options_(options), buckets_(std::max(1u, options.buckets)) {}

ExpiringProfiles::Bucket& ExpiringProfiles::bucket_of(const std::string& key) {
  return buckets_[hash_of(key, 0) % buckets_.size()];
}

ExpiringProfiles::Entry* ExpiringProfiles::entry_of(Bucket& bucket, const std::string& key) {
  const auto at = bucket.entries.find(key);
  if (at == bucket.entries.end()) return nullptr;
  bucket.order.splice(bucket.order.begin(), bucket.order, at->second);
  return &*at->second;
}

ExpiringProfiles::Entry& ExpiringProfiles::touch(Bucket& bucket, const std::string& key) {
  if (Entry* entry = entry_of(bucket, key)) return *entry;
  bucket.order.push_front({.key = key});
  bucket.entries[key] = bucket.order.begin();
  return bucket.order.front();
}

// The changed entry is the first in the order; it may also be the only one to evict.
void ExpiringProfiles::fit(Bucket& bucket, Entry& changed) const {
  const std::size_t bytes = cached_bytes(changed.key, changed.user.get());
  bucket.bytes += bytes - changed.bytes;
  changed.bytes = bytes;
  while (bucket.bytes > options_.bytes_max / buckets_.size() && !bucket.order.empty()) {
    bucket.bytes -= bucket.order.back().bytes;
    bucket.entries.erase(bucket.order.back().key);
    bucket.order.pop_back();
  }
}

Duration ExpiringProfiles::expiry_of(const std::string& key, bool there, std::uint64_t put) const {
  const Duration full = there ? options_.expiry : options_.unknown_expiry;
  const double share = 1 - options_.jitter * share_of(hash_of(key, put));
  return {std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(full.us) * share))};
}

ExpiringProfiles::ProfileLookup ExpiringProfiles::find(const std::string& key, Instant now, bool asks) {
  Bucket& bucket = bucket_of(key);
  const std::lock_guard lock(bucket.mutex);
  Entry* entry = entry_of(bucket, key);
  ProfileLookup found;
  // Absence of a user is never stale: no request should be refused for it so long afterwards.
  if (entry && entry->known && now < entry->expires + (entry->user ? options_.stale_for : Duration{0})) {
    const bool fresh = now < entry->expires;
    found.of = fresh ? Features::Source::cache : Features::Source::stale;
    found.user = entry->user;
  }
  if (!asks || found.of == Features::Source::cache) return found;
  if (!entry) entry = &touch(bucket, key);
  found.ask = entry->reading_until <= now;
  if (found.ask) entry->reading_until = now + options_.asking;
  fit(bucket, *entry);
  return found;
}

void ExpiringProfiles::put(const std::string& key, ProfilePointer user, Instant asked) {
  Bucket& bucket = bucket_of(key);
  const std::lock_guard lock(bucket.mutex);
  Entry& entry = touch(bucket, key);
  entry.reading_until = {INT64_MIN};
  if (asked > entry.written && (!entry.known || asked >= entry.asked)) {
    entry.expires = asked + expiry_of(key, user != nullptr, ++bucket.puts);
    entry.user = std::move(user);
    entry.known = true;
    entry.asked = asked;
  }
  fit(bucket, entry);
}

void ExpiringProfiles::failed(const std::string& key, Instant now) {
  Bucket& bucket = bucket_of(key);
  const std::lock_guard lock(bucket.mutex);
  if (Entry* entry = entry_of(bucket, key)) entry->reading_until = now + Duration{options_.asking.us / 8};
}

void ExpiringProfiles::written(const std::string& key, Instant now) {
  Bucket& bucket = bucket_of(key);
  const std::lock_guard lock(bucket.mutex);
  Entry& entry = touch(bucket, key);
  entry.user = nullptr;
  entry.known = false;
  entry.written = now;
  fit(bucket, entry);
}

std::size_t ExpiringProfiles::bytes() const {
  std::size_t sum = 0;
  for (const Bucket& bucket : buckets_) {
    const std::lock_guard lock(bucket.mutex);
    sum += bucket.bytes;
  }
  return sum;
}

}  // namespace troupe
