#pragma once
// Measures how much of the requests of `troupe-lab bench plans` a model's prototypes cover.
#include <cstdint>

#include "deploy/lab/bench/bench_plans.h"
#include "kernels/decoder/prototypes.h"

namespace troupe::deploy {

// Number of tokens of the requests' histories, and of those that a prototype can replace.
struct Coverage {
  std::uint64_t tokens = 0, covered = 0;
  double cosine = 0;  // mean over the covered tokens
};
Coverage coverage_of(const kernels::Prototypes& prototypes, const RankEvents& events);

}  // namespace troupe::deploy
