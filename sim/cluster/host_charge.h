#pragma once
// What the host's own work costs the processors of a simulated cluster: steps of cores and what executors do
// beside passes, by a device's profile (placement/cost/host_work.h). A room's cost is charged to the step
// that has what it depends on, so that sums are right, and times are where most of the work is. It keeps what
// was charged, by room, and what for.
#include <array>
#include <map>

#include "placement/cost/host_work.h"
#include "runtime/actor/core.h"

namespace troupe::sim {

class HostCharge {
 public:
  HostCharge(const placement::HostWork& work, double token_bytes) : work_(work), token_bytes_(token_bytes) {}

  Duration step(NodeId node, const Event& event);
  // Beside its passes, on an executor that stood still for so long. What other rooms do about blocks that it
  // computed is charged where its end is heard of.
  Duration batch(NodeId node, const RunBatch& batch, Duration still);

  const std::array<double, placement::host_rooms>& used_us() const { return used_us_; }
  const placement::HostUnits& units() const { return units_; }

 private:
  double of_request(const RankRequest& request);
  double of_blocks(placement::HostRoom room, std::size_t blocks);
  double of_plan(const Execute& plan);
  double of_kept(NodeId node, const JobResult& result);
  Duration whole_us();
  double charge(placement::HostRoom room, const placement::HostUnits& units);

  placement::HostWork work_;
  double token_bytes_;
  std::array<double, placement::host_rooms> used_us_{};
  placement::HostUnits units_;
  std::map<NodeId, double> kept_;  // blocks, of batches whose end nobody has heard of
  double rest_us_ = 0;             // below a microsecond, still to be charged
};

}  // namespace troupe::sim
