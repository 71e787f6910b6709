// Counts how much computing time the cached blocks of each area of the page pool (users, items)
// saved. A sampled model of a cache ("shadow") estimates what another share of the pool would have
// saved. The allocator agent divides the pool by these reports.
#include "actors/kv_worker/area_savings.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/hash.h"
#include "placement/split/latency_counts.h"
#include "runtime/actor/block_name.h"

namespace troupe::actors {
namespace {

constexpr std::uint32_t samples_max = 16'384;  // about a megabyte per area
constexpr std::size_t users_known = 4'096;
constexpr std::uint32_t times_max = 64;  // uses of one block in one report
constexpr std::uint32_t hot_from = 4;    // requests, as counted by the sketch

placement::ShadowOptions shadow_of(std::uint32_t pages) {
  return {.pool = pages, .one_of = pages / samples_max + 1, .samples_max = std::min(pages, samples_max)};
}

// Clamps to at most an hour; NaN counts as 0.
double sound_us(float us) { return us > 0 ? std::min<double>(us, 3.6e9) : 0; }

}  // namespace

bool is_savings(const std::vector<double>& savings) {
  if (savings.empty()) return true;
  return savings.size() == placement::split_cells + 1 && savings.front() >= 0 &&
         std::isfinite(savings.back()) && std::ranges::is_sorted(savings) &&
         std::ranges::none_of(savings, [](double us) { return std::isnan(us); });
}

AreaSavings::AreaSavings(std::size_t areas, std::uint32_t pool_pages) : users_(users_known) {
  for (std::size_t i = 0; i < areas; ++i)
    areas_.push_back({placement::ShadowCache(shadow_of(std::max(pool_pages, 1U)))});
}

void AreaSavings::count(Area& area, const BlockName& name, std::uint64_t pages, double us) {
  area.used = true;
  area.shadow.use(hash_of(name), static_cast<std::uint32_t>(std::max<std::uint64_t>(pages, 1)), us);
}

void AreaSavings::use(std::size_t area, const BlockWant& want, std::uint64_t pages, bool hit,
                      bool remote_home) {
  const double us = sound_us(want.compute_us);
  if (!remote_home) count(areas_[area], want.name, pages, us);
  areas_[area].used = true;
  ++(hit ? areas_[area].hits : areas_[area].misses);
  if (hit) areas_[area].saved_us += us;
}

// Counts repeated uses one by one. All but the first would be hits at any cache size, since no
// other use lies between them.
void AreaSavings::use_elsewhere(std::size_t area, const BlockUse& use, std::uint64_t pages) {
  for (std::uint32_t i = 0; i < std::min(use.times, times_max); ++i)
    count(areas_[area], use.name, pages, sound_us(use.spared_us));
  elsewhere_ += use.times;
}

std::uint64_t AreaSavings::user_key(std::string_view owner) {
  return std::max<std::uint64_t>(spread(fnv1a(owner)), 1);
}

void AreaSavings::served(std::uint64_t user, std::uint32_t user_tokens, Duration held) {
  ++served_.requests;
  served_.latencies.resize(placement::latency_steps);
  ++served_.latencies[placement::latency_step(held.us)];
  if (user == 0) return;
  users_.touch(user);
  served_.hot_requests += users_.count(user) >= hot_from;
  served_.user_tokens += user_tokens;
}

void AreaSavings::add_to(std::vector<AreaReport>& areas) const {
  for (std::size_t i = 0; i < std::min(areas.size(), areas_.size()); ++i) {
    areas[i].hits = areas_[i].hits;
    areas[i].misses = areas_[i].misses;
    if (!areas_[i].used) continue;
    const placement::Savings savings = areas_[i].shadow.savings();
    areas[i].saved_us = areas_[i].saved_us;
    areas[i].savings.assign(savings.begin(), savings.end());
  }
}

}  // namespace troupe::actors
