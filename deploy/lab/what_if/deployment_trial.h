#pragma once
// Simulates a cluster that serves a request trace at its times with an existing model, its catalog and its
// settings; `troupe-lab plan --serve --model` tries it with different numbers of nodes. The requests start
// after precomputation, and all of them are judged.
#include <cstdint>

#include "deploy/lab/planning/capacity.h"
#include "deploy/lab/what_if/deployment_input.h"

namespace troupe::deploy {

// Simulates `world` with `nodes` nodes of `type`. Throws what deployment_options throws, and std::logic_error
// if a promise is broken.
CapacityTrial try_deployment(const DeploymentInput& world, const NodeType& type, std::uint32_t nodes);

}  // namespace troupe::deploy
