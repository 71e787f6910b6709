#pragma once
// Compares a simulated run with a measured one, figure by figure.
#include <map>
#include <string>
#include <vector>

#include "deploy/lab/bench/bench_client.h"
#include "placement/cost/cost_model.h"
#include "sim/runs/deployment_run.h"

namespace troupe::deploy {

// Converts a simulated run into the benchmark's result.
BenchRankRun as_bench_run(const sim::DeploymentResult& result, const std::string& policy,
                          const placement::HostWork& host);

struct ComparedFigure {
  std::string name;
  double measured = 0, predicted = 0;
  // Relative error: the difference over the measured value. For shares (hit rates) the divisor is at least a
  // twentieth, because the relative error of a tiny share says nothing.
  double error = 0;
};
std::vector<ComparedFigure> compare(const BenchRankRun& measured, const BenchRankRun& predicted);

using ErrorBounds = std::map<std::string, double>;  // largest |error| by figure
// Parses texts of the form "FIGURE=SHARE". Throws std::invalid_argument.
ErrorBounds parse_bounds(const std::vector<std::string>& texts);
// Describes the figures that exceed their bound; empty if none does.
std::vector<std::string> exceeded_bounds(const std::vector<ComparedFigure>& figures,
                                         const ErrorBounds& bounds);

}  // namespace troupe::deploy
