#include "deploy/verify/interchange.h"

#include <doctest/doctest.h>

using namespace troupe::deploy;

namespace {

// Returns the NDCG of `events` events, every `every`th of which is a hit of this value.
std::vector<double> hits(std::size_t events, std::size_t every, double value) {
  std::vector<double> samples(events);
  for (std::size_t i = 0; i < events; i += every) samples[i] = value;
  return samples;
}

}  // namespace

TEST_SUITE("interchange") {
  TEST_CASE("judge: a loss within the tolerance and one paired standard error is as good") {
    const std::vector<double> first(200, 0.5);
    CHECK(judge(first, std::vector<double>(200, 0.495), 0.02).verdict == Verdict::as_good);
    CHECK(judge(first, std::vector<double>(200, 0.48), 0.02).verdict == Verdict::worse);
    CHECK(judge(first, std::vector<double>(200, 0.48), 0.05).verdict == Verdict::as_good);
    CHECK(judge(first, std::vector<double>(200, 0.9), 0).verdict == Verdict::as_good);
  }

  TEST_CASE("judge: the change is paired, so that a spread that both share does not excuse a loss") {
    const std::vector<double> first = hits(400, 2, 1), other = hits(400, 2, 0.9);
    const ArrangementQuality quality = judge(first, other, 0.02);
    CHECK(quality.ndcg.value == doctest::Approx(0.45));
    CHECK(quality.change.value == doctest::Approx(-0.05));
    CHECK(quality.change.standard_error == doctest::Approx(0.0025).epsilon(0.01));
    CHECK(quality.verdict == Verdict::worse);
  }

  TEST_CASE("judge: a standard error excuses a loss that chance explains") {
    std::vector<double> first = hits(100, 2, 1), other = first;
    other[0] = 0;
    other[1] = 0.5;
    CHECK(judge(first, other, 0).change.value < 0);
    CHECK(judge(first, other, 0).verdict == Verdict::as_good);
  }

  TEST_CASE("judge: too few events show nothing") {
    const std::vector<double> few(events_needed - 1, 0.5);
    CHECK(judge(few, few, 0.02).verdict == Verdict::not_shown);
    CHECK(judge_first(few).verdict == Verdict::not_shown);
    CHECK(judge_first(std::vector<double>(events_needed, 0.5)).verdict == Verdict::first);
    CHECK(judge({}, {}, 0.02).verdict == Verdict::not_shown);
    CHECK(name_of(Verdict::not_shown) == "not shown");
    CHECK(name_of(Verdict::worse) == "worse");
  }
}
