#include "sim/runs/swarm.h"

#include <doctest/doctest.h>

#include <array>
#include <bit>

using namespace troupe;
using namespace troupe::sim;

TEST_CASE("swarm: a low share of answered requests after kills breaks promise 6, if there are enough") {
  SwarmResult result;
  CHECK(result.kept_all());
  result.tally.after_kill = 1'000;
  result.tally.after_kill_ok = 990;
  CHECK(result.kept_all());
  result.tally.after_kill_ok = 989;
  CHECK_FALSE(result.kept_all());
  result.tally.after_kill = 999;
  CHECK(result.kept_all());
  result.tally.long_after_kill = 10'000;
  result.tally.long_after_kill_ok = 9'990;
  CHECK(result.kept_all());
  result.tally.long_after_kill_ok = 9'989;
  CHECK_FALSE(result.kept_all());
  CHECK(result.share_checks()[1].broken());
  result = {};
  result.failures.resize(1);
  CHECK_FALSE(result.kept_all());
}

TEST_CASE("tally: a sum contains every count of both runs") {
  using Counts = std::array<std::uint64_t, sizeof(Tally) / sizeof(std::uint64_t)>;
  Counts one, other;
  for (std::size_t i = 0; i < one.size(); ++i) one[i] = i + 1, other[i] = 1'000 * (i + 1);
  Tally sum = std::bit_cast<Tally>(one);
  sum += std::bit_cast<Tally>(other);
  const auto sums = std::bit_cast<Counts>(sum);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    CAPTURE(i);
    CHECK(sums[i] == 1'001 * (i + 1));
  }
}
