#pragma once
// Node of a pool-split experiment: the production pool, rows in memory, one queue, and a split policy that
// decides after each window. Requests are served in order of time. Missing data is computed or comes over
// the host link, at the cost model's times. Boundaries move by accounting alone; an area that grew is
// filled by misses.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "placement/split/shadow_cache.h"
#include "placement/split/split_policy.h"
#include "runtime/pool/page_pool.h"
#include "runtime/pool/row_slab.h"
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
};

class SplitNode {
 public:
  SplitNode(const SplitTimes& times, const SplitNodeOptions& options);

  struct ServedRequest {
    double latency_us;
    double worth;  // value of serving such a request one microsecond sooner
  };
  ServedRequest serve(const SplitRequest& request, std::span<const std::uint32_t> rows);
  // Records a request of a user whose home is this node, wherever it was served. The savings of the user's
  // keys count where they would be kept. Counted at the serving node, a user whose keys were dropped would
  // never be seen to return.
  void note_user(const SplitRequest& request, double worth);
  // Ends the window; the policy, if not null, sets the split.
  placement::SplitState end_window(placement::SplitPolicy* policy);

  double alpha() const { return alpha_; }
  bool has_kv(std::uint32_t user) const;
  // Returns the share of recently used rows of these shards that were in memory.
  double coverage(std::span<const std::uint32_t> shards) const;
  double served_us() const { return served_us_; }  // of the window's requests, without waiting
  double waits_us(double at_us) const { return free_us_ > at_us ? free_us_ - at_us : 0; }

 private:
  struct ShardUse {
    float rows = 0, hits = 0;  // recent, decaying counts
  };
  bool use_kv(const SplitRequest& request);
  double use_rows(std::span<const std::uint32_t> rows);
  double worth_of(double served_us) const;
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
  double alpha_, p99_us_, free_us_ = 0;  // P99: a running mean over windows
  // Counts of the current window.
  std::vector<float> latencies_;
  double hot_ = 0, kv_hits_ = 0, rows_used_ = 0, row_hits_ = 0, events_ = 0, late_ = 0, served_us_ = 0;
  std::array<placement::Savings, 2> savings_{};
};

}  // namespace troupe::sim
