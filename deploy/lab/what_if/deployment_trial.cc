// Simulates a cluster with an existing model, catalog and settings that serves a request trace, for
// `troupe-lab plan --serve --model`.
#include "deploy/lab/what_if/deployment_trial.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "deploy/data/device_option.h"

namespace troupe::deploy {

namespace {

double share(std::uint64_t part, std::uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::uint64_t>(whole, 1));
}

}  // namespace

CapacityTrial try_deployment(const DeploymentInput& world, const NodeType& type, std::uint32_t nodes) {
  DeploymentInput tried = world;
  tried.device = device_of(type.device);
  tried.nodes = nodes;
  const sim::DeploymentResult result = sim::run_deployment(deployment_options(tried));
  if (!result.violations.empty())
    throw std::logic_error("promise " + std::to_string(result.violations.front().promise) +
                           " is broken: " + result.violations.front().what);
  const double never = std::numeric_limits<double>::infinity();
  return {.nodes = nodes,
          .p50_ms = result.answered > 0 ? result.p50_ms : never,
          .p99_ms = result.answered > 0 ? result.p99_ms : never,
          .lost = share(result.errors, result.requests),
          .token_hit_rate = share(result.tokens_reused, result.tokens_total),
          .requests_per_s = static_cast<double>(result.answered) / std::max(result.seconds, 1e-9)};
}

}  // namespace troupe::deploy
