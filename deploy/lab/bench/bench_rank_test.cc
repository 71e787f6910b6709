#include "deploy/lab/bench/bench_rank.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

const std::filesystem::path demo = std::filesystem::path(TROUPE_ROOT_DIR) / "deploy" / "demo";

Config demo_config() {
  Config config;
  config.set("model.directory", (demo / "model").string());
  config.set("inference.executors", "2");
  return config;
}

BenchRank demo_bench(std::size_t requests) {
  BenchRank bench;
  bench.data = demo / "world";
  bench.rows = read_evaluation(demo / "world" / "requests.jsonl");
  for (EvaluationRow& row : bench.rows) row.history.assign(20, row.candidates.front());
  bench.visits = make_visits(bench.rows, requests, 3, 7);
  return bench;
}

// A file with the demo's form that declares these arrangements.
struct DeclaringForm {
  std::filesystem::path path;
  DeclaringForm(const std::vector<std::string>& arrangements,
                const std::vector<std::string>& interchangeable) {
    nlohmann::json form = nlohmann::json::parse(std::ifstream(demo / "model" / "prompt.json"));
    form.erase("arrangements");
    form.erase("interchangeable");
    if (!arrangements.empty()) form["arrangements"] = arrangements;
    if (!interchangeable.empty()) form["interchangeable"] = interchangeable;
    std::string name = (std::filesystem::temp_directory_path() / "troupe-form-XXXXXX").string();
    const int file = mkstemp(name.data());
    REQUIRE(file >= 0);
    close(file);
    path = name;
    std::ofstream(path) << form;
  }
  DeclaringForm(const DeclaringForm&) = delete;
  DeclaringForm& operator=(const DeclaringForm&) = delete;
  ~DeclaringForm() { std::filesystem::remove(path); }
};

}  // namespace

TEST_SUITE("bench rank") {
  TEST_CASE("bench memory: it counts users with requests, each up to the model's positions") {
    BenchRank bench = demo_bench(9);
    const BenchMemory few = bench_memory(bench, demo_config());
    bench.visits = make_visits(bench.rows, 18, 3, 7);
    const BenchMemory more = bench_memory(bench, demo_config());
    CHECK(few.user_bytes > 0);
    CHECK(more.user_bytes == 2 * few.user_bytes);
    CHECK(more.item_bytes == few.item_bytes);
    std::erase_if(bench.visits, [](const Visit& visit) { return !visit.first; });
    CHECK(bench_memory(bench, demo_config()).user_bytes == more.user_bytes);
    for (EvaluationRow& row : bench.rows) row.history.assign(1'000, row.candidates.front());
    const BenchMemory longest = bench_memory(bench, demo_config());
    for (EvaluationRow& row : bench.rows) row.history.assign(100'000, row.candidates.front());
    CHECK(bench_memory(bench, demo_config()).user_bytes == longest.user_bytes);
  }

  TEST_CASE("bench memory: an item's block has the form's item mark") {
    const kernels::TestFolder folder;
    const auto item_bytes = [&](const std::string& mark) {
      folder.write("form.json", R"({"instruction":[1,2,3],"history_item":["{words}"],"candidate":[)" + mark +
                                    R"("{words}",7],"read_at":7,"yes":8,"no":9})");
      Config config = demo_config();
      config.set("model.prompt", (folder.path() / "form.json").string());
      return bench_memory(demo_bench(3), config).item_bytes;
    };
    // The demo's 1,600 items have three tokens each and pages have four. The system block has 16 pages.
    const std::uint64_t plain = item_bytes("");
    CHECK(item_bytes("5,") == plain);
    CHECK(item_bytes("5,6,") * (1'600 + 16) == plain * (2 * 1'600 + 16));
  }

  TEST_CASE("run_policy: every policy answers all requests, and only reusing policies report reuse") {
    const BenchRank bench = demo_bench(12);
    const BenchMemory memory = bench_memory(bench, demo_config());
    for (const char* policy : {"recompute", "user", "item", "bat", "planner"}) {
      CAPTURE(policy);
      const BenchRankRun run = run_policy(bench, demo_config(), memory, policy);
      CHECK(run.requests == 12);
      CHECK(run.errors == 0);
      CHECK(run.users == 4);
      CHECK(run.tokens_total == run.tokens_computed + run.tokens_reused);
      CHECK((run.tokens_reused > 0) == (run.policy != "recompute"));
      CHECK(run.cpu_seconds > 0);
      CHECK(run.prediction_p10 > 0);
      CHECK(run.prediction_p10 <= run.prediction_p50);
      CHECK(run.prediction_p50 <= run.prediction_p90);
      CHECK(std::abs(run.hit_rate * static_cast<double>(run.tokens_total) -
                     static_cast<double>(run.tokens_reused)) < 0.5);
    }
  }

  TEST_CASE("fresh candidates: no combination is drawn twice, and single blocks are still reused") {
    BenchRank bench = demo_bench(60);
    bench.fresh = 10;
    const BenchMemory memory = bench_memory(bench, demo_config());
    const BenchRankRun run = run_policy(bench, demo_config(), memory, "item");
    CHECK(run.requests == 60);
    CHECK(run.errors == 0);
    CHECK(run.judged == 0);
    REQUIRE(run.tenths.size() == 10);
    CHECK(run.tenths.back() > 0.2);
    CHECK(run.tenths.back() == doctest::Approx(run.tenths[1]).epsilon(0.3));
    EvaluationRow row;
    row.user = "u", row.history = {"a", "a"};
    FreshCandidates few({"a", "b", "c", "d", "e"}, {row}, 2, 5);
    std::set<std::set<std::string>> seen;
    for (int i = 0; i < 10; ++i) {  // all combinations that exist
      const auto drawn = few.next();
      REQUIRE(drawn.size() == 2);
      CHECK(seen.insert({drawn.begin(), drawn.end()}).second);
    }
    for (const auto& pair : seen) CHECK(pair.size() == 2);
    CHECK_THROWS_AS(FreshCandidates({"a", "b", "c"}, {}, 2, 5), std::invalid_argument);
  }

  TEST_CASE("run_policy: refused requests are counted as errors, and the run ends") {
    BenchRank bench = demo_bench(4);
    for (EvaluationRow& row : bench.rows) row.candidates = {"no such item"};
    const BenchRankRun run =
        run_policy(bench, demo_config(), bench_memory(bench, demo_config()), "recompute");
    CHECK(run.errors == 4);
    CHECK(run.requests == 4);
    CHECK(run.recall_at_10 == 0);
  }

  TEST_CASE("run_policy: a profile shows CPU time for every component that serves requests") {
    BenchRank bench = demo_bench(12);
    CHECK(run_policy(bench, demo_config(), bench_memory(bench, demo_config()), "item").profile.empty());
    bench.profile = true;
    const BenchRankRun run = run_policy(bench, demo_config(), bench_memory(bench, demo_config()), "item");
    double sum = 0;
    for (const CpuShare& share : run.profile) {
      CAPTURE(share.component);
      sum += share.seconds;
      const bool idle =
          share.component == "allocator" || share.component == "block port" || share.component == "codec";
      CHECK((idle || share.component == "rest" || share.seconds > 0));
    }
    CHECK(sum == doctest::Approx(run.cpu_seconds).epsilon(0.2));
  }

  TEST_CASE("bench memory: the item area's share depends on whether item blocks are kept") {
    const BenchMemory memory{.pool_bytes = 1'200, .item_bytes = 1'000, .user_bytes = 800};
    CHECK(memory.item_share(true) == doctest::Approx(1'000.0 / 1'200));
    CHECK(memory.item_share(false) == doctest::Approx(1.0 - 600.0 / 1'200));
  }

  TEST_CASE("bench config: items get memory only if the form serves plans that read their blocks") {
    const BenchMemory memory{.pool_bytes = 12 << 20, .item_bytes = 10 << 20, .user_bytes = 8 << 20};
    const auto keeps_items = [&](const DeclaringForm& form, const char* policy,
                                 const char* approximate = "0") {
      Config config = demo_config();
      config.set("model.prompt", form.path.string());
      config.set("router.approximate", approximate);
      const Config made = bench_config(config, memory, policy);
      CAPTURE(policy);
      CHECK(made.pool.item_share == doctest::Approx(memory.item_share(made.pool.precompute_items)));
      return made.pool.precompute_items;
    };
    const DeclaringForm both({"item_first", "user_first", "causal"}, {"item_first", "user_first"});
    for (const char* policy : {"item", "larger", "bat", "planner"}) CHECK(keeps_items(both, policy));
    for (const char* policy : {"user", "causal", "recompute"}) CHECK_FALSE(keeps_items(both, policy));
    const DeclaringForm undeclared({}, {});
    for (const char* policy : {"planner", "causal", "recompute", "bat"})
      CHECK_FALSE(keeps_items(undeclared, policy));
    CHECK(keeps_items(undeclared, "blocks"));
    CHECK(keeps_items(undeclared, "planner", "0.5"));
    const DeclaringForm users({"user_first", "item_first"}, {});
    CHECK_FALSE(keeps_items(users, "planner"));
    const DeclaringForm items({"item_first", "user_first"}, {});
    CHECK(keeps_items(items, "planner"));
  }

  TEST_CASE("parse_profile_tokens: invalid profile lengths are refused") {
    for (const char* bad : {"nan", "inf", "1e30", "600,nan", "600,0.5,nan", "600,0.5,1e30"})
      CHECK_THROWS_AS(parse_profile_tokens(bad), std::invalid_argument);
  }
}
