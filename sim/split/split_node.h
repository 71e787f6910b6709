#pragma once
// Node of a pool-split experiment: the production pool, rows in memory, and a split policy that decides
// after each window. A request passes two stations in order of arrival: the host link copies its missing
// rows, then the device computes it. While one request computes, the next one's rows are copied. Times are
// the cost model's. Boundaries move by accounting alone. Rows refill a grown area in the background, at the
// production node's pace (actors/inference/refill_pace.h) while the link is idle; keys and values fill
// theirs by misses.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/inference/refill_pace.h"
#include "placement/split/shadow_cache.h"
#include "placement/split/split_policy.h"
#include "runtime/pool/page_pool.h"
#include "runtime/pool/row_slab.h"
#include "sim/split/split_stations.h"
#include "sim/split/split_times.h"
#include "sim/split/split_workload.h"

namespace troupe::sim {

struct SplitNodeOptions {
  double alpha = 0.5;  // initial value
  double slo_us = 30'000;
  std::uint32_t length_max = 15'000;
  std::uint32_t shards = 1'024, rows_per_shard = 4'096;
  bool shadows = true;  // keep shadow caches, for policies that read them
  double shadow_kept = 0.5;
  double refill_per_s = 3.2e9;  // bytes of rows; misses count towards it; 0 = no refill
};

class SplitNode {
 public:
  SplitNode(const SplitTimes& times, const SplitNodeOptions& options);

  double serve(const SplitRequest& request, std::span<const std::uint32_t> rows);  // returns the latency
  // Records a request of a user whose home is this node, wherever it was served. The savings of the user's
  // keys count where they would be kept. Counted at the serving node, a user whose keys were dropped would
  // never be seen to return.
  void note_user(const SplitRequest& request);
  // Returns what rows, and keys and values, would have saved so far, by hundredths of the pool.
  using SavingsOfAreas = std::array<placement::Savings, 2>;
  SavingsOfAreas savings() const { return {row_shadow_.savings(), kv_shadow_.savings()}; }
  // Ends the window; the policy, if not null, sets the split by these savings (none: no curves).
  placement::SplitState end_window(placement::SplitPolicy* policy,
                                   std::span<const placement::Savings> savings = {});

  double alpha() const { return alpha_; }
  bool has_kv(std::uint32_t user) const;
  // Returns the share of recently used rows of these shards that were in memory.
  double coverage(std::span<const std::uint32_t> shards) const;
  const StationTimes& served() const { return served_; }  // of the window's requests, without waiting
  StationTimes waits(double at_us) const { return stations_.waits(at_us); }
  std::uint64_t refilled() const { return rows_.counts().refilled; }

 private:
  struct ShardUse {
    float rows = 0, hits = 0;  // recent, decaying counts
  };
  bool use_kv(const SplitRequest& request);
  double use_rows(std::span<const std::uint32_t> rows);
  void refill_rows(double at_us);
  placement::SplitState measure() const;
  void start_window();
  void set_alpha(double alpha);

  const SplitTimes& times_;
  SplitNodeOptions options_;
  PagePool pool_;
  RowSlab rows_;
  std::vector<std::uint32_t> row_pages_;  // pages of the pool that the slab does not use now
  std::vector<ShardUse> shards_;
  placement::ShadowCache row_shadow_, kv_shadow_;
  Stations stations_;
  actors::RefillPace pace_;
  double alpha_;
  // Counts of the current window.
  std::vector<float> latencies_;
  double hot_ = 0, kv_hits_ = 0, rows_used_ = 0, row_hits_ = 0, events_ = 0, late_ = 0;
  StationTimes served_;
};

}  // namespace troupe::sim
