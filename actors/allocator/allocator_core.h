#pragma once
// The allocator agent of one node decides how the node's page pool is split between its areas (BAT §5.1: the
// item area is sized first, users get the rest). Boundaries are its own: it says how many pages each area has
// at first, and how many of them an area keeps in any case. Within that the KV-cache worker lends pages from
// area to area where plans of the policy planner ask for it, and reports how things stand, which the agent
// takes over as its split. It tells the worker until the worker reports that split, and again whenever a
// restarted worker reports an older one. It names the worker's incarnation, which it learns from the worker's
// reports, so that what it said to an earlier process has no power over the next (promise 5).
//
// With a policy (placement/split/) it decides again after each window, by what the window's reports came to,
// and areas lend nothing: where they would, the policy's alpha would not be what it is. Reports have sums
// since the worker's start, so one that is lost takes nothing from a window. With a policy or without, it
// says after each window what a page more would save in each area, and what a page less would cost.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "placement/split/split_policy.h"
#include "runtime/actor/core.h"

namespace troupe::actors {

struct AllocatorConfig {
  NodeId node = 1;
  std::uint32_t pages = 0;     // of the node's pool
  std::vector<double> shares;  // of each area (runtime/pool/pool_areas.h), 0..1; `rest_of_pages`: the rest
  Duration retry{100'000};     // between two tries to set the split
  // Null: areas stay as they are, and lend. `first`: the area that alpha is about.
  std::shared_ptr<placement::SplitPolicy> policy;
  std::size_t first = 0;
  Duration window{5'000'000};   // after which it decides
  Duration objective{100'000};  // of requests' latencies, for policies that go by them
  double history_max = 1'024;   // tokens of a user's that are many
  double kept = 0.9;            // of what areas would have saved, at each further window
};

class AllocatorCore final : public Core {
 public:
  explicit AllocatorCore(AllocatorConfig config);
  void step(Instant now, const Event& event, Effects& effects) override;

 private:
  void on_report(Instant now, Address from, const PoolReport& report, Effects& effects);
  void follow(const PoolReport& report);
  void set_split(Instant now, Effects& effects);
  void end_window(Instant now, Effects& effects);
  void decide(Instant now, Effects& effects);
  void note_savings();
  void tell_values(Effects& effects);
  placement::SplitState measure() const;
  void measure_served(placement::SplitState& state) const;
  bool take_shares(std::vector<double> shares);
  StatusReply status(RequestId id) const;
  bool settled() const { return report_ && report_->epoch >= split_.epoch; }
  Address worker() const { return {config_.node, Role::kv_worker}; }

  AllocatorConfig config_;
  SetSplit split_;
  std::optional<PoolReport> report_;  // the last one of the worker's latest incarnation
  std::optional<PoolReport> before_;  // that of the same incarnation with which the window began
  std::optional<Instant> window_ends_;
  std::vector<placement::Savings> savings_;  // of each area, over the windows so far, the earlier the less
  double windows_ = 0;                       // how many those stand for
  struct Value {                             // of a page, in microseconds a second
    double more = 0, less = 0;
  };
  std::vector<Value> values_;  // of each area, as of the last window
  bool retrying_ = false;      // a retry timer is running
};

}  // namespace troupe::actors
