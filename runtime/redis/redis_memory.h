#pragma once
// Remembers the highest versions that a router ever saw in a Redis, so that none is used twice, and
// detects that the store has lost acknowledged writes.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>

#include "runtime/redis/redis_catalog.h"

namespace troupe {

// Thread-safe.
class RedisMemory {
 public:
  // Returns "" if nothing that was seen is lost; otherwise describes the loss. Each loss is
  // reported once.
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
    const LineageVersions seen{point.at, point.profiles};
    if (!same) present_ = seen;  // a late slot reports an older point of the same lineage
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
  struct LineageVersions {
    CatalogPosition at;
    std::uint64_t profiles = 0;
  };
  mutable std::mutex mutex_;
  LineageVersions present_;                   // highest versions of the lineage seen last
  std::uint64_t catalog_ = 0, profiles_ = 0;  // highest versions of all lineages
};

}  // namespace troupe
