#pragma once
// How long the stages of this router's requests took in the last minute, for whoever looks: quantiles to a
// fifth, out of counts alone, so that it takes the same memory whatever comes. And what its plans were, since
// the start.
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe::router {

class RecentTimes {
 public:
  void add(Instant now, const Timings& timings);

  struct Row {
    std::string_view stage;
    std::int64_t p50_us = 0, p99_us = 0;
    std::uint64_t requests = 0;
  };
  std::vector<Row> rows(Instant now) const;  // stages that no request went through are left out

 private:
  static constexpr std::size_t stages = 8, slots = 6, per_octave = 4,
                               buckets = 27 * per_octave;  // to two minutes
  static constexpr std::int64_t slot_us = 10'000'000;
  using Counts = std::array<std::uint32_t, buckets>;
  struct Slot {
    std::int64_t number = -1;  // of all ten seconds since the process began
    std::array<Counts, stages> counts{};
  };
  static std::size_t bucket_of(std::int64_t us);
  static std::int64_t us_of(std::size_t bucket);
  static std::int64_t quantile(const std::array<std::uint64_t, buckets>& counts, std::uint64_t all,
                               double share);

  std::array<Slot, slots> slots_;
};

// By the names of plans, of which there are as many as the table has and one for each repair that somebody
// asked for.
class PlanTally {
 public:
  struct Of {
    std::uint64_t requests = 0, tokens = 0, reused = 0;
  };
  void add(std::string_view plan, std::uint32_t tokens, std::uint32_t reused);
  const std::map<std::string, Of, std::less<>>& plans() const { return plans_; }

 private:
  static constexpr std::size_t plans_max = 24;  // all others are "others"
  std::map<std::string, Of, std::less<>> plans_;
};

}  // namespace troupe::router
