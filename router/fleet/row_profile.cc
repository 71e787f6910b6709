// Estimates which fraction of a request's embedding rows a worker holds in memory, from the table
// shards that its heartbeat lists. HLEM's routing rule uses it.
#include "router/fleet/row_profile.h"

#include <algorithm>
#include <array>
#include <utility>

namespace troupe::router {

double rows_found(const Plan& plan, const Heartbeat& beat) {
  if (beat.shard_rows == 0) return 1;
  // uses per shard, with the shard's number
  std::array<std::pair<std::uint32_t, std::uint32_t>, row_shards> uses{};
  for (std::uint32_t i = 0; i < row_shards; ++i) uses[i].second = i;
  for (const Segment& segment : plan.segments)
    for (const Token token : segment.tokens)
      ++uses[std::min(static_cast<std::uint32_t>(std::max<Token>(token, 0)) / beat.shard_rows,
                      row_shards - 1)]
            .first;
  const auto before = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  std::ranges::partial_sort(uses, uses.begin() + profile_shards, before);
  double found = 0, wanted = 0;
  for (std::size_t i = 0; i < profile_shards && uses[i].first > 0; ++i) {
    const std::uint32_t shard = uses[i].second;
    ++wanted;
    if (shard < beat.rows_found.size()) found += std::min<double>(beat.rows_found[shard], 100) / 100;
  }
  return wanted > 0 ? found / wanted : 1;
}

std::size_t rows_of(const Plan& plan) {
  std::size_t rows = 0;
  for (const Segment& segment : plan.segments) rows += segment.tokens.size();
  return rows;
}

}  // namespace troupe::router
