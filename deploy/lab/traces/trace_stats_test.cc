#include "deploy/lab/traces/trace_stats.h"

#include <doctest/doctest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "deploy/data/dataset.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

TEST_SUITE("trace stats") {
  TEST_CASE("trace stats: an empty trace and a trace of one request have no rates and no gaps") {
    TestFolder folder;
    TraceWriter(folder.path() / "none", "nothing").close();
    TraceReader none(folder.path() / "none");
    CHECK(to_json(measure_trace(none)) == to_json(TraceStats{.source = "nothing"}));
    TraceWriter writer(folder.path() / "one", "one");
    writer.write({{7'000'000}, "", "u", 0, {"a"}, {"c", "d"}, "c"});
    writer.close();
    TraceReader one(folder.path() / "one");
    const TraceStats s = measure_trace(one);
    CHECK(s.requests == 1);
    CHECK(s.seconds == 0);
    CHECK(s.per_second == 0);
    CHECK(s.gap_cv == 0);
    CHECK(s.dispersion_1s == 0);
    CHECK(s.most_in_1s == 1);
    CHECK(s.again == 0);
    CHECK(s.with_truth == 1);
    CHECK(s.candidates_mean == 2);
    CHECK(s.events_first_mean == 1);
  }

  TEST_CASE("trace stats: the figures of a small trace equal a hand count") {
    TestFolder folder;
    TraceWriter writer(folder.path() / "t", "by hand");
    const auto ask = [&](std::int64_t s, const char* user, std::uint64_t profile,
                         std::vector<std::string> events, std::vector<std::string> candidates,
                         const char* truth) {
      writer.write({{s * 1'000'000}, "", user, profile, std::move(events), std::move(candidates), truth});
    };
    ask(0, "u", 2, {"a", "b"}, {"c", "d"}, "c");
    ask(1, "v", 0, {}, {"c"}, "");
    ask(1, "u", 3, {"c"}, {"d", "e"}, "");
    ask(2, "u", 3, {}, {"d", "c", "e"}, "d");
    ask(400, "v", 0, {}, {"c", "d"}, "c");
    writer.close();
    TraceReader reader(folder.path() / "t");
    const TraceStats s = measure_trace(reader);
    CHECK(s.requests == 5);
    CHECK(s.users == 2);
    CHECK(s.items == 3);
    CHECK(s.seconds == 400);
    CHECK(s.per_second == doctest::Approx(0.01));
    // Gaps of 1, 0, 1 and 398 s.
    CHECK(s.gap_cv == doctest::Approx(std::sqrt((1 + 1 + 398.0 * 398) / 4 - 100.0 * 100) / 100));
    CHECK(s.most_in_1s == 2);
    // 400 whole seconds with 1, 2 and 1 requests in three of them.
    CHECK(s.dispersion_1s == doctest::Approx((6 / 400.0 - std::pow(4 / 400.0, 2)) / (4 / 400.0)));
    CHECK(s.candidates_mean == 2);
    CHECK(s.with_truth == doctest::Approx(0.6));
    CHECK(s.events_first_mean == 1);
    CHECK(s.profile_events_mean == doctest::Approx((2 + 0 + 3 + 3 + 0) / 5.0));
    CHECK(s.again == doctest::Approx(0.6));
    CHECK(s.again_5min == doctest::Approx(0.4));
    CHECK(s.again_same_profile == doctest::Approx(2 / 3.0));
    CHECK(s.gap_median_s == doctest::Approx(1).epsilon(0.05));
    CHECK(s.gap_p90_s == doctest::Approx(399).epsilon(0.05));
    CHECK(s.truth_skew.uses == 3);
    CHECK(s.truth_skew.keys == 2);
  }

  TEST_CASE("trace stats: the same user id in two tenants counts as two users") {
    TestFolder folder;
    TraceWriter writer(folder.path() / "t", "");
    writer.write({{0}, "a", "u", 5, {}, {"x"}, ""});
    writer.write({{0}, "b", "u", 1, {}, {"x"}, ""});
    writer.write({{0}, "", "au", 1, {}, {"x"}, ""});
    writer.close();
    TraceReader reader(folder.path() / "t");
    const TraceStats stats = measure_trace(reader);
    CHECK(stats.users == 3);
    CHECK(stats.tenants == 3);
  }

  TEST_CASE("trace stats: a trace without requests has zero rates") {
    TestFolder folder;
    TraceWriter(folder.path() / "t", "nothing").close();
    TraceReader reader(folder.path() / "t");
    const TraceStats stats = measure_trace(reader);
    CHECK(stats.requests == 0);
    CHECK(stats.per_second == 0);
  }

  TEST_CASE("skew: both fits find the exponent of exact Zipf counts") {
    for (const double exponent : {0.4, 0.8, 1.2}) {
      std::vector<std::uint64_t> counts;
      for (int rank = 1; rank <= 2'000; ++rank)
        counts.push_back(static_cast<std::uint64_t>(1e9 * std::pow(rank, -exponent)));
      const Skew skew = skew_of(counts);
      CHECK(skew.zipf_line == doctest::Approx(exponent).epsilon(0.001));
      CHECK(skew.zipf_likelihood == doctest::Approx(exponent).epsilon(0.001));
    }
    const Skew even = skew_of(std::vector<std::uint64_t>(1'000, 7));
    CHECK(even.share_of_10 == doctest::Approx(0.1));
    CHECK(even.zipf_line == doctest::Approx(0));
    CHECK(skew_of({}).keys == 0);
    CHECK(skew_of({5}).share_of_01 == 1);
  }

  TEST_CASE("skew: real catalogs have the skew that their descriptions state") {
    struct Described {
      const char* name;
      double share_of_10, share_of_1, zipf_line, zipf_likelihood;
    };
    for (const Described& known : {Described{"amazon-games", 0.479, 0.132, 0.46, 0.64},
                                   Described{"amazon-beauty", 0.428, 0.105, 0.46, 0.595},
                                   Described{"amazon-industrial", 0.402, 0.122, 0.536, 0.62},
                                   Described{"movielens-100k", 0.427, 0.076, 0.417, 0.645}}) {
      const auto folder = std::filesystem::path(TROUPE_ROOT_DIR) / "../shared/data" / known.name;
      if (!std::filesystem::exists(folder)) {
        MESSAGE("skipped: ../shared/data/", std::string(known.name), " is not there");
        continue;
      }
      CAPTURE(known.name);
      std::map<std::string, std::uint64_t> counts;
      for (const PutUser& user : read_users(folder, HistoryPart::all))
        for (const std::string& item : user.history) ++counts[item];
      std::vector<std::uint64_t> values;
      for (const auto& [item, count] : counts) values.push_back(count);
      const Skew skew = skew_of(values);  // shares of the items seen; the descriptions use the whole catalog
      CHECK(std::abs(skew.share_of_10 - known.share_of_10) < 0.01);
      CHECK(std::abs(skew.share_of_1 - known.share_of_1) < 0.005);
      CHECK(std::abs(skew.zipf_line - known.zipf_line) < 0.01);
      CHECK(std::abs(skew.zipf_likelihood - known.zipf_likelihood) < 0.01);
    }
  }
}
