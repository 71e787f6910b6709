#pragma once
// A plan by which a request could be answered, with the names under which parts of it may be reused. A
// request has one for each plan that its policy considers; names are computed when it is made, and never
// again.
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe::router {

struct Candidate {
  std::string_view name;  // in the table of plans (plans.h), or of the request's kind
  Plan plan;
  std::vector<SegmentBlock> blocks;  // one for each segment; those without an owner are everybody's
};

// Whether the index is asked for it: what is everybody's is taken to be there.
inline bool is_asked_for(const SegmentBlock& block) { return block.name && !block.owner.empty(); }

}  // namespace troupe::router
