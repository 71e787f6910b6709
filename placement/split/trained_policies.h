#pragma once
// What `troupe train` has learned, as text that is kept in the repository: HLEM's base policy and the boosted
// trees. Numbers are written so that reading gives back exactly what was written.
//
//   troupe-split-policies 1
//   made by: troupe train --episodes 600 --seed 1
//   base 7 64 128 7
//   <its weights, in the order of mlp.h>
//   trees 120 <base>
//   <of each tree: seven values, seven thresholds, eight leaves>
#include <string>
#include <string_view>

#include "placement/split/mlp.h"
#include "placement/split/trees.h"

namespace troupe::placement {

struct TrainedPolicies {
  std::string made_by;
  Mlp base;
  BoostedTrees trees;
};

std::string policies_text(const TrainedPolicies& policies);
// Throws std::invalid_argument with the place and what was expected; `where` names the text in it.
TrainedPolicies parse_policies(std::string_view text, const std::string& where);

}  // namespace troupe::placement
