#include "deploy/lab/bench/bench_trace.h"

#include <doctest/doctest.h>

#include <map>
#include <utility>

#include "deploy/lab/bench/bench_rank.h"
#include "deploy/lab/testing/small_generator_test.h"
#include "deploy/lab/traces/trace_makers.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace bench_trace_test {

const std::filesystem::path demo = std::filesystem::path(TROUPE_ROOT_DIR) / "deploy" / "demo";

struct Trace : TestFolder {
  std::filesystem::path file() const { return path() / "t.jsonl"; }
  void write_requests(const std::vector<TracedRequest>& requests) const {
    TraceWriter writer(file(), "");
    for (const TracedRequest& request : requests) writer.write(request);
    writer.close();
  }
  // Writes a trace of the demo world: few users, who return.
  void write_demo(std::size_t count) const {
    DataTraceOptions options{.data = demo / "world", .users = 5, .start = 3};
    options.common.candidates = 10;
    options.common.per_second = 200;
    DataTrace maker(options);
    std::vector<TracedRequest> requests;
    for (TracedRequest request; requests.size() < count && maker.next(request);) requests.push_back(request);
    write_requests(requests);
  }
  // Rewrites the requests so that each user has all their events from the first request on.
  void write_late() const {
    std::vector<TracedRequest> requests;
    TracedRequest next;
    for (TraceReader reader(file()); reader.next(next);) requests.push_back(next);
    std::map<std::string, TracedRequest> last;
    for (const TracedRequest& request : requests) {
      TracedRequest& whole = last[request.user];
      whole.profile = request.profile;
      whole.events.insert(whole.events.end(), request.events.begin(), request.events.end());
    }
    for (TracedRequest& request : requests) {
      TracedRequest& whole = last[request.user];
      request.profile = whole.profile;
      request.events = std::exchange(whole.events, {});
    }
    write_requests(requests);
  }
};

TracedRequest ask(const char* user, std::uint64_t profile, std::vector<std::string> events) {
  return {{0}, "", user, profile, std::move(events), {"c"}, ""};
}

BenchRank demo_bench(const Trace& trace, double speed) {
  BenchRank bench;
  bench.data = demo / "world";
  bench.trace = trace.file();
  bench.speed = speed;
  return bench;
}

Config demo_config() {
  Config config;
  config.set("model.directory", (demo / "model").string());
  config.set("inference.executors", "2");
  return config;
}

TEST_SUITE("bench trace") {
  TEST_CASE(
      "trace questions: a profile is written before its request and after the user's earlier requests") {
    Trace trace;
    trace.write_requests({ask("u", 1, {"a"}), ask("v", 0, {}), ask("v", 0, {}), ask("u", 2, {"b"}),
                          ask("u", 4, {"d", "e"}), ask("w", 1, {"a"})});
    std::vector<std::string> log;
    TraceQuestions questions(trace.file(), 0, 3, [&](const std::vector<PutUser>& profiles) {
      for (const PutUser& put : profiles) {
        std::string line = "write " + put.user;
        for (const std::string& item : put.history) line += " " + item;
        log.push_back(line);
      }
    });
    for (Question question; questions.next(question);)
      log.push_back("ask " + std::get<RankRequest>(question.request).user);
    const std::vector<std::string> expected{"write u a",   "write v", "ask u", "ask v",
                                            "write u a b", "ask v",   "ask u", "write u b d e",
                                            "write w a",   "ask u",   "ask w"};
    CHECK(log == expected);
    CHECK(questions.users() == 3);
  }

  TEST_CASE("trace survey: it sums the last profiles, and refuses items that the catalog lacks") {
    Trace trace;
    trace.write_requests({ask("u", 1, {"a"}), ask("v", 1, {"a", "bb"}), ask("u", 2, {"bb"})});
    const auto length = [](const std::string& item) -> std::uint64_t {
      return item == "x" ? 0 : item.size();
    };
    const TraceTotals survey = total_trace(trace.file(), 0, length);
    CHECK(survey.requests == 3);
    CHECK(survey.user_tokens == std::vector<std::uint64_t>{3, 3});
    CHECK(total_trace(trace.file(), 1, length).user_tokens == std::vector<std::uint64_t>{1});
    TracedRequest late = ask("u", 1, {"a"});
    late.at.us = std::int64_t{1} << 53;
    trace.write_requests({late});
    CHECK(total_trace(trace.file(), 0, length).requests == 1);
    CHECK(total_trace(trace.file(), 0, length, 1e6).requests == 1);
    CHECK_THROWS_WITH_AS(total_trace(trace.file(), 0, length, 1e-6),
                         doctest::Contains("t.jsonl:2: at_us is 9007199254740992, which is due after "),
                         ImportError);
    trace.write_requests({ask("u", 1, {"a"}), ask("v", 1, {"x"})});
    CHECK_THROWS_WITH_AS(total_trace(trace.file(), 0, length),
                         doctest::Contains("t.jsonl:3: item \"x\" is not in the catalog"), ImportError);
    trace.write_requests({});
    CHECK_THROWS_WITH_AS(total_trace(trace.file(), 0, length), doctest::Contains("there are no requests"),
                         ImportError);
  }

  TEST_CASE("bench trace: every policy answers an open and a closed loop with the profiles' tokens") {
    Trace trace;
    trace.write_demo(60);
    const BenchRank open = demo_bench(trace, 4), closed = demo_bench(trace, 0);
    const BenchMemory memory = bench_memory(open, demo_config());
    CHECK(memory.user_bytes > 0);
    TracedRequest last;
    for (TraceReader reader(trace.file()); reader.next(last);) continue;
    const double lasts_s = static_cast<double>(last.at.us) * 1e-6;
    BenchRank single = closed;
    single.in_flight = 1;  // each request finds its own profile
    const std::uint64_t least = run_policy(single, demo_config(), memory, "recompute").tokens_total;
    // A request that still waits when its user's next profile is written is answered with that profile. How
    // many do depends on the machine's load.
    Trace late;
    late.write_demo(60);
    late.write_late();
    single.trace = late.file();
    const std::uint64_t most = run_policy(single, demo_config(), memory, "recompute").tokens_total;
    CHECK(least < most);
    const auto has_tokens = [&](const BenchRankRun& run) {
      CHECK(run.tokens_total >= least);
      CHECK(run.tokens_total <= most);
    };
    for (const char* policy : {"recompute", "user", "item", "bat"}) {
      CAPTURE(policy);
      const BenchRankRun run = run_policy(open, demo_config(), memory, policy);
      CHECK(run.requests == 60);
      CHECK(run.errors == 0);
      CHECK(run.seconds >= lasts_s / 4);  // no request is sent before its time
      CHECK(run.users == 5);
      CHECK(run.judged > 10);
      CHECK(run.judged < 40);
      CHECK((run.tokens_reused > 0) == (run.policy != "recompute"));
      CHECK((run.user_blocks_hit > 0) == (run.policy == "user"));
      CHECK((run.plans_item > 0) == (run.policy != "user"));
      has_tokens(run);
    }
    const BenchRankRun run = run_policy(closed, demo_config(), memory, "recompute");
    CHECK(run.requests == 60);
    has_tokens(run);
    single.trace = trace.file();
    CHECK(run_policy(single, demo_config(), memory, "bat").tokens_total == least);
  }

  TEST_CASE("bench trace: a trace of generations needs a generator, and a trace of rankings a ranker") {
    Trace trace;
    std::vector<TracedRequest> requests;
    for (std::uint64_t profile = 1; profile < 4; ++profile) {
      requests.push_back(ask("u", profile, {"0"}));
      requests.back().candidates.clear();
      requests.back().generates = true;
      requests.back().width = requests.back().top_k = 3;
      requests.back().truth = "1";
    }
    trace.write_requests(requests);
    const SmallGenerator small;
    small.folder().write("prompt.json", R"({"system":["<bos>"],"user":[],"instruction":[]})");
    Config config;
    config.set("model.directory", small.folder().path().string());
    BenchRank bench;
    bench.data = small.folder().path();
    bench.trace = trace.file();
    bench.in_flight = 1;  // each request finds its own profile
    const BenchMemory memory = bench_memory(bench, config);
    const BenchRankRun run = run_policy(bench, config, memory, "user");
    CHECK(run.requests == 3);
    CHECK(run.errors == 0);
    CHECK(run.judged == 3);
    CHECK(run.recall_at_10 == 1);  // all three items are found
    CHECK(run.tokens_total == 1 + 2 + 1 + 4 + 1 + 6);
    BenchRank ranks = demo_bench(trace, 0);
    requests[0].events = requests[1].events = requests[2].events = {"camp-0000"};
    trace.write_requests(requests);
    CHECK_THROWS_WITH_AS(run_policy(ranks, demo_config(), bench_memory(ranks, demo_config()), "user"),
                         doctest::Contains("t.jsonl:2: the request generates items, but the model ranks"),
                         ImportError);
    trace.write_requests({{{0}, "", "u", 1, {"0"}, {"1"}, ""}});
    CHECK_THROWS_WITH_AS(run_policy(bench, config, memory, "user"),
                         doctest::Contains("the request ranks candidates, but the model generates"),
                         ImportError);
  }

  TEST_CASE("bench trace: an error in the middle of a trace ends the run with that error") {
    Trace trace;
    trace.write_demo(200);
    const BenchRank bench = demo_bench(trace, 0);
    const BenchMemory memory = bench_memory(bench, demo_config());
    std::ofstream(trace.file(), std::ios::app) << "no request\n";
    CHECK_THROWS_WITH_AS(run_policy(bench, demo_config(), memory, "recompute"),
                         doctest::Contains("no request"), ImportError);
    BenchRank open = bench;
    open.speed = 1'000;
    CHECK_THROWS_AS(run_policy(open, demo_config(), memory, "recompute"), ImportError);
  }
}

}  // namespace bench_trace_test
