#pragma once
// A node of an experiment about the split: the production pool and rows in memory, one queue, and a split
// policy that decides after each window. Requests are served in order of time; what is missing is computed or
// comes over the host link, and takes as long as the cost model says. Boundaries move by accounting alone; a
// side that grew fills by misses.
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

struct NodeOptions {
  double alpha = 0.5;  // at first
  double slo_us = 30'000;
  std::uint32_t length_max = 15'000;
  std::uint32_t shards = 1'024, rows_per_shard = 4'096;
  bool shadows = true;  // keeps shadow caches, for policies that read them
  double shadow_kept = 0.5;
};

class SplitNode {
 public:
  SplitNode(const SplitTimes& times, const NodeOptions& options);

  struct Served {
    double latency_us;
    double worth;  // of a microsecond that such a request would have been served sooner
  };
  Served serve(const SplitRequest& request, std::span<const std::uint32_t> rows);
  // A user of this node's came, here or to another: what keys of his would have spared is counted where they
  // would be kept. Counted where he was sent, nobody would see him come again once his keys are dropped and
  // he is sent anywhere.
  void note_user(const SplitRequest& request, double worth);
  // The policy, if there is one, decides.
  placement::SplitState end_window(placement::SplitPolicy* policy);

  double alpha() const { return alpha_; }
  bool has_kv(std::uint32_t user) const;
  // Of the rows of these shards that were used here lately, the share that was there.
  double coverage(std::span<const std::uint32_t> shards) const;
  double served_us() const { return served_us_; }  // of the window's requests, without waiting
  double waits_us(double at_us) const { return free_us_ > at_us ? free_us_ - at_us : 0; }

 private:
  struct ShardUse {
    float rows = 0, hits = 0;  // lately
  };
  bool use_kv(const SplitRequest& request);
  double use_rows(std::span<const std::uint32_t> rows);
  double worth_of(double served_us) const;
  placement::SplitState measure() const;
  void start_window();
  void set_alpha(double alpha);

  const SplitTimes& times_;
  NodeOptions options_;
  PagePool pool_;
  RowSlab rows_;
  std::vector<std::uint32_t> row_pages_;  // that the slab does not have now
  std::vector<ShardUse> shards_;
  placement::ShadowCache row_shadow_, kv_shadow_;
  double alpha_, p99_us_, free_us_ = 0;  // P99: a running mean of windows'
  // Of the window.
  std::vector<float> latencies_;
  double hot_ = 0, kv_hits_ = 0, rows_used_ = 0, row_hits_ = 0, events_ = 0, late_ = 0, served_us_ = 0;
  std::array<placement::Savings, 2> savings_{};
};

}  // namespace troupe::sim
