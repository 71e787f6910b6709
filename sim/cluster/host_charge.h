#pragma once
// Processor cost of the host's own work in a simulated cluster: steps of cores, and what executors do
// beside batches, by a device's profile (placement/cost/host_work.h). Each component's cost is charged to
// the step that has its inputs, so sums are right, and times are where most of the work is. The class also
// records what was charged, by component, and for what.
#include <array>
#include <map>

#include "placement/cost/host_work.h"
#include "runtime/actor/core.h"

namespace troupe::sim {

class HostCharge {
 public:
  HostCharge(const placement::HostWork& work, double token_bytes) : work_(work), token_bytes_(token_bytes) {}

  // Returns the processor time of a step.
  Duration step(NodeId node, const Event& event);
  // Returns the cost beside a batch on an executor that was idle for `still`. Other components' work on the
  // blocks that the batch computed is charged when its end is reported.
  Duration batch(NodeId node, const RunBatch& batch, Duration still);

  const std::array<double, placement::host_components>& used_us() const { return used_us_; }
  const placement::HostUnits& units() const { return units_; }

 private:
  double of_request(std::size_t candidates);
  double of_blocks(placement::HostComponent component, std::size_t blocks);
  double of_plan(const Execute& plan);
  double of_kept(NodeId node, const JobResult& result);
  Duration whole_us();
  double charge(placement::HostComponent component, const placement::HostUnits& units);

  placement::HostWork work_;
  double token_bytes_;
  std::array<double, placement::host_components> used_us_{};
  placement::HostUnits units_;
  std::map<NodeId, double> kept_;  // blocks of batches whose end was not reported yet
  double rest_us_ = 0;             // below a microsecond, charged later
};

}  // namespace troupe::sim
