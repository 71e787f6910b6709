#include "deploy/lab/traces/trace_makers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "deploy/data/dataset.h"
#include "deploy/lab/traces/trace_stats.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

const std::filesystem::path world = std::filesystem::path(TROUPE_ROOT_DIR) / "deploy" / "demo" / "world";

template <class Maker>
std::vector<TracedRequest> take(Maker& maker, std::size_t count = 1'000'000) {
  std::vector<TracedRequest> requests;
  for (TracedRequest request; requests.size() < count && maker.next(request);) requests.push_back(request);
  return requests;
}

std::vector<TracedRequest> convert(const DataTraceOptions& options) {
  DataTrace maker(options);
  auto requests = take(maker);
  CHECK(requests.size() == maker.requests());
  return requests;
}

TraceStats measure(const std::vector<TracedRequest>& requests) {
  TestFolder folder;
  TraceWriter writer(folder.path() / "t.jsonl", "");
  for (const TracedRequest& request : requests) writer.write(request);
  writer.close();
  TraceReader reader(folder.path() / "t.jsonl");
  return measure_trace(reader);
}

DataTraceOptions of_demo() {
  DataTraceOptions options{.data = world};
  options.common.candidates = 20;
  options.common.views = 1.5;
  return options;
}

// Checks that each event of each user is requested in order, with a profile of the events before it.
void check_histories(const std::vector<TracedRequest>& requests,
                     const std::map<std::string, std::vector<std::string>>& histories) {
  std::map<std::string, std::vector<std::string>> reported;
  std::map<std::string, std::size_t> taken;
  for (const TracedRequest& request : requests) {
    const auto& history = histories.at(request.user);
    auto& profile = reported[request.user];
    profile.insert(profile.end(), request.events.begin(), request.events.end());
    REQUIRE(profile.size() <= history.size());
    REQUIRE(std::equal(profile.begin(), profile.end(), history.begin()));
    REQUIRE(request.profile == profile.size());
    const std::set<std::string> candidates(request.candidates.begin(), request.candidates.end());
    REQUIRE(candidates.size() == request.candidates.size());
    for (const std::string& item : profile) REQUIRE((item == request.truth || !candidates.contains(item)));
    if (request.truth.empty()) continue;
    REQUIRE(request.truth == history.at(profile.size()));
    REQUIRE(candidates.contains(request.truth));
    ++taken[request.user];
  }
  for (const auto& [user, history] : histories) REQUIRE(taken[user] == history.size() - 1);
}

std::map<std::string, std::vector<std::string>> histories_of(const std::filesystem::path& data) {
  std::map<std::string, std::vector<std::string>> histories;
  for (PutUser& put : read_users(data, HistoryPart::all)) histories[put.user] = put.history;
  return histories;
}

}  // namespace

TEST_SUITE("trace makers") {
  TEST_CASE("data trace: each user's events are requested in order, and profiles grow with them") {
    DataTraceOptions options = of_demo();
    const auto requests = convert(options);
    check_histories(requests, histories_of(world));
    const TraceStats stats = measure(requests);
    CHECK(stats.users == 500);
    CHECK(stats.with_truth == doctest::Approx(1 / 1.5).epsilon(0.05));
    options.common.returns = {0.7, 2, 1};
    check_histories(convert(options), histories_of(world));
  }

  TEST_CASE("data trace: a user who has all items still gets a candidate") {
    TestFolder folder;
    folder.write("items.jsonl", "{\"id\":\"a\",\"tokens\":[1]}\n{\"id\":\"b\",\"tokens\":[2]}\n");
    folder.write("users.jsonl", "{\"id\":\"u\",\"history\":[\"a\",\"b\",\"a\",\"b\",\"b\",\"a\"]}\n");
    DataTraceOptions options = of_demo();
    options.data = folder.path();
    options.common.views = 4;
    const auto requests = convert(options);
    CHECK(std::ranges::any_of(requests, [](auto& r) { return r.profile >= 2 && r.truth.empty(); }));
    for (const TracedRequest& request : requests) CHECK_FALSE(request.candidates.empty());
    CHECK(measure(requests).requests == requests.size());  // it can be read
  }

  TEST_CASE("data trace: lengthened histories have the wanted length and end with the user's own events") {
    DataTraceOptions options = of_demo();
    const TraceStats plain = measure(convert(options));
    options.history_median = 300, options.history_sigma = 0.5;
    const auto requests = convert(options);
    const TraceStats stats = measure(requests);
    CHECK(stats.requests == doctest::Approx(plain.requests).epsilon(0.03));
    CHECK(stats.events_first_mean == doctest::Approx(300 * std::exp(0.125)).epsilon(0.08));
    const auto histories = histories_of(world);
    std::map<std::string, std::vector<std::string>> reported;
    std::map<std::string, std::size_t> taken;
    for (const TracedRequest& request : requests) {
      auto& profile = reported[request.user];
      profile.insert(profile.end(), request.events.begin(), request.events.end());
      const auto& history = histories.at(request.user);
      const std::size_t own = 1 + taken[request.user];
      REQUIRE(profile.size() >= own);
      REQUIRE(std::equal(profile.end() - static_cast<std::ptrdiff_t>(own), profile.end(), history.begin()));
      if (request.truth.empty()) continue;
      REQUIRE(request.truth == history.at(own));
      ++taken[request.user];
    }
  }

  TEST_CASE("trace makers: the same seed makes the same trace, another seed another one") {
    DataTraceOptions options = of_demo();
    options.users = 40;
    const auto requests = convert(options);
    CHECK(requests == convert(options));
    options.common.seed = 2;
    CHECK(requests != convert(options));
    GeneratedTraceOptions made{.users = 50, .items = 300};
    made.common.returns.share = 0.5;
    GeneratedTrace one(made), again(made);
    const auto generated = take(one, 500);
    CHECK(generated == take(again, 500));
    made.common.seed = 2;
    GeneratedTrace other(made);
    CHECK(generated != take(other, 500));
  }

  TEST_CASE("data trace: the truth is at a random position, and popular items are more often candidates") {
    std::vector<int> places(20);
    std::map<std::string, int> times;
    for (const TracedRequest& request : convert(of_demo())) {
      for (const std::string& item : request.candidates) ++times[item];
      if (request.truth.empty()) continue;
      REQUIRE(request.candidates.size() == 20);
      ++places[static_cast<std::size_t>(std::ranges::find(request.candidates, request.truth) -
                                        request.candidates.begin())];
    }
    const auto [least, most] = std::ranges::minmax(places);
    CHECK(least > 0.7 * most);
    std::map<std::string, int> uses;
    for (const auto& [user, history] : histories_of(world))
      for (const std::string& item : history) ++uses[item];
    const auto by_uses = [&](auto& a, auto& b) { return a.second < b.second; };
    CHECK(times[std::ranges::max_element(uses, by_uses)->first] >
          3 * times[std::ranges::min_element(uses, by_uses)->first]);
  }

  TEST_CASE("data trace: own timestamps keep their order and proportion") {
    TestFolder folder;
    folder.write(
        "ratings.tsv",
        "user_id\titem_"
        "id\trating\ttimestamp\nu\ta\t5\t1000\nu\tb\t5\t1000\nv\tc\t5\t1500\nv\td\t4\t3000\nu\tc\t3\t5000\n");
    DataTraceOptions options{.data = folder.path()};
    options.common = {.per_second = 1, .arrivals = "own", .candidates = 2, .views = 1};
    auto requests = convert(options);
    check_histories(requests, histories_of(folder.path()));
    REQUIRE(requests.size() == 3);  // u's b at 1000, v's d at 3000, u's c at 5000
    CHECK(requests[0].at.us == 0);
    CHECK(requests[1].at.us == 1'500'000);
    CHECK(requests[2].at.us == 3'000'000);
    options.common.views = 4;
    requests = convert(options);
    check_histories(requests, histories_of(folder.path()));
    for (std::size_t i = 1; i < requests.size(); ++i) CHECK(requests[i].at >= requests[i - 1].at);
    std::map<std::string, double> taken;  // time at which an item is taken, its last view
    for (const TracedRequest& request : requests)
      if (!request.truth.empty()) taken[request.truth] = static_cast<double>(request.at.us);
    const double second = (taken["c"] - taken["d"]) / 2000;  // of the data's own times
    CHECK(second > 0);
    CHECK(taken["d"] - taken["b"] == doctest::Approx(2000 * second));
    for (std::size_t i = 0; i < requests.size(); ++i) {
      std::size_t last = i;
      while (requests[last].user != requests[i].user || requests[last].truth.empty())
        REQUIRE(++last < requests.size());
      CHECK(static_cast<double>(requests[last].at.us - requests[i].at.us) <= 61 * second);
    }
    options.data = world;
    CHECK_THROWS_WITH_AS(DataTrace{options}, doctest::Contains("no timestamps; expected ratings.tsv"),
                         ImportError);
  }

  TEST_CASE("data trace: a small catalog gives fewer candidates, and too short histories are refused") {
    TestFolder folder;
    folder.write("users.jsonl",
                 "{\"id\":\"u\",\"history\":[\"a\",\"b\",\"c\"]}\n{\"id\":\"v\",\"history\":[\"d\"]}\n");
    DataTraceOptions options{.data = folder.path()};
    for (const TracedRequest& request : convert(options)) {
      CHECK(request.user == "u");
      CHECK(request.candidates.size() == 4 - request.profile);
    }
    options.start = 3;
    CHECK_THROWS_WITH_AS(DataTrace{options}, doctest::Contains("no user has more than 3 events"),
                         ImportError);
  }

  TEST_CASE("generated trace: users and items have the given skew and return rate") {
    GeneratedTraceOptions options{.users = 500, .items = 400, .user_exponent = 0.9, .item_exponent = 0.6};
    options.common.candidates = 5;
    options.common.views = 4;
    GeneratedTrace maker(options);
    TraceStats stats = measure(take(maker, 40'000));
    CHECK(stats.user_skew.zipf_likelihood == doctest::Approx(0.9).epsilon(0.05));
    CHECK(stats.candidate_skew.zipf_likelihood == doctest::Approx(0.6).epsilon(0.07));
    CHECK(stats.with_truth == doctest::Approx(0.25).epsilon(0.05));
    CHECK(stats.again_same_profile == doctest::Approx(0.75).epsilon(0.03));
    CHECK(stats.events_first_mean == doctest::Approx(20 * std::exp(0.32)).epsilon(0.15));

    options = {.users = 100'000'000, .items = 400, .user_exponent = 0};
    options.common.candidates = 1;
    options.common.returns = {0.6, 10, 0.5};
    GeneratedTrace returning(options);
    stats = measure(take(returning, 40'000));
    CHECK(stats.again == doctest::Approx(0.6).epsilon(0.04));
    CHECK(stats.gap_median_s == doctest::Approx(10).epsilon(0.06));
  }
}
