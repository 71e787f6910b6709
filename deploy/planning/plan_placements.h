#pragma once
// The placements that `troupe plan` compares, each with what it is predicted to buy, and what a simulation of
// requests says to that.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "placement/assignment/hrcs.h"
#include "placement/assignment/local_share.h"
#include "placement/cost/cost_model.h"

namespace troupe::deploy {

struct PlanSetup {
  placement::DeviceProfile device;
  placement::ModelShape shape;
  placement::LinkProfile link;
  std::vector<placement::NodeNumber> nodes;
  std::uint64_t memory_bytes = 0;  // of each node, for items
  std::uint32_t candidates = 0;
  double user_tokens = 0, item_tokens = 0;  // on average
  double alpha = 0;                         // of the prefill time, for pulls
};

// What is asked for. What a plan was made with flatters it, so shares are predicted from accesses and
// requests that were held out, and simulated with others still. Where no histories are known, the two samples
// are drawn.
struct PlanWorkload {
  placement::Items items;
  placement::AccessDistribution accesses;
  placement::Requests histories;  // may be empty: then nothing is known of what goes together
  placement::Requests predict, simulate;
  std::optional<placement::AccessDistribution> held_out;  // none: predict from `accesses`
};

struct PlannedPlacement {
  std::string name;
  placement::Placement placement;
  std::string why;
  std::uint64_t everywhere = 0, sharded = 0, nowhere = 0;  // items
  std::vector<std::uint64_t> node_bytes;
  placement::ExpectedShares expected;
  placement::CountedShares predicted, simulated;
  double pulled_bytes = 0;  // of a request that runs on any node
  double link_busy = 0;     // with pulls, while a node computes all the time; Algorithm 1 allows alpha
};

// How far the shares that are local are from the simulated ones, on any node or on the best one.
double prediction_gap(const PlannedPlacement& planned);

// Of one request, from the cost model and the link.
placement::ReplicationInput replication_input(const PlanSetup& setup);

inline const std::vector<std::string> placement_names{"hrcs", "replicate", "hash", "metis"};

// One of placement_names. None if it is metis and there are no histories. earlier: what is there now.
std::optional<PlannedPlacement> plan_placement(const std::string& name, const PlanSetup& setup,
                                               const PlanWorkload& workload,
                                               const placement::Placement* earlier = nullptr);

}  // namespace troupe::deploy
