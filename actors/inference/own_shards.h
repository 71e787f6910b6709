#pragma once
// Fills the shards of spread embedding tables that this node owns, before any request needs them,
// as far as there are free pages. The walk over all shards is repeated, because shards may be
// evicted or found corrupt.
#include <cstdint>
#include <vector>

#include "actors/inference/shard_requests.h"
#include "actors/inference/task.h"
#include "runtime/actor/core.h"

namespace troupe::actors {

class OwnShards {
 public:
  OwnShards(const InferenceConfig& config, const ShardRequests& shards, Serials& serials)
      : config_(config), shards_(shards), serials_(serials) {}

  // Begins a walk that is due, or goes on with one whose request was lost. `begins` allows a new
  // walk.
  void advance(Instant now, bool begins, Effects& effects);
  // Returns false if the answer is not to its request.
  bool on_acquired(Instant now, BlocksAcquired& acquired, Effects& effects);
  bool on_job_done(Instant now, JobDone& done, Effects& effects);  // false: a different job
  std::uint64_t filled() const { return filled_; }                 // shards since the start

 private:
  void acquire_next(Instant now, Effects& effects);
  Address kv_worker() const { return {config_.node, Role::kv_worker}; }

  const InferenceConfig& config_;
  const ShardRequests& shards_;
  Serials& serials_;
  std::vector<ShardsFilled::Table> tables_;
  std::size_t table_ = 0;  // position of the walk
  std::uint32_t shard_ = 0;
  Serial asked_ = 0, job_ = 0;      // unanswered or unreleased request; running job; 0 = none
  std::vector<TableShard> chosen_;  // shards being acquired or filled
  Instant wait_deadline_, next_walk_;
  std::uint64_t filled_ = 0;
};

}  // namespace troupe::actors
