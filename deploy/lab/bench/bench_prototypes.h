#pragma once
// Measures how much of the requests of `troupe-lab bench plans` a model's prototypes cover.
#include <cstdint>

#include "deploy/lab/bench/bench_plans.h"
#include "kernels/decoder/prototypes.h"

namespace troupe::deploy {

// Number of tokens of the requests' histories, and of those that a prototype can replace.
struct Coverage {
  std::uint64_t tokens = 0;
  std::uint64_t hashed = 0;                 // tokens that the prototypes' table does not cover
  std::uint64_t by_table = 0, by_hash = 0;  // tokens with a prototype, by how it was found
  double cosine = 0;                        // mean over the tokens with a prototype

  std::uint64_t covered() const { return by_table + by_hash; }
  double share(std::uint64_t count) const;  // of all tokens
};
Coverage coverage_of(const kernels::Prototypes& prototypes, const RankEvents& events);

}  // namespace troupe::deploy
