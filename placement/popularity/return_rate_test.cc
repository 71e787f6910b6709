#include "placement/popularity/return_rate.h"

#include <doctest/doctest.h>

#include <random>

namespace troupe::placement {
namespace {

constexpr std::uint64_t plenty = 1'000'000;
constexpr std::int64_t second_us = 1'000'000;

TEST_CASE("return rate: a block's expected uses equal the observed returns of such blocks") {
  ReturnRate returns(10'000);
  double of_new = 0, of_known = 0;
  // Each block is wanted twice: a new block has one further use, a block that returned has none.
  for (int i = 0; i < 400; ++i) {
    of_new = returns.want("block " + std::to_string(i), 10, plenty, 0);
    of_known = returns.want("block " + std::to_string(i), 10, plenty, 0);
  }
  CHECK(of_new == doctest::Approx(1).epsilon(0.01));
  CHECK(of_known == 0);
}

TEST_CASE("return rate: with few observations one block without a return is added") {
  ReturnRate returns(10'000);
  CHECK(returns.want("a", 10, plenty, 0) == 0);
  CHECK(returns.want("a", 10, plenty, 0) == 0);
  // One of two gaps after a later want has ended with a return. The other one may still, and counts half.
  CHECK(returns.want("a", 10, plenty, 0) == doctest::Approx(1 / (1.5 + 1) / (1 - 1 / (1.5 + 1))));
  // The same holds after two first wants, and a return is followed by 2 / 3 more.
  CHECK(returns.want("b", 10, plenty, 0) == doctest::Approx(1 / (1.5 + 1) * (1 + 2. / 3)));
}

TEST_CASE("return rate: a block that returned once is more likely to return again") {
  ReturnRate returns(10'000);
  std::mt19937 random(1);
  double of_new = 0, of_known = 0;
  for (int i = 0; i < 3'000; ++i) {  // one of four is wanted five times, the others once
    const std::int64_t now_us = i * second_us;
    of_new = returns.want("block " + std::to_string(i), 10, plenty, now_us);
    if (random() % 4 != 0) continue;
    for (int use = 2; use <= 5; ++use)
      of_known = returns.want("block " + std::to_string(i), 10, plenty, now_us);
  }
  CHECK(of_new == doctest::Approx(1).epsilon(0.1));
  CHECK(of_known == doctest::Approx(3).epsilon(0.1));
}

// Every second a new user comes. Two of three are wanted four times more, 200 seconds apart. Returns the
// expected uses of the newest user's block after so many seconds.
double after_seconds(int seconds, std::uint64_t capacity) {
  ReturnRate returns(10'000);
  double expected = 0;
  for (int second = 0; second < seconds; ++second) {
    const auto want = [&](int user) {
      return returns.want(std::to_string(user), 10, capacity, second * second_us);
    };
    for (int back = second - 200; back >= 0 && back > second - 1'000; back -= 200)
      if (back % 3 != 0) want(back);
    expected = want(second);
  }
  return expected;
}

TEST_CASE("return rate: blocks that had no time to return do not count as blocks that do not") {
  CHECK(after_seconds(100, plenty) == 0);  // nobody can have returned
  CHECK(after_seconds(400, plenty) > 0.5);
  CHECK(after_seconds(600, plenty) > 1.5);
  CHECK(after_seconds(5'000, 10'000) == doctest::Approx(2. / 3 * 4).epsilon(0.15));
}

TEST_CASE("return rate: returns after more than the memory holds are not expected") {
  // In 200 seconds 200 users come, and 100 blocks are tracked.
  CHECK(after_seconds(5'000, 1'000) == 0);
}

TEST_CASE("return rate: a want after the block would have been evicted is no return") {
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
  CHECK(expected > 10);  // the users return for ever
  rounds(0);             // no memory is known
  CHECK(expected == 0);
  CHECK(returns.keys() == 5);
  CHECK(returns.want("of 0", 10, 50, 0) > 10);
}

TEST_CASE("return rate: a block larger than the memory displaces nothing and is never expected") {
  ReturnRate returns(10'000);
  for (int user = 0; user < 5; ++user) returns.want(std::to_string(user), 10, 50, 0);
  for (int i = 0; i < 3; ++i) CHECK(returns.want("large", 51, 50, 0) == 0);
  CHECK(returns.keys() == 5);
  CHECK_FALSE(returns.is_expected("large", false, 0));
}

TEST_CASE("return rate: a block's life is the age of the oldest tracked block") {
  ReturnRate returns(10'000);
  CHECK(returns.oldest_us(7) == 0);
  for (int i = 0; i < 20; ++i) returns.want(std::to_string(i), 10, 50, i);
  CHECK(returns.oldest_us(20) == 5);
  returns.want("15", 10, 50, 20);
  CHECK(returns.oldest_us(20) == 4);
}

TEST_CASE("return rate: a given-up block is not expected, and its next want may compute it") {
  ReturnRate returns(10'000);
  const auto want = [&](const char* key, std::int64_t now_us) {
    returns.want(key, 10, plenty, now_us);
    return returns.is_expected(key, false, now_us);
  };
  CHECK_FALSE(want("a", 0));
  returns.mark_cached("a", 100);
  CHECK_FALSE(want("b", 1'000));
  CHECK(want("b", 1'050));
  returns.mark_abandoned("b");
  returns.mark_abandoned("nobody");
  CHECK_FALSE(want("b", 1'100));
  CHECK(want("b", 1'150));
}

TEST_CASE("return rate: a missed block is expected until it has taken twice the usual time") {
  ReturnRate returns(10'000);
  const auto want = [&](const char* key, std::int64_t now_us, bool is_there = false) {
    returns.want(key, 10, plenty, now_us);
    return returns.is_expected(key, is_there, now_us);
  };
  CHECK_FALSE(want("a", 0));
  CHECK_FALSE(want("a", 1));  // no time to compute was observed yet
  returns.mark_cached("a", 101);
  returns.mark_cached("a", 500);  // cached on a second node
  CHECK_FALSE(want("a", 600, true));
  CHECK_FALSE(want("b", 1'000));
  CHECK(want("b", 1'199));
  CHECK_FALSE(want("b", 1'200));  // nobody computes it, so this request may
  CHECK(want("b", 1'399));
  returns.mark_cached("b", 1'400);  // took 200 us, so the mean is 110 us
  CHECK_FALSE(want("b", 1'500));    // evicted
  CHECK(want("b", 1'719));
  CHECK_FALSE(want("b", 1'720));
  returns.mark_cached("nobody's", 2'000);
}

TEST_CASE("return rate: at most keys_max blocks are tracked") {
  ReturnRate returns(3);
  for (int i = 0; i < 10; ++i) {
    returns.want(std::to_string(i), 1, plenty, 0);
    CHECK(returns.keys() <= 3);
  }
  CHECK(returns.want("9", 1, plenty, 0) == 0);
  CHECK(returns.want("1", 1, plenty, 0) > 0);  // a new block: one of eleven came back
}

}  // namespace
}  // namespace troupe::placement
