// Measures how long a split policy takes to decide (placement/split/): the median and the 99th percentile
// of many decisions, in nanoseconds. Learned policies have untrained weights here, which take as long.
//
//   decision_bench [decisions]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/base/hash.h"
#include "placement/baselines/experiment_split.h"
#include "placement/split/ppo.h"

namespace {

using namespace troupe::placement;

double unit(std::uint64_t& state) {
  return static_cast<double>((state = troupe::spread(state)) >> 11) * 0x1p-53;
}

SplitState draw_state(std::uint64_t& state, double alpha) {
  return {unit(state), unit(state), unit(state), unit(state), unit(state) * 0.1, alpha, unit(state)};
}

// Draws concave curves of unequal height.
std::vector<Savings> draw_savings(std::uint64_t& state, std::size_t areas) {
  std::vector<Savings> savings(areas);
  for (Savings& curve : savings) {
    const double height = 1 + unit(state);
    for (std::size_t cell = 0; cell <= split_cells; ++cell)
      curve[cell] = height * static_cast<double>(cell) / (static_cast<double>(cell) + 30);
  }
  return savings;
}

std::vector<double> time_decisions(SplitPolicy& policy, std::size_t areas, std::size_t decisions) {
  std::uint64_t state = 1;
  std::vector<double> ns, shares(areas, 1.0 / static_cast<double>(areas));
  for (std::size_t i = 0; i < decisions; ++i) {
    const std::vector<Savings> savings = draw_savings(state, areas);
    const SplitView view{draw_state(state, shares[0]), savings};
    const auto start = std::chrono::steady_clock::now();
    policy.decide(view, shares);
    ns.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(ns);
  return ns;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t decisions = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 20'000;
  TrainedPolicies trained{"nobody", base_network(), {}};
  trained.base.draw(1, 1);
  trained.trees.trees.resize(120);
  for (const auto& [name, areas] : {std::pair<std::string, std::size_t>{"static:0.5", 2},
                                    {"pid", 2},
                                    {"bayes", 2},
                                    {"trees", 2},
                                    {"ppo", 2},
                                    {"smart", 2},
                                    {"marginal", 2},
                                    {"marginal", 3},
                                    {"marginal", 4}}) {
    const auto policy = make_experiment_split(name, {.trained = &trained});
    const std::size_t count = std::max<std::size_t>(10, name == "bayes" ? decisions / 100 : decisions);
    const std::vector<double> ns = time_decisions(*policy, areas, count);
    std::printf("%-12s %zu areas: median %8.0f ns, 99 %% within %8.0f ns\n", name.c_str(), areas,
                ns[ns.size() / 2], ns[ns.size() * 99 / 100]);
  }
}
