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
    of_new = returns.want("block " + std::to_string(i), 10, plenty, 0);
    of_known = returns.want("block " + std::to_string(i), 10, plenty, 0);
  }
  CHECK(of_new == doctest::Approx(1).epsilon(0.01));
  CHECK(of_known == 0);
}

TEST_CASE("who came back is likelier to come back") {
  ReturnRate returns(10'000);
  std::mt19937 random(1);
  double of_new = 0, of_known = 0;
  for (int i = 0; i < 3'000; ++i) {  // one of four is wanted five times, the others once
    of_new = returns.want("block " + std::to_string(i), 10, plenty, 0);
    if (random() % 4 != 0) continue;
    for (int use = 2; use <= 5; ++use) of_known = returns.want("block " + std::to_string(i), 10, plenty, 0);
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
        expected = returns.want("of " + std::to_string(user), 10, capacity, 0);
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

TEST_CASE("a life lasts until the oldest block would be dropped") {
  ReturnRate returns(10'000);
  CHECK(returns.life_us(7) == 0);
  for (int i = 0; i < 20; ++i) returns.want(std::to_string(i), 10, 50, i);
  CHECK(returns.life_us(20) == 5);
  returns.want("15", 10, 50, 20);
  CHECK(returns.life_us(20) == 4);
}

TEST_CASE("no more blocks are followed than said") {
  ReturnRate returns(3);
  for (int i = 0; i < 10; ++i) {
    returns.want(std::to_string(i), 1, plenty, 0);
    CHECK(returns.keys() <= 3);
  }
  CHECK(returns.want("9", 1, plenty, 0) == 0);
  CHECK(returns.want("1", 1, plenty, 0) > 0);  // a new one: one of eleven came back
}

}  // namespace
}  // namespace troupe::placement
