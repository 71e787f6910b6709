#include "deploy/lab/traces/arrivals.h"

#include <doctest/doctest.h>

#include <cmath>

#include "deploy/data/text_file.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

std::vector<std::int64_t> take(Arrivals arrivals, std::size_t count) {
  std::vector<std::int64_t> times;
  for (std::size_t i = 0; i < count; ++i) times.push_back(arrivals.next().us);
  return times;
}

}  // namespace

TEST_SUITE("arrivals") {
  TEST_CASE("arrivals: constant ones are evenly spaced from 0 on") {
    CHECK(take(Arrivals("constant", 4, 1), 4) == std::vector<std::int64_t>{0, 250'000, 500'000, 750'000});
  }

  TEST_CASE("arrivals: Poisson ones have the rate, exponential gaps, and depend on the seed") {
    const auto times = take(Arrivals("poisson", 100, 5), 100'001);
    double squares = 0;
    for (std::size_t i = 1; i < times.size(); ++i) {
      REQUIRE(times[i] >= times[i - 1]);
      squares += std::pow(static_cast<double>(times[i] - times[i - 1]), 2);
    }
    const double mean = static_cast<double>(times.back()) / 100'000;
    CHECK(mean == doctest::Approx(10'000).epsilon(0.02));
    CHECK(std::sqrt(squares / 100'000 - mean * mean) / mean == doctest::Approx(1).epsilon(0.03));
    CHECK(times == take(Arrivals("poisson", 100, 5), 100'001));
    CHECK(times != take(Arrivals("poisson", 100, 6), 100'001));
  }

  TEST_CASE("arrivals: recorded ones are stretched to the rate and repeat after their end") {
    TestFolder folder;
    folder.write("a.tsv", "t_ms\tcontext_tokens\n1000.0\t5\n1001\t6\n1009.000\t7\n");
    folder.write("b.jsonl", "{\"timestamp\": 0, \"hash_ids\": [1]}\n{\"timestamp\": 1}\n{\"timestamp\":9}\n");
    // The mean gap is 4.5 ms; a round of three requests takes three of them.
    const std::vector<std::int64_t> expected{0,         222'222,   2'000'000, 3'000'000,
                                             3'222'222, 5'000'000, 6'000'000};
    CHECK(take(Arrivals((folder.path() / "a.tsv").string(), 1, 1), 7) == expected);
    CHECK(take(Arrivals((folder.path() / "b.jsonl").string(), 1, 1), 7) == expected);
  }

  TEST_CASE("arrivals: an invalid file is refused, and the error names the line") {
    TestFolder folder;
    const auto error_of = [&](const std::string& name, const std::string& text) -> std::string {
      folder.write(name, text);
      try {
        Arrivals((folder.path() / name).string(), 1, 1);
      } catch (const ImportError& error) {
        return error.what();
      }
      return "";
    };
    CHECK(error_of("a.tsv", "t_ms\n1\nx\n").find("a.tsv:3: t_ms is \"x\"; expected a number") == 0);
    CHECK(error_of("a.tsv", "t_ms\n2\n1\n").find("a.tsv:3: the time decreases") == 0);
    CHECK(error_of("a.tsv", "t_ms\n-2\n1\n").find("a.tsv:2: the time is invalid") == 0);
    CHECK(error_of("a.tsv", "t_ms\nnan\n1\n").find("a.tsv:2: the time is invalid") == 0);
    CHECK(error_of("a.tsv", "t_ms\n2\n2\n").find("fewer than two") != std::string::npos);
    CHECK(error_of("a.tsv", "time\n2\n").find("no column t_ms") != std::string::npos);
    CHECK(error_of("a.jsonl", "{\"time\":1}\n").find("a.jsonl:1: ") == 0);
    CHECK(error_of("uniform", "").find("expected constant, poisson, or a .tsv or .jsonl file") !=
          std::string::npos);
  }
}
