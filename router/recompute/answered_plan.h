#pragma once
// A request that was answered, as its plan and the values that its answer was made of. From these
// the plan can be computed again without any cached block, and the two results compared. An answer
// whose difference is more than rounding was made of something else than its plan says, such as a
// damaged block.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "router/flights/flight.h"

namespace troupe::router {

// An answered request's plan and the values that its answer was made of.
struct AnsweredPlan {
  std::string request_id;  // x-request-id of its response
  TraceContext trace;
  std::string tenant, user;    // user "" = none
  std::string_view kind;       // name of its RequestKind: rank, generate, complete or score
  std::string_view plan_name;  // as the reply names it
  Plan plan;
  std::string model_version, catalog_version;  // catalog_version "" = the plan needs no catalog
  std::uint64_t profile_version = 0;           // 0 = none
  std::vector<ScoreRow> rows;                  // one per readout
  std::vector<Beam> beams;                     // of the plan's search
  NodeId node = 0;                             // node that answered
  std::uint32_t blocks_reused = 0;
};

// Copies the plan and the result of a flight that is about to be answered.
AnsweredPlan answered_plan(const Flight& flight, NodeId node, const Executed& executed);

// Returns the message that computes the plan again as background work, without any cached block,
// and keeps none.
Execute recompute(const AnsweredPlan& answered, RequestId id, Duration budget);

// Largest difference between two results of one plan, and the bound up to which it is rounding.
struct Difference {
  double largest = 0, bound = 0;
  bool is_rounding() const { return largest <= bound; }
};

// Compares all readouts and the beams' log-probabilities, each beam with that of the same path or,
// where there is none, of the same rank. `rounding` is relative to the largest value of the answer,
// or to 1 if all values are smaller. A result of another shape or with non-finite values is an
// infinite difference.
Difference compare(const AnsweredPlan& answered, const Executed& again, double rounding);

}  // namespace troupe::router
