#include "placement/return_rate.h"

#include <doctest/doctest.h>

#include <random>

namespace troupe::placement {
namespace {

constexpr std::uint64_t plenty = 1'000'000;

TEST_CASE("a block is expected as often as such blocks were wanted again") {
  ReturnRate returns(10'000);
  double of_new = 0, of_known = 0;
  for (int i = 0; i < 400;
       ++i) {  // each twice: one further use of a new one, none of one that has come again
    of_new = returns.want("block " + std::to_string(i), 10, plenty);
    of_known = returns.want("block " + std::to_string(i), 10, plenty);
  }
  CHECK(of_new == doctest::Approx(1).epsilon(0.01));
  CHECK(of_known == 0);
}

TEST_CASE("who came back is likelier to come back") {
  ReturnRate returns(10'000);
  std::mt19937 random(1);
  double of_new = 0, of_known = 0;
  for (int i = 0; i < 3'000; ++i) {  // one of four is wanted five times, the others once
    of_new = returns.want("block " + std::to_string(i), 10, plenty);
    if (random() % 4 != 0) continue;
    for (int use = 2; use <= 5; ++use) of_known = returns.want("block " + std::to_string(i), 10, plenty);
  }
  CHECK(of_new == doctest::Approx(1).epsilon(0.1));
  CHECK(of_known == doctest::Approx(3).epsilon(0.1));
}

TEST_CASE("a return after which the block would have been gone is none") {
  ReturnRate returns(10'000);
  double expected = 1;
  const auto rounds = [&](std::uint64_t capacity) {
    for (int i = 0; i < 2'000; ++i)
      for (int user = 0; user < 5; ++user)
        expected = returns.want("of " + std::to_string(user), 10, capacity);
  };
  rounds(49);
  CHECK(expected == 0);
  CHECK(returns.keys() == 4);
  rounds(50);
  CHECK(expected > 10);  // they come for ever
  rounds(0);             // nobody knows of any memory
  CHECK(returns.keys() == 0);
  CHECK(expected < 0.01);
}

TEST_CASE("no more blocks are followed than said") {
  ReturnRate returns(3);
  for (int i = 0; i < 10; ++i) {
    returns.want(std::to_string(i), 1, plenty);
    CHECK(returns.keys() <= 3);
  }
  CHECK(returns.want("9", 1, plenty) == 0);
  CHECK(returns.want("1", 1, plenty) > 0);  // a new one: one of eleven came back
}

}  // namespace
}  // namespace troupe::placement
