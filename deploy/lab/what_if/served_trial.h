#pragma once
// A cluster of a model that is there, with its catalog and knobs, which serves a request trace at its times,
// simulated: what `troupe plan --serve --model` tries with more and fewer nodes. All requests are judged,
// after what is computed ahead was.
#include <cstdint>

#include "deploy/lab/what_if/served_world.h"
#include "deploy/planning/capacity.h"

namespace troupe::deploy {

// `world` but for its nodes and device. Throws as served_options does, std::logic_error if a promise is
// broken.
CapacityTrial try_served(const ServedWorld& world, const NodeType& type, std::uint32_t nodes);

}  // namespace troupe::deploy
