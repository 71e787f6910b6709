#pragma once
// Arrival times of requests: at a constant rate, Poisson, or as recorded at some service. Recorded times are
// stretched to the wanted rate and repeat after their end.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/actor/core.h"
#include "sim/base/random_stream.h"

namespace troupe::deploy {

class Arrivals {
 public:
  // `kind` is "constant", "poisson", or a file. A file is a table with a column t_ms (.tsv), or JSON lines
  // with a "timestamp" in ms (.jsonl), plain or gzip. Throws ImportError.
  Arrivals(const std::string& kind, double per_second, std::uint64_t seed);

  Instant next();  // returns times that never decrease, the first one 0

 private:
  enum class Kind : std::uint8_t { constant, poisson, recorded };
  Kind kind_ = Kind::recorded;
  double gap_us_;  // mean time between requests
  RandomStream random_;
  std::uint64_t count_ = 0;
  double at_us_ = 0;
  std::vector<double> recorded_;  // times since the first one, in mean gaps
};

}  // namespace troupe::deploy
