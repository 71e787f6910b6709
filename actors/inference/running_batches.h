#pragma once
// The batches that run, one in each busy executor slot. A batch that missed rows of tables that are
// spread over nodes' memory acquires their shards from the KV-cache worker. That worker has the
// shards, pulls them from their owners, or lets the batch fill them from the table. Then the batch
// runs once more, in its slot.
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "actors/inference/batch_times.h"
#include "actors/inference/shard_requests.h"
#include "actors/inference/task.h"

namespace troupe::actors {

struct RunningBatch {
  std::vector<Task*> tasks;
  Instant started;
  placement::Work work;
  // Table shards that it missed, and the id of its request for them; 0 = none was sent. The batch
  // waits for the answer if the id is its key in RunningBatches; after that the key is its job.
  Serial asked = 0;
  std::vector<TableShard> missed;
  bool holds_shards = false;  // granted and not yet released
};

class RunningBatches {
 public:
  RunningBatches(const InferenceConfig& config, const ShardRequests& shards, Serials& serials)
      : config_(config), shards_(shards), serials_(serials) {}

  // Starts the job. Each task has its request.
  void start(Instant now, std::vector<Task*> tasks, const placement::Work& work, Effects& effects);
  // Ends a job: returns its batch, whose shards are released. Returns nothing if the batch missed
  // shards and will run again.
  std::optional<RunningBatch> end(Instant now, JobDone& done, Effects& effects);
  // Returns false if the answer is not about shards of a batch.
  bool on_acquired(Instant now, BlocksAcquired& acquired, Effects& effects);
  bool on_timer(Instant now, Serial serial, Effects& effects);  // false: a different timer

  std::size_t size() const { return batches_.size(); }
  double slot_us(const BatchTimes& times) const;  // sum over all batches
  // Returns true if each of them has more work than `batches` full batches.
  bool are_longer_than(double batches, const BatchTimes& times) const;

 private:
  void await_shards(Instant now, RunningBatch batch, std::vector<TableShard> away, Effects& effects);
  void run_with_shards(Instant now, Serial asked, std::vector<BlockGrant> grants, Effects& effects);
  void start_job(Instant now, RunningBatch batch, RunBatch work, Effects& effects);
  Address kv_worker() const { return {config_.node, Role::kv_worker}; }

  const InferenceConfig& config_;
  const ShardRequests& shards_;
  Serials& serials_;
  std::map<Serial, RunningBatch> batches_;  // by job; see RunningBatch::asked
};

}  // namespace troupe::actors
