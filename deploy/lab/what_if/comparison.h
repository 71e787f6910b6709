#pragma once
// What the simulation says beside what was measured, figure by figure.
#include <map>
#include <string>
#include <vector>

#include "deploy/lab/bench/bench_client.h"
#include "placement/cost/cost_model.h"
#include "sim/runs/served_run.h"

namespace troupe::deploy {

// A simulated run in the words of the benchmark.
BenchRankRun as_bench_run(const sim::ServedResult& result, const std::string& policy,
                          const placement::HostWork& host);

struct ComparedFigure {
  std::string name;
  double measured = 0, predicted = 0;
  // Of the measured one; of shares (hit rates) the difference over the measured share or a twentieth,
  // whichever is more: a share of nearly nothing is hit well by another such.
  double error = 0;
};
std::vector<ComparedFigure> compare(const BenchRankRun& measured, const BenchRankRun& predicted);

using ErrorBounds = std::map<std::string, double>;  // by figure: the largest |error|
// Each "FIGURE=SHARE". Throws std::invalid_argument.
ErrorBounds parse_bounds(const std::vector<std::string>& texts);
// Those beyond their bound, for people; empty: none is.
std::vector<std::string> beyond(const std::vector<ComparedFigure>& figures, const ErrorBounds& bounds);

}  // namespace troupe::deploy
