#include "placement/popularity/return_rate.h"

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

TEST_CASE("a few wants say little: one more that did not come back is taken for granted") {
  ReturnRate returns(10'000);
  CHECK(returns.want("a", 10, plenty, 0) == 0);
  CHECK(returns.want("a", 10, plenty, 0) == 0);
  CHECK(returns.want("a", 10, plenty, 0) == 0.5);                      // one later want after one second one
  CHECK(returns.want("b", 10, plenty, 0) == doctest::Approx(2. / 3));  // two further wants of two blocks
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
  CHECK(expected == 0);
  CHECK(returns.keys() == 5);
  CHECK(returns.want("of 0", 10, 50, 0) > 10);
}

TEST_CASE("a block that is larger than the memory displaces nobody and is never expected") {
  ReturnRate returns(10'000);
  for (int user = 0; user < 5; ++user) returns.want(std::to_string(user), 10, 50, 0);
  for (int i = 0; i < 3; ++i) CHECK(returns.want("large", 51, 50, 0) == 0);
  CHECK(returns.keys() == 5);
  CHECK_FALSE(returns.comes("large", false, 0));
}

TEST_CASE("a life lasts until the oldest block would be dropped") {
  ReturnRate returns(10'000);
  CHECK(returns.oldest_us(7) == 0);
  for (int i = 0; i < 20; ++i) returns.want(std::to_string(i), 10, 50, i);
  CHECK(returns.oldest_us(20) == 5);
  returns.want("15", 10, 50, 20);
  CHECK(returns.oldest_us(20) == 4);
}

TEST_CASE("a block that found no room does not come, and its next want may make it") {
  ReturnRate returns(10'000);
  const auto want = [&](const char* key, std::int64_t now_us) {
    returns.want(key, 10, plenty, now_us);
    return returns.comes(key, false, now_us);
  };
  CHECK_FALSE(want("a", 0));
  returns.came("a", 100);
  CHECK_FALSE(want("b", 1'000));
  CHECK(want("b", 1'050));
  returns.given_up("b");
  returns.given_up("nobody");
  CHECK_FALSE(want("b", 1'100));
  CHECK(want("b", 1'150));
}

TEST_CASE("a block that was missed a moment ago comes, until it has taken twice as long as usual") {
  ReturnRate returns(10'000);
  const auto want = [&](const char* key, std::int64_t now_us, bool is_there = false) {
    returns.want(key, 10, plenty, now_us);
    return returns.comes(key, is_there, now_us);
  };
  CHECK_FALSE(want("a", 0));
  CHECK_FALSE(want("a", 1));  // nobody knows how long it takes
  returns.came("a", 101);
  returns.came("a", 500);  // on another node
  CHECK_FALSE(want("a", 600, true));
  CHECK_FALSE(want("b", 1'000));
  CHECK(want("b", 1'199));
  CHECK_FALSE(want("b", 1'200));  // nobody makes it, so this one may
  CHECK(want("b", 1'399));
  returns.came("b", 1'400);       // 200, so the mean is 110
  CHECK_FALSE(want("b", 1'500));  // gone again
  CHECK(want("b", 1'719));
  CHECK_FALSE(want("b", 1'720));
  returns.came("nobody's", 2'000);
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
