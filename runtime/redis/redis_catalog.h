#pragma once
// Reads of a Redis that holds profiles and catalog: in one round trip a profile, the catalog's version and
// what changed in it since this router looked last, all from one atomic step. The mirror follows on the way,
// so whatever was acknowledged anywhere before the question is in the answer.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/features/catalog_mirror.h"
#include "runtime/features/feature_store.h"
#include "runtime/redis/redis_lanes.h"
#include "runtime/redis/redis_scripts.h"
#include "runtime/store/store_rows.h"

namespace troupe {

// A state that the store really had.
struct StorePoint {
  CatalogPosition at;
  std::optional<std::string> user;     // the row
  CatalogPosition from;                // `changes` lead from here to `at`
  std::vector<CatalogChange> changes;  // in order of version
  std::uint64_t profiles = 0;          // the version of the profile that was written last
  std::string made_for;                // made_for.h; "": nothing is noted
};

// Plain commands that go with a question, and their answers.
struct RedisPipeline {
  std::vector<RedisCommand> commands;
  std::vector<RedisReply> replies;
};

// Thread-safe.
class RedisCatalog {
 public:
  struct Options {
    std::uint32_t page_items = 256;      // per round trip while catching up; at most 4096
    std::size_t history_max = 1 << 14;   // see CatalogMirror
    std::chrono::microseconds patience;  // for another lane that loads the whole catalog
  };
  RedisCatalog(const FeatureLimits& limits, NameItem name_item, const Options& options);

  // `user`: a key of user_key(); "": none. After a failure `session` is of no more use. `behind` goes with
  // each page; its replies are those of the last.
  OrRedisFailure<StorePoint> ask(RedisLanes::Session& session, const RedisKeys& keys, const std::string& user,
                                 RedisPipeline* behind = nullptr);
  // The catalog as it stood at `point`; null if that is not known any more: ask again.
  StoredCatalogPointer at(const StorePoint& point) const;

  const CatalogMirror& mirror() const { return mirror_; }
  std::uint64_t bad_records() const { return bad_records_.load() + mirror_.left_out(); }
  void count_bad_record() { ++bad_records_; }

 private:
  // What was read so far of a way that may take several pages.
  struct Gathering {
    CatalogPosition from;
    std::uint64_t base = 0, cursor = 0;
    std::vector<CatalogChange> changes;
    int restarts = 0;
  };
  // The right to go a long way; given back at its end.
  struct Turn {
    RedisCatalog* catalog = nullptr;
    ~Turn();
  };
  bool wait_for(Turn& turn);
  Gathering begin(const std::string& run) const;
  OrRedisFailure<CatalogPage> next_page(RedisLanes::Session& session, const RedisKeys& keys,
                                        const std::string& user, const Gathering& gathered,
                                        RedisPipeline* behind);
  void take(Gathering& gathered, CatalogPage& page, const std::string& run);
  CatalogChange change_of(CatalogPage::Entry& entry);
  StorePoint settle(Gathering gathered, CatalogPage& page);

  const FeatureLimits limits_;
  const NameItem name_item_;
  const Options options_;
  CatalogMirror mirror_;
  std::mutex turn_mutex_;  // guards loading_
  std::condition_variable turn_ended_;
  bool loading_ = false;  // a lane reads more than one page
  std::atomic<std::uint64_t> bad_records_ = 0;
};

}  // namespace troupe
