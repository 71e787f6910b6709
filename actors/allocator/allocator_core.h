#pragma once
// The allocator agent of a node decides how the node's page pool is split between its areas. The
// item area is sized first and users get the rest (BAT §5.1). The agent sets two numbers per area:
// its initial pages, and the pages that it keeps in any case. Within those bounds the KV-cache
// worker lends pages from area to area when plans of the policy `planner` need them. The worker
// reports the resulting sizes, and the agent adopts them as its split.
//
// The agent sends its split until the worker reports it, and again whenever a restarted worker
// reports an older one. Each message names the worker's incarnation, which the agent learns from
// reports. So a message meant for an earlier process has no effect on the next one (promise 5).
//
// With a policy (placement/split/) the agent decides again after each window, from the window's
// reports. Areas then lend nothing, because lending would change the policy's alpha. Reports carry
// sums since the worker's start, so a lost report loses nothing from a window. With or without a
// policy, the agent counts after each window what one more page would save in each area, and what
// one page less would cost.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "placement/split/split_policy.h"
#include "runtime/actor/core.h"

namespace troupe::actors {

struct AllocatorConfig {
  NodeId node = 1;
  std::uint32_t pages = 0;  // pages in the node's pool
  // share per area (runtime/pool/pool_areas.h), 0..1; `remaining_pages` = what the others leave
  std::vector<double> shares;
  std::string item_area;    // how the item area was sized, for the status; "" = not said
  Duration retry{100'000};  // between two attempts to set the split
  // Null: areas keep their sizes and lend. `first` is the area whose share is alpha.
  std::shared_ptr<placement::SplitPolicy> policy;
  std::size_t first = 0;
  Duration window{5'000'000};   // length of a decision window
  Duration objective{100'000};  // latency objective, for policies that use latencies
  double history_max = 1'024;   // user tokens that count as a long history (SplitState::length = 1)
  // Decay factor of the areas' savings per further window with requests: a memory of some fifty such
  // windows, so that one odd window moves little (measured: tests/bench/results/papers-hlem.md).
  double kept = 0.98;
};

class AllocatorCore final : public Core {
 public:
  explicit AllocatorCore(AllocatorConfig config);
  void step(Instant now, Event&& event, Effects& effects) override;

 private:
  void on_report(Instant now, Address from, PoolReport&& report, Effects& effects);
  void follow_worker();
  void set_split(Instant now, Effects& effects);
  void end_window(Instant now, Effects& effects);
  void decide(Instant now, Effects& effects);
  void note_savings();
  void count_page_values(Effects& effects);
  placement::SplitState measure() const;
  void measure_served(placement::SplitState& state) const;
  bool set_shares(std::vector<double> shares);
  StatusReply status(RequestId id) const;
  bool settled() const { return report_ && report_->epoch >= split_.epoch; }
  Address worker() const { return {config_.node, Role::kv_worker}; }

  AllocatorConfig config_;
  SetSplit split_;
  std::optional<PoolReport> report_;  // latest report of the worker's latest incarnation
  std::optional<PoolReport> before_;  // report of the same incarnation at the start of the window
  std::optional<Instant> window_ends_;
  // Per area: sum over the windows so far, decayed by `kept`.
  std::vector<placement::Savings> savings_;
  double windows_ = 0;  // decayed number of windows in `savings_`, with those without requests
  struct PageValue {    // savings of one page, in microseconds per second
    double more = 0, less = 0;
  };
  std::vector<PageValue> values_;  // per area, from the last window
  bool retrying_ = false;          // a retry timer is running
};

}  // namespace troupe::actors
