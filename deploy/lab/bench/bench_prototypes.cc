// Measures which share of the tokens of requests prototypes cover.
#include "deploy/lab/bench/bench_prototypes.h"

namespace troupe::deploy {

double Coverage::share(std::uint64_t count) const {
  return tokens == 0 ? 0 : static_cast<double>(count) / static_cast<double>(tokens);
}

// Does not ask for matches, whose results are kept: plans that are timed later would find them.
Coverage coverage_of(const kernels::Prototypes& prototypes, const RankEvents& events) {
  Coverage coverage;
  const auto start = static_cast<std::uint32_t>(events.form.system.size());
  for (const RankEvent& event : events.list) {
    for (std::uint32_t t = 0; t < event.history.size(); ++t) {
      const Token token = event.history[t];
      const bool looked_up = prototypes.table().find(token, start + t) || prototypes.is_never(token);
      coverage.hashed += !looked_up;
      const auto match = prototypes.nearest(token, start + t);
      if (!match) continue;
      ++(looked_up ? coverage.by_table : coverage.by_hash);
      coverage.cosine += match->cosine;
    }
    coverage.tokens += event.history.size();
  }
  if (coverage.covered() > 0) coverage.cosine /= static_cast<double>(coverage.covered());
  return coverage;
}

}  // namespace troupe::deploy
