// Keeps the profiles that were read last, with least-recently-used eviction. The single node thus
// reads no disk for them, and a router can answer from them while the shared Redis is unreachable.
#include "runtime/features/profile_cache.h"

namespace troupe {
namespace {

constexpr std::size_t entry_bytes = 512;  // list, map, and the position's texts

}  // namespace

std::size_t cached_bytes(const std::string& key, const Profile* profile) {
  std::size_t of_profile =
      profile ? profile->tokens.size() * sizeof(Token) + profile->events.size() * sizeof(std::uint32_t) : 0;
  if (profile)
    for (const Feature& feature : profile->features)
      of_profile += sizeof(Feature) + feature.values.size() * sizeof(std::int64_t);
  return entry_bytes + 2 * key.size() + of_profile;
}

void ProfileCache::put(const std::string& key, const CachedProfile& read) {
  const std::lock_guard lock(mutex_);
  keep(key, read);
}

void ProfileCache::clear() {
  const std::lock_guard lock(mutex_);
  ++changes_;
  entries_.clear();
  order_.clear();
  bytes_ = 0;
}

std::uint64_t ProfileCache::changes() {
  const std::lock_guard lock(mutex_);
  return changes_;
}

void ProfileCache::put_unless_changed(const std::string& key, const CachedProfile& read,
                                      std::uint64_t since) {
  const std::lock_guard lock(mutex_);
  if (changes_ == since) keep(key, read);
}

void ProfileCache::keep(const std::string& key, const CachedProfile& read) {
  const auto at = entries_.find(key);
  if (at != entries_.end()) {
    const CachedProfile& known = at->second->known;
    const bool same = known.at.same_lineage(read.at) || !known.profile;
    if (same && (read.profile->version < at->second->version || read.at.version < known.at.version)) return;
  }
  insert({key, read, read.profile->version, cached_bytes(key, read.profile.get())});
}

void ProfileCache::forget(const std::string& key, std::uint64_t written_version) {
  const std::lock_guard lock(mutex_);
  insert({key, {}, written_version, cached_bytes(key, static_cast<const Profile*>(nullptr))});
}

void ProfileCache::erase(const std::string& key) {
  const std::lock_guard lock(mutex_);
  ++changes_;
  drop(key);
}

void ProfileCache::drop(const std::string& key) {
  const auto at = entries_.find(key);
  if (at == entries_.end()) return;
  bytes_ -= at->second->bytes;
  order_.erase(at->second);
  entries_.erase(at);
}

std::optional<ProfileCache::CachedProfile> ProfileCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(key);
  if (at == entries_.end() || !at->second->known.profile) return {};
  order_.splice(order_.begin(), order_, at->second);
  return at->second->known;
}

void ProfileCache::insert(Entry entry) {
  if (entry.bytes > bytes_max_) return drop(entry.key);
  bytes_ += entry.bytes;
  const auto at = entries_.find(entry.key);
  if (at != entries_.end()) {
    bytes_ -= at->second->bytes;
    *at->second = std::move(entry);
    order_.splice(order_.begin(), order_, at->second);
  } else {
    order_.push_front(std::move(entry));
    entries_[order_.front().key] = order_.begin();
  }
  while (bytes_ > bytes_max_ && !order_.empty()) {
    bytes_ -= order_.back().bytes;
    entries_.erase(order_.back().key);
    order_.pop_back();
  }
}

}  // namespace troupe
