#include "deploy/lab/reports/plot_axis.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

using namespace troupe::deploy;

namespace {

using Labels = std::vector<std::string>;

// Checks properties of every axis: ends that enclose the data, a few ticks inside, distinct labels.
void check_sound(const Axis& axis, const Extent& data) {
  REQUIRE(std::isfinite(axis.low));
  REQUIRE(std::isfinite(axis.high));
  REQUIRE(axis.low < axis.high);
  CHECK(axis.place(data.low) >= -1e-6);
  CHECK(axis.place(data.high) <= 1 + 1e-6);
  CHECK(axis.ticks.size() >= 1);
  CHECK(axis.ticks.size() <= 10);
  for (double tick : axis.ticks) CHECK(std::abs(axis.place(tick) - 0.5) <= 0.5 + 1e-6);
  CHECK(std::set<std::string>(axis.labels.begin(), axis.labels.end()).size() == axis.ticks.size());
}

Extent extent_of(std::initializer_list<double> values) {
  Extent extent;
  for (double value : values) extent.add(value);
  return extent;
}

}  // namespace

TEST_SUITE("plot_axis") {
  TEST_CASE("plot axis: steps are 1, 2 or 5 times a power of ten") {
    CHECK(nice_step(10, 5) == doctest::Approx(2));
    CHECK(nice_step(11, 5) == doctest::Approx(5));
    CHECK(nice_step(0.9, 5) == doctest::Approx(0.2));
    CHECK(nice_step(26, 5) == doctest::Approx(10));
    CHECK(nice_step(1e300, 5) == doctest::Approx(2e299));
  }

  TEST_CASE("plot axis: labels are as precise as their step, and large ones are powers") {
    CHECK(rounded_axis(extent_of({0, 52000}), 5).labels ==
          Labels{"0", "20\u202F000", "40\u202F000", "60\u202F000"});
    CHECK(rounded_axis(extent_of({-1, 1}), 5).labels == Labels{"−1.0", "−0.5", "0", "0.5", "1.0"});
    CHECK(rounded_axis(extent_of({0, 3e9}), 5).labels == Labels{"0", "1×10⁹", "2×10⁹", "3×10⁹"});
    CHECK(rounded_axis(extent_of({0, 2e-5}), 5).labels.back() == "2.0×10⁻⁵");
    CHECK(tight_axis(extent_of({0, 600}), 8).labels.back() == "600");
  }

  TEST_CASE("plot axis: a rounded axis starts at zero unless that wastes most of it") {
    CHECK(rounded_axis(extent_of({3, 10}), 5).low == 0);
    CHECK(rounded_axis(extent_of({95, 100}), 5).low == 95);
    CHECK(rounded_axis(extent_of({-10, -3}), 5).high == 0);
    CHECK(rounded_axis(extent_of({7}), 5).low == 0);
  }

  TEST_CASE("plot axis: a logarithmic axis ends on 1, 2 or 5, and labels powers if it spans many") {
    CHECK(log_axis(extent_of({3, 40}), 6).labels == Labels{"2", "5", "10", "20", "50"});
    CHECK(log_axis(extent_of({1, 900}), 6).labels == Labels{"1", "10", "100", "1000"});
    CHECK(log_axis(extent_of({10}), 6).labels == Labels{"5", "10", "20"});
    CHECK(log_axis(extent_of({1e-9, 1e9}), 6).labels.front() == "10⁻⁹");
    CHECK(log_axis(Extent{}, 6).low == 1);
  }

  TEST_CASE("plot axis: extents near the limits of double give an axis") {
    for (const Extent& data :
         {Extent{0, 0}, extent_of({5e-324}), extent_of({1e308, -1e308}), extent_of({1e17}),
          extent_of({1e15, 1e15 + 1}), extent_of({-1e-300, 1e-300})}) {
      check_sound(tight_axis(data, 8), data);
      check_sound(rounded_axis(data, 5), data);
    }
    for (const Extent& data : {extent_of({1e-300, 1e300}), extent_of({1e308}), extent_of({5e-324, 1})})
      CHECK(log_axis(data, 6).low < log_axis(data, 6).high);
    CHECK(tight_axis(Extent{}, 8).ticks.size() > 2);
  }

  TEST_CASE("plot axis: any extent gives a sound axis") {
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> exponent(-12, 14), sign(-1, 1);
    for (int run = 0; run < 500; ++run) {
      const double a = std::pow(10, exponent(random)), b = std::pow(10, exponent(random));
      const Extent data = extent_of({std::copysign(a, sign(random)), std::copysign(b, sign(random))});
      CAPTURE(data.low);
      CAPTURE(data.high);
      check_sound(tight_axis(data, 8), data);
      check_sound(rounded_axis(data, 5), data);
      check_sound(log_axis(extent_of({a, b}), 6), extent_of({a, b}));
    }
  }
}
