#include "router/fleet/row_profile.h"

#include <doctest/doctest.h>

#include <vector>

namespace troupe::router {
namespace row_profile_test {

Plan plan_of(std::vector<std::vector<Token>> segments) {
  Plan plan;
  for (const std::vector<Token>& tokens : segments) plan.segments.push_back({.tokens = Tokens(tokens)});
  return plan;
}
Heartbeat beat_of(std::uint32_t shard_rows, std::vector<std::uint8_t> found) {
  Heartbeat beat;
  beat.shard_rows = shard_rows;
  beat.rows_found = std::move(found);
  return beat;
}

TEST_CASE("row profile: a worker whose tables are in memory has all rows") {
  CHECK(rows_found(plan_of({{1, 2, 3}}), {}) == 1);
  CHECK(rows_of(plan_of({{1, 2, 3}, {4}})) == 4);
}

TEST_CASE("row profile: the result is the mean of what is found over the plan's shards") {
  const Heartbeat beat = beat_of(10, {100, 50, 0, 80});
  CHECK(rows_found(plan_of({{1, 2, 3}}), beat) == 1);
  CHECK(rows_found(plan_of({{1}, {15, 16}}), beat) == 0.75);
  CHECK(rows_found(plan_of({{25, 39}}), beat) == doctest::Approx(0.4));
  CHECK(rows_found(plan_of({{45}}), beat) == 0);  // the heartbeat reports nothing for this shard
  // one token beyond all shards, and an invalid one
  CHECK(rows_found(plan_of({{2'000'000'000, -1}}), beat) == 0.5);
  CHECK(rows_found(plan_of({{}}), beat) == 1);
}

TEST_CASE("row profile: only the shards with most rows count, at most profile_shards of them") {
  std::vector<std::uint8_t> found(row_shards, 100);
  found[30] = 0;
  std::vector<Token> tokens;
  for (Token shard = 0; shard < 30; ++shard) tokens.insert(tokens.end(), {shard * 10, shard * 10 + 1});
  tokens.push_back(300);
  CHECK(rows_found(plan_of({tokens}), beat_of(10, found)) == 1);
  tokens.insert(tokens.end(), {301, 302});
  CHECK(rows_found(plan_of({tokens}), beat_of(10, found)) == doctest::Approx(19.0 / 20));
}

}  // namespace row_profile_test
}  // namespace troupe::router
