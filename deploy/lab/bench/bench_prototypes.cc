// Measures which share of the tokens of requests prototypes cover.
#include "deploy/lab/bench/bench_prototypes.h"

namespace troupe::deploy {

Coverage coverage_of(const kernels::Prototypes& prototypes, const RankEvents& events) {
  Coverage coverage;
  const auto start = static_cast<std::uint32_t>(events.form.system.size());
  for (const RankEvent& event : events.list) {
    for (std::uint32_t t = 0; t < event.history.size(); ++t) {
      const auto match = prototypes.nearest(event.history[t], start + t);
      if (!match) continue;
      ++coverage.covered;
      coverage.cosine += match->cosine;
    }
    coverage.tokens += event.history.size();
  }
  if (coverage.covered > 0) coverage.cosine /= static_cast<double>(coverage.covered);
  return coverage;
}

}  // namespace troupe::deploy
