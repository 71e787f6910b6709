#pragma once
// Reads single items of a catalog in Redis, for routers that do not hold the whole catalog, and caches them
// in buckets, each for a limited time (FLAME §3.1). A catalog may then be larger than a router's memory. An
// answer's catalog has only the items that were asked for, under the catalog version that was read last. As
// with cached profiles, an item may be older than that version, by at most the expiry, or longer if stale.
//
// - exact: all items are read, in one atomic step with the profile; the cache learns them.
// - wait: items that were read within the expiry come from the cache; the others are read, together.
// - behind: stale items are used, too, and read afterwards (take_stale()). Items of which nothing is known
//   are read as for `wait`: a candidate without tokens could not be ranked.
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/features/expiring_profiles.h"
#include "runtime/redis/redis_catalog.h"

namespace troupe {

struct ItemPoint {
  StorePoint point;              // without changes
  StoredCatalogPointer catalog;  // those of the wanted items that exist
};

// Thread-safe.
class RedisItems {
 public:
  static constexpr std::size_t stale_max = 4096;  // stale items remembered for take_stale()

  using OnSources = std::function<void(const ItemSources&)>;  // called once per request, from any slot

  RedisItems(const FeatureLimits& limits, NameItem name_item, const ExpiryOptions& options,
             OnSources on_sources = {})
      : limits_(limits),
        name_item_(std::move(name_item)),
        cache_(options),
        on_sources_(std::move(on_sources)) {}

  // Reads the user's row (`user`: as of RedisCatalog::ask) and the items that are not known well enough for
  // `freshness`, which is not `configured`. After a failure `session` cannot be used any more. Replies to
  // `behind` are of the same round trip.
  OrRedisFailure<ItemPoint> read(RedisConnectionPool::Session& session, const RedisKeys& keys,
                                 const std::string& user, std::span<const std::string> items,
                                 Freshness freshness, Instant now, RedisPipeline* behind = nullptr);
  // Returns the items without asking Redis; null if one is not known well enough.
  StoredCatalogPointer find(std::span<const std::string> items, Freshness freshness, Instant now);

  bool has_stale() const;
  // Returns items that were used though stale, and forgets that they were.
  std::vector<std::string> take_stale();
  void written(const std::string& item, Instant now) { cache_.written(item, now); }  // by this process

  CatalogPosition position() const;  // read last
  std::uint64_t items() const;       // number of items in the store, at that position
  std::uint64_t bad_records() const { return bad_records_.load(); }

 private:
  using Found = ExpiringItems::RowPointer;
  // Splits the wanted items: known ones go into `catalog`, the others are returned. Counts both.
  std::vector<std::string> take_known(std::span<const std::string> items, Freshness freshness, Instant now,
                                      CatalogWriter& catalog, ItemSources& sources);
  void report(const ItemSources& sources) const;
  Found item_of(const std::string& id, const std::optional<std::string>& record, std::uint64_t version);
  void note(const CatalogPosition& at, std::uint64_t items);

  const FeatureLimits limits_;
  const NameItem name_item_;
  ExpiringItems cache_;
  const OnSources on_sources_;
  std::atomic<std::uint64_t> bad_records_ = 0;
  mutable std::mutex mutex_;  // guards the following
  CatalogPosition position_;
  std::uint64_t items_ = 0;
  std::set<std::string> stale_;
};

}  // namespace troupe
