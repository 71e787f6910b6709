#pragma once
// When requests come: at a constant rate, by chance (Poisson), or as in a recorded trace of some service
// whose times are stretched to the wanted rate and which begins again at its end.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/actor/core.h"
#include "sim/base/sim_random.h"

namespace troupe::deploy {

class Arrivals {
 public:
  // `kind`: "constant", "poisson", or a file: a table with a column t_ms (.tsv), or JSON lines with a
  // "timestamp" in ms (.jsonl), both plain or gzip. Throws ImportError.
  Arrivals(const std::string& kind, double per_second, std::uint64_t seed);

  Instant next();  // never before the one that it gave last; the first at 0

 private:
  enum class Kind : std::uint8_t { constant, poisson, recorded };
  Kind kind_ = Kind::recorded;
  double gap_us_;  // in the mean
  SimRandom random_;
  std::uint64_t count_ = 0;
  double at_us_ = 0;
  std::vector<double> recorded_;  // in mean gaps since the first one
};

}  // namespace troupe::deploy
