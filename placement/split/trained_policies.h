#pragma once
// Converts what `troupe-lab train` learned (HLEM's base policy and the boosted trees) to and from a
// text that is kept in the repository. Parsing gives back exactly the numbers that were written.
//
//  troupe-split-policies 1
//  made by: troupe-lab train --episodes 600 --seed 1
//  base 7 64 128 7
//  <its weights, in the order of mlp.h>
//  trees 120 <base>
//  <for each tree: seven values, seven thresholds, eight leaves>
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
// Throws std::invalid_argument with the line and what was expected; `where` names the text in
// errors.
TrainedPolicies parse_policies(std::string_view text, const std::string& where);

}  // namespace troupe::placement
