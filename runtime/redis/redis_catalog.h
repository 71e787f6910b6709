#pragma once
// Reads a Redis that holds profiles and catalog. One round trip returns a profile, the catalog's
// version and its changes since this router's last read, all from one atomic step. The mirror
// advances with it, so the answer contains everything acknowledged by any router before the
// request.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/features/catalog_mirror.h"
#include "runtime/features/feature_store.h"
#include "runtime/redis/redis_connection_pool.h"
#include "runtime/redis/redis_scripts.h"
#include "runtime/store/store_rows.h"

namespace troupe {

// A state that the store had at one moment.
struct StorePoint {
  CatalogPosition at;
  std::optional<std::string> user;     // the user's row
  CatalogPosition from;                // `changes` lead from here to `at`
  std::vector<CatalogChange> changes;  // in order of version
  std::uint64_t profiles = 0;          // version of the profile written last
  std::string made_for;                // made_for.h; "" = no note
};

// Plain commands sent together with a page request, and their replies.
struct RedisPipeline {
  std::vector<RedisCommand> commands;
  std::vector<RedisReply> replies;
};

// Thread-safe.
class RedisCatalog {
 public:
  struct Options {
    std::uint32_t page_items = 256;        // per round trip while catching up; at most 4096
    std::size_t history_max = 1 << 14;     // see CatalogMirror
    std::chrono::microseconds wait_limit;  // wait deadline while another slot loads the whole catalog
  };
  RedisCatalog(const FeatureLimits& limits, NameItem name_item, const Options& options);

  // Reads the current point. `user`: a key from user_key(); "" = none. After a failure `session`
  // cannot be used any more. `behind` is sent with each page; its replies are those of the last
  // page.
  OrRedisFailure<StorePoint> ask(RedisConnectionPool::Session& session, const RedisKeys& keys,
                                 const std::string& user, RedisPipeline* behind = nullptr);
  // Returns the catalog at `point`; null if it is no longer known, then ask again.
  StoredCatalogPointer at(const StorePoint& point) const;

  const CatalogMirror& mirror() const { return mirror_; }
  std::uint64_t bad_records() const { return bad_records_.load() + mirror_.left_out(); }
  void count_bad_record() { ++bad_records_; }

 private:
  // Changes read so far while catching up, which may take several pages.
  struct CatchUp {
    CatalogPosition from;
    std::uint64_t base = 0, cursor = 0;
    std::vector<CatalogChange> changes;
    int restarts = 0;
  };
  // Right to catch up over several pages; released by the destructor.
  struct LoadPermit {
    RedisCatalog* catalog = nullptr;  // null: not held
    ~LoadPermit();
  };
  // Takes the permit, or waits while another slot has it, whose reading may be all that is needed.
  // Returns false if that takes until `limit`.
  bool take_or_wait(LoadPermit& permit, RedisDeadline limit);
  CatchUp begin(const std::string& run) const;
  OrRedisFailure<CatalogPage> next_page(RedisConnectionPool::Session& session, const RedisKeys& keys,
                                        const std::string& user, const CatchUp& catch_up, bool full,
                                        RedisPipeline* behind);
  void take(CatchUp& catch_up, CatalogPage& page, const std::string& run);
  CatalogChange change_of(CatalogPage::Entry& entry);
  StorePoint settle(CatchUp catch_up, CatalogPage& page);

  const FeatureLimits limits_;
  const NameItem name_item_;
  const Options options_;
  CatalogMirror mirror_;
  std::mutex load_mutex_;  // guards loading_
  std::condition_variable load_ended_;
  bool loading_ = false;  // a slot is reading more than one page
  std::atomic<std::uint64_t> bad_records_ = 0;
};

}  // namespace troupe
