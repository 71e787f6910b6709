#pragma once
// What a router remembers of a Redis beside its rows: the highest versions that it ever saw there, so that
// none is given out twice, and whether the store has forgotten what it had acknowledged.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>

#include "runtime/redis/redis_catalog.h"

namespace troupe {

// Thread-safe.
class RedisMemory {
 public:
  // "": all that was seen is still there; else what was lost, in words. Each loss is told once.
  std::string note(const StorePoint& point) {
    const std::lock_guard lock(mutex_);
    const bool same = present_.at.same_lineage(point.at);
    const bool went_back = !same && !present_.at.run.empty() &&
                           (point.at.version < present_.at.version || point.profiles < present_.profiles);
    std::string lost;
    if (went_back)
      lost = "catalog version " + std::to_string(point.at.version) + " after " +
             std::to_string(present_.at.version) + ", profile version " + std::to_string(point.profiles) +
             " after " + std::to_string(present_.profiles);
    const Seen seen{point.at, point.profiles};
    if (!same) present_ = seen;  // a lane that is late tells an older point of the same lineage
    present_.at.version = std::max(present_.at.version, seen.at.version);
    present_.profiles = std::max(present_.profiles, seen.profiles);
    catalog_ = std::max(catalog_, seen.at.version);
    profiles_ = std::max(profiles_, seen.profiles);
    return lost;
  }
  void note_profile(std::uint64_t written) {
    const std::lock_guard lock(mutex_);
    profiles_ = std::max(profiles_, written);
  }
  std::uint64_t catalog() const {
    const std::lock_guard lock(mutex_);
    return catalog_;
  }
  std::uint64_t profiles() const {
    const std::lock_guard lock(mutex_);
    return profiles_;
  }

 private:
  struct Seen {
    CatalogPosition at;
    std::uint64_t profiles = 0;
  };
  mutable std::mutex mutex_;
  Seen present_;                              // of the lineage that was seen last
  std::uint64_t catalog_ = 0, profiles_ = 0;  // of all lineages
};

}  // namespace troupe
