#pragma once
// Statistics of this router's requests for observers. RecentTimes gives quantiles of the stages'
// durations in the last minute, exact to a fifth. It keeps only counts, so its memory does not
// grow. PlanTotals counts plans and their tokens since the start.
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
  std::vector<Row> rows(Instant now) const;  // leaves out stages that no request went through

 private:
  static constexpr std::size_t stages = 8, slots = 6, per_octave = 4,
                               buckets = 27 * per_octave;  // up to two minutes
  static constexpr std::int64_t slot_us = 10'000'000;
  using Counts = std::array<std::uint32_t, buckets>;
  struct Slot {
    std::int64_t number = -1;  // number of this ten-second slot since the process started; -1 = unused
    std::array<Counts, stages> counts{};
  };
  static std::size_t bucket_of(std::int64_t us);
  static std::int64_t us_of(std::size_t bucket);
  static std::int64_t quantile(const std::array<std::uint64_t, buckets>& counts, std::uint64_t all,
                               double share);

  std::array<Slot, slots> slots_;
};

// Counts by plan name. The names are those of the plan table, plus one for each repair that a
// request asked for.
class PlanTotals {
 public:
  struct Totals {
    std::uint64_t requests = 0, tokens = 0, reused = 0;
  };
  void add(std::string_view plan, std::uint32_t tokens, std::uint32_t reused);
  const std::map<std::string, Totals, std::less<>>& plans() const { return plans_; }

 private:
  static constexpr std::size_t plans_max = 24;  // names beyond that count as "others"
  std::map<std::string, Totals, std::less<>> plans_;
};

}  // namespace troupe::router
