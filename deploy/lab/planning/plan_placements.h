#pragma once
// Computes the placements that `troupe-lab plan` compares, each with its predicted gain and the result
// of simulated requests.
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
  std::uint64_t memory_bytes = 0;  // per node, for items
  std::uint32_t candidates = 0;
  double user_tokens = 0, item_tokens = 0;  // means
  double alpha = 0;                         // maximum share of the prefill time for pulls
};

// Accesses and requests to plan with. A plan performs too well on the data it was made with.
// Therefore shares are predicted from held-out accesses and requests, and simulated with a third
// part. Without histories, both samples are drawn.
struct PlanWorkload {
  placement::Items items;
  placement::AccessDistribution accesses;
  placement::Requests histories;  // may be empty: then it is unknown which items are requested together
  placement::Requests predict, simulate;
  std::optional<placement::AccessDistribution> held_out;  // unset: predict from `accesses`
};

struct PlannedPlacement {
  std::string name;
  placement::Placement placement;
  std::string why;
  std::uint64_t everywhere = 0, sharded = 0, nowhere = 0;  // numbers of items
  std::vector<std::uint64_t> node_bytes;
  placement::ExpectedShares expected;
  placement::CountedShares predicted, simulated;
  double pulled_bytes = 0;  // per request that runs on any node
  // share of time with pulls, while a node computes without pause; Algorithm 1 permits alpha
  double link_busy = 0;
};

// Returns the largest difference between predicted and simulated local shares, on any node or on
// the best one.
double prediction_gap(const PlannedPlacement& planned);

// Returns the input for one request, from the cost model and the link.
placement::ReplicationInput replication_input(const PlanSetup& setup);

inline const std::vector<std::string> placement_names{"hrcs", "replicate", "hash", "metis"};

// Plans the placement `name`, one of placement_names. Returns nullopt for metis without histories.
// `earlier` is the present placement, or null.
std::optional<PlannedPlacement> plan_placement(const std::string& name, const PlanSetup& setup,
                                               const PlanWorkload& workload,
                                               const placement::Placement* earlier = nullptr);

}  // namespace troupe::deploy
