#pragma once
// The knob pool.placement: where the blocks of items belong.
#include <memory>
#include <string>
#include <vector>

#include "router/precompute/item_places.h"

namespace troupe::deploy {

// any: null. replicate, hash: on these nodes. Else FILE or FILE:NAME, a plan of `troupe plan --json` (NAME:
// which of its placements; hrcs if none is named), whose nodes have to be these. Throws ConfigError that says
// what is wrong.
std::shared_ptr<const router::ItemPlaces> item_places(const std::string& knob, std::vector<NodeId> workers);

}  // namespace troupe::deploy
