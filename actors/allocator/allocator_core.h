#pragma once
// The allocator agent of one node decides how the node's page pool is split between item and user blocks (BAT
// §5.1: the item area is sized first, users get the rest). The split is fixed by the configuration, and where
// the worker begins: plans of the policy planner move its boundary by use, from then on. The agent
// tells its KV-cache worker until the worker reports that split, and again whenever a restarted worker
// reports an older one. It names the worker's incarnation, which it learns from the worker's reports, so that
// what it said to an earlier process has no power over the next (promise 5).
#include <cstdint>
#include <optional>

#include "runtime/actor/core.h"

namespace troupe::actors {

struct AllocatorConfig {
  NodeId node = 1;
  std::uint32_t pages = 0;  // of the node's pool
  double item_share = 0.5;  // 0..1
  Duration retry{100'000};  // between two tries to set the split
};

class AllocatorCore final : public Core {
 public:
  explicit AllocatorCore(AllocatorConfig config);
  void step(Instant now, const Event& event, Effects& effects) override;

 private:
  void on_report(Instant now, Address from, const PoolReport& report, Effects& effects);
  void set_split(Instant now, Effects& effects);
  StatusReply status(RequestId id) const;
  bool settled() const { return report_ && report_->epoch >= split_.epoch; }
  Address worker() const { return {config_.node, Role::kv_worker}; }

  AllocatorConfig config_;
  SetSplit split_;
  std::optional<PoolReport> report_;  // the last one of the worker's latest incarnation
  bool retrying_ = false;             // a retry timer is running
};

}  // namespace troupe::actors
