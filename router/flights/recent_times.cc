// Collects how long each stage of a request took in the last minute, as counts per duration, and
// gives quantiles. Also totals plans and tokens, all for status pages.
#include "router/flights/recent_times.h"

#include <algorithm>
#include <cmath>

namespace troupe::router {

namespace {

constexpr std::string_view names[] = {"features", "lookup", "turn",    "blocks",
                                      "pull",     "queue",  "compute", "total"};

std::array<std::int64_t, std::size(names)> times_of(const Timings& t) {
  return {t.features, t.lookup, t.turn, t.blocks, t.pull, t.queue, t.compute, t.total};
}

}  // namespace

// Four buckets per octave.
std::size_t RecentTimes::bucket_of(std::int64_t us) {
  if (us < 1) return 0;
  const double octaves = std::log2(static_cast<double>(us));
  return std::min(buckets - 1, static_cast<std::size_t>(octaves * per_octave));
}

std::int64_t RecentTimes::us_of(std::size_t bucket) {
  return std::llround(std::exp2((static_cast<double>(bucket) + 0.5) / per_octave));
}

void RecentTimes::add(Instant now, const Timings& timings) {
  const std::int64_t number = now.us / slot_us;
  Slot& slot = slots_[static_cast<std::size_t>(number) % slots];
  if (slot.number != number) slot = {.number = number};
  const auto times = times_of(timings);
  for (std::size_t i = 0; i < stages; ++i) {
    const bool passed = times[i] > 0 || names[i] == "total";
    if (passed) ++slot.counts[i][bucket_of(times[i])];
  }
}

std::int64_t RecentTimes::quantile(const std::array<std::uint64_t, buckets>& counts, std::uint64_t all,
                                   double share) {
  const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(all)));
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < buckets; ++i)
    if ((below += counts[i]) >= std::max<std::uint64_t>(rank, 1)) return us_of(i);
  return us_of(buckets - 1);
}

std::vector<RecentTimes::Row> RecentTimes::rows(Instant now) const {
  const std::int64_t oldest = now.us / slot_us - static_cast<std::int64_t>(slots) + 1;
  std::vector<Row> rows;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    std::array<std::uint64_t, buckets> counts{};
    std::uint64_t all = 0;
    for (const Slot& slot : slots_) {
      if (slot.number < oldest) continue;
      for (std::size_t i = 0; i < buckets; ++i)
        counts[i] += slot.counts[stage][i], all += slot.counts[stage][i];
    }
    if (all > 0) rows.push_back({names[stage], quantile(counts, all, 0.5), quantile(counts, all, 0.99), all});
  }
  return rows;
}

void PlanTotals::add(std::string_view plan, std::uint32_t tokens, std::uint32_t reused) {
  auto at = plans_.find(plan);
  if (at == plans_.end())
    at = plans_.try_emplace(plans_.size() + 1 < plans_max ? std::string(plan) : "others").first;
  ++at->second.requests;
  at->second.tokens += tokens;
  at->second.reused += reused;
}

}  // namespace troupe::router
