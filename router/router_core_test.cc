#include "router/router_core.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "runtime/core_probe.h"

namespace troupe::router {
namespace {

constexpr Address door{1, Role::door}, meta{1, Role::cache_meta}, worker{1, Role::inference_worker};

RouterConfig config() {
  RouterConfig result;
  result.first_id = 100;
  result.form = {{1, 2}, {3}, {4}, {5}, 64, 1'000};
  result.names = {"model 1", "layout 1"};
  result.limits.request_tokens_max = 60;
  result.in_flight_max = 2;
  result.writes_in_flight_max = 1;
  result.budget = {1'000};
  result.lookup_wait_min = {50};
  return result;
}

Item item(const std::string& id, std::size_t tokens = 4) {
  Item result{id, "the " + id, std::vector<Token>(tokens, 10), 20, {}};
  result.block.bytes[0] = static_cast<std::uint8_t>(id[0]);
  return result;
}
// A user with a history of `tokens` tokens and two items of four tokens each.
Features features(std::uint32_t tokens = 20) {
  return {Profile{7, std::vector<Token>(tokens, 30), std::vector<std::uint32_t>(tokens, 1)},
          {item("a"), item("b")},
          "catalog 1"};
}

struct Bench {
  RouterCore core{config()};
  CoreProbe probe{core};
  std::uint64_t serial = 0;  // of the last request

  void rank(std::int64_t us, RequestId id, const std::string& policy = "bat", std::int64_t budget = 0) {
    probe.receive(us, door, RankRequest{id, "t", "ann", {"a", "b"}, 0, policy, budget});
    for (const auto& [job, work] : probe.started<FindFeatures>()) serial = job;
  }
  void find(std::int64_t us, Features found = features()) { probe.done(us, serial, std::move(found)); }
  void index(std::int64_t us, double user_frequency, double coldest, std::vector<BlockName> evict = {}) {
    probe.receive(us, meta, BlocksFound{serial, 0, {0, 0}, user_frequency, coldest, evict});
  }
  Execute plan() const {
    REQUIRE(probe.sent<Execute>().size() == 1);
    return probe.sent<Execute>()[0];
  }
  void execute(std::int64_t us, std::vector<double> logits,
               std::vector<std::uint8_t> reused = {0, 0, 0, 0, 0, 0}) {
    probe.receive(us, worker, Executed{serial, {{std::move(logits)}}, std::move(reused), 2, 3, 4, 5});
  }
  std::string refused() const {
    const auto list = probe.sent<Refused>();
    return list.size() == 1 ? std::to_string(list[0].refusal.status) + " " + list[0].refusal.code : "";
  }
};

TEST_CASE("only BAT's policy evicts by hotness; its baselines leave that to the least recent use") {
  Bench b;
  BlockName cold;
  cold.bytes[0] = 9;
  for (const char* policy : {"user", "item"}) {
    CAPTURE(policy);
    b.rank(0, 1, policy);
    b.find(1);
    b.index(2, 2, 1, {cold});
    CHECK(b.plan().evict_first.empty());
    b.execute(3, {0, 0});
  }
}

TEST_CASE("a request goes from features over the index to the worker and back") {
  Bench b;
  b.rank(0, 9);
  b.find(10);
  const auto lookup = b.probe.sent<LookupBlocks>().at(0);
  CHECK(b.probe.recipients().at(0) == meta);
  CHECK(lookup.user == user_key("t", "ann"));
  CHECK(lookup.user_tokens == 21);  // <user> and the history
  CHECK(lookup.item_blocks == std::vector<BlockName>{item("a").block, item("b").block});
  CHECK(lookup.count_access);
  BlockName cold;
  cold.bytes[0] = 9;
  b.index(30, 2, 1, {cold});
  const Execute plan = b.plan();
  CHECK(plan.budget_us == 970);
  CHECK(plan.evict_first == std::vector<BlockName>{cold});
  CHECK(plan.segments.at(1).block == lookup.user_block);
  b.execute(100, {1.0, 2.0}, {1, 1, 0, 0, 0, 0});
  const auto reply = b.probe.sent<RankReply>().at(0);
  CHECK(b.probe.recipients().at(0) == door);
  CHECK(reply.id == 9);
  CHECK(reply.items.at(0).id == "b");
  CHECK(reply.items[0].probability == doctest::Approx(std::exp(1.0) / (1 + std::exp(1.0))));
  CHECK(reply.plan == "user");
  CHECK(reply.policy == "bat");
  CHECK(reply.tokens_total == 2 + 21 + 8 + 2);
  CHECK(reply.tokens_reused == 2 + 21);
  CHECK(reply.tokens_computed == 10);
  CHECK(reply.blocks_reused == 2);
  CHECK(reply.profile_version == 7);
  CHECK(reply.catalog_version == "catalog 1");
  CHECK(reply.timings == Timings{10, 20, 3, 4, 5, 100});
  CHECK(b.probe.counted(Metric::blocks_hit_user) == 1);
  CHECK(b.probe.counted(Metric::plans_user) == 1);
}

TEST_CASE("a user who is not hot enough, or short, leaves the prefix to the items") {
  Bench b;
  b.rank(0, 1);
  b.find(1);
  b.index(2, 1, 1);
  CHECK(b.plan().segments.at(1).kind == SegmentKind::item);
  CHECK(b.plan().segments[1].block == item("a").block);
  b.execute(3, {1, 2}, {0, 1, 0, 0, 0, 0});
  CHECK(b.probe.sent<RankReply>().at(0).plan == "item");
  CHECK(b.probe.counted(Metric::blocks_hit_item) == 1);
  CHECK(b.probe.counted(Metric::blocks_computed_item) == 2);  // one item and the system prompt
  b.rank(4, 2);
  b.find(5, features(6));  // 7 tokens against 8
  b.index(6, 9, 0);
  CHECK(b.plan().segments.at(1).kind == SegmentKind::item);
}

TEST_CASE("recompute asks nobody and reuses nothing") {
  Bench b;
  b.rank(0, 1, "recompute");
  b.find(1);
  CHECK(b.probe.sent<LookupBlocks>().empty());
  for (const PlannedSegment& segment : b.plan().segments) CHECK_FALSE(segment.block.has_value());
  b.execute(2, {1, 2});
  CHECK(b.probe.sent<RankReply>().at(0).plan == "user");
  CHECK(b.probe.counted(Metric::plans_recompute) == 1);
}

TEST_CASE("a silent index costs a tenth of the time, and its late answer changes nothing") {
  Bench b;
  b.rank(0, 1);
  b.find(10);
  b.probe.run_until(109);
  CHECK(b.probe.sent<Execute>().empty());
  b.probe.run_until(110);
  CHECK(b.plan().segments.at(1).kind == SegmentKind::item);
  CHECK(b.plan().evict_first.empty());
  b.index(120, 9, 0);
  CHECK(b.probe.effects.list.empty());
}

TEST_CASE("who or what is unknown is named") {
  Bench b;
  b.rank(0, 1);
  Features found = features();
  found.user.reset();
  b.find(1, found);
  CHECK(b.refused() == "404 unknown_user");
  b.rank(2, 2);
  found = features();
  found.items[1].reset();
  b.find(3, found);
  CHECK(b.refused() == "404 unknown_item");
  CHECK(b.probe.sent<Refused>()[0].refusal.where == "candidates[1]");
  CHECK(b.probe.sent<Refused>()[0].refusal.what.find("\"b\"") != std::string::npos);
  b.rank(4, 3);
  b.probe.done(5, b.serial, Refusal{503, "store_failed"});
  CHECK(b.refused() == "503 store_failed");
}

TEST_CASE("what the model cannot take is refused before it is computed") {
  Bench b;
  b.rank(0, 1);
  Features found = features();
  found.items[0] = item("a", 60);  // 2 + 1 + 60 + 1 + 1 > 64
  b.find(1, found);
  CHECK(b.refused() == "422 too_long");
  b.rank(2, 2);
  found.items[0] = item("a", 58);
  b.find(3, found);
  CHECK(b.refused() == "413 too_many_tokens");
  b.rank(4, 3, "no such policy");
  CHECK(b.refused() == "400 unknown_policy");
}

TEST_CASE("the deadline ends a request once, wherever it is") {
  Bench b;
  b.rank(0, 1);
  b.find(1);
  b.index(2, 9, 0);
  b.probe.run_until(999);
  CHECK(b.probe.sent<Refused>().empty());
  b.probe.run_until(1'000);
  CHECK(b.refused() == "504 deadline_exceeded");
  CHECK(b.probe.counted(Metric::requests_expired) == 1);
  b.execute(1'001, {1, 2});
  CHECK(b.probe.effects.list.empty());

  b.rank(2'000, 2, "bat", 10);  // its features take longer than its time
  b.probe.run_until(2'010);
  CHECK(b.refused() == "504 deadline_exceeded");
  b.find(2'020);
  CHECK(b.probe.effects.list.empty());
}

TEST_CASE("logits that are no numbers, or of another shape, are never an answer") {
  for (const std::vector<double>& logits :
       {std::vector<double>{1, std::nan("")}, {1}, {1, 2, 3}, {INFINITY, 0}}) {
    Bench b;
    b.rank(0, 1);
    b.find(1);
    b.index(2, 9, 0);
    b.execute(3, logits);
    CHECK(b.refused() == "500 bad_model_output");
    CHECK(b.probe.sent<RankReply>().empty());
  }
}

TEST_CASE("too many requests are refused, doubled ones and strangers' answers are ignored") {
  Bench b;
  b.rank(0, 1);
  b.rank(1, 1);
  CHECK(b.probe.started<FindFeatures>().empty());
  b.rank(2, 2);
  b.rank(3, 3);
  CHECK(b.refused() == "503 overloaded");
  b.find(4);
  b.index(5, 9, 0);
  b.probe.receive(6, {2, Role::inference_worker}, Executed{b.serial, {{{1, 2}}}, {0, 0, 0, 0, 0, 0}});
  CHECK(b.probe.effects.list.empty());
  b.execute(7, {1, 2});
  b.execute(8, {1, 2});
  CHECK(b.probe.effects.list.empty());
  b.rank(9, 3);
  CHECK(b.probe.started<FindFeatures>().size() == 1);
}

TEST_CASE("a worker's refusal and a worker's loss reach the client") {
  Bench b;
  b.rank(0, 1, "recompute");
  b.find(1);
  b.probe.receive(2, worker, Refused{b.serial, {503, "device_failed"}});
  CHECK(b.refused() == "503 device_failed");
  b.rank(3, 2, "recompute");
  b.find(4);
  b.probe.lose(5, 2);
  CHECK(b.refused() == "");
  b.probe.lose(6, 1);
  CHECK(b.refused() == "503 worker_lost");
}

TEST_CASE("the node is the one that holds what the prefix reuses") {
  const BlocksFound found{1, 3, {2, 2, 3, 0}};
  CHECK(choose_node(Prefix::user, found, {1, 2, 3}) == 3);
  CHECK(choose_node(Prefix::item, found, {1, 2, 3}) == 2);
  CHECK(choose_node(Prefix::none, found, {1, 2, 3}) == 1);
  CHECK(choose_node(Prefix::item, found, {1}) == 1);
  CHECK(choose_node(Prefix::user, std::nullopt, {1, 2, 3}) == 1);
}

TEST_CASE("scores: the query once, every item after it, read at its last token") {
  Bench b;
  b.probe.receive(0, door, ScoreRequest{4, "", {5, 6, 7}, {{{8}}, {{9, 9}}}, {11, 12}, true});
  const Execute plan = b.plan();
  REQUIRE(plan.segments.size() == 3);
  CHECK(plan.segments[0].kind == SegmentKind::user);
  CHECK(plan.segments[2] == PlannedSegment{SegmentKind::item, {9, 9}, 3, {0}});
  CHECK(plan.readouts.at(1) == PlannedReadout{2, 1, {11, 12}});
  b.probe.receive(5, worker, Executed{plan.id, {{{0, 0}}, {{std::log(3.0), 0}}}, {0, 0, 0}});
  const auto reply = b.probe.sent<ScoreReply>().at(0);
  CHECK(reply.id == 4);
  CHECK(reply.items.at(0).scores.at(0) == doctest::Approx(0.5));
  CHECK(reply.items.at(1).scores.at(0) == doctest::Approx(0.75));
  CHECK(reply.tokens_total == 6);

  b.probe.receive(6, door, ScoreRequest{5, "", {}, {{{8}}}, {11}});  // no query
  CHECK(b.plan().segments.at(0).start == 0);
  CHECK(b.plan().segments[0].sees.empty());
  b.probe.receive(7, worker, Executed{b.plan().id, {{{1, 2}}}, {0}});
  CHECK(b.refused() == "500 bad_model_output");
  b.probe.receive(8, door, ScoreRequest{6, "", {}, {{{8}}}, {1'000}});
  CHECK(b.refused() == "422 unknown_token");
}

TEST_CASE("a write is stored, answered, and the cache told to forget the old content") {
  Bench b;
  b.probe.receive(0, door, PutUser{3, "t", "ann", {"a"}, {}});
  const auto [job, write] = b.probe.started<Write>().at(0);
  CHECK(std::holds_alternative<PutUser>(write.what));
  b.probe.receive(1, door, PutItem{4, "x", "", {5}, 6});
  CHECK(b.refused() == "503 overloaded");
  b.probe.done(2, job, Written{8});
  CHECK(b.probe.sent<Stored>().at(0) == Stored{3, 8});
  CHECK(b.probe.sent<Forget>().at(0) == Forget{SegmentKind::user, user_key("t", "ann")});
  b.probe.receive(3, door, DeleteItem{5, "x"});
  b.probe.done(4, b.probe.started<Write>().at(0).first, Refusal{404, "unknown_item"});
  CHECK(b.refused() == "404 unknown_item");
  CHECK(b.probe.sent<Forget>().empty());
}

TEST_CASE(
    "a write that comes through after its deadline is still told to the cache, but not answered twice") {
  Bench b;
  b.probe.receive(0, door, DeleteUser{3, "t", "ann"});
  const auto job = b.probe.started<Write>().at(0).first;
  b.probe.run_until(1'000);
  CHECK(b.refused() == "504 deadline_exceeded");
  b.probe.done(1'500, job, Written{8});
  CHECK(b.probe.sent<Stored>().empty());
  CHECK(b.probe.sent<Forget>().size() == 1);
}

TEST_CASE("a put item is computed ahead under the name that requests will ask for") {
  RouterConfig on = config();
  on.precompute.on = true;
  RouterCore core(on);
  CoreProbe probe(core);
  probe.start();
  probe.receive(1, {1, Role::kv_worker}, StatusReply{1, 1, Role::kv_worker, true});
  probe.done(2, probe.started<ListItems>().at(0).first, ItemList{{}, true});
  probe.receive(3, door, PutItem{4, "x", "", {5, 6}, 6});
  probe.done(4, probe.started<Write>().at(0).first, Written{1});
  const auto lookup = probe.sent<LookupBlocks>().at(0);
  CHECK(lookup.item_blocks ==
        std::vector<BlockName>{item_block(on.form, on.names, std::vector<Token>{5, 6})});
  probe.receive(5, meta, BlocksFound{lookup.id, 0, {0}});
  const auto chunk = probe.sent<Execute>().at(0);
  probe.receive(6, worker, Executed{chunk.id, {}, {0, 0}, 2});
  probe.receive(7, door, StatusRequest{1});
  const auto status = probe.sent<StatusReply>().at(0);
  CHECK(status.ready);
  CHECK(field_of(status, "precompute") == "done");
  CHECK(field_of(status, "items_precomputed") == "1");
}

TEST_CASE("under loss, delay and doubling every request has exactly one outcome by its deadline") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Bench b;
    std::vector<std::pair<Address, Message>> network;  // on its way to the router
    std::vector<std::uint64_t> jobs;
    std::map<RequestId, int> outcomes;
    const auto take = [&] {
      for (const auto& [job, work] : b.probe.started<FindFeatures>()) jobs.push_back(job);
      for (const auto& ask : b.probe.sent<LookupBlocks>())
        network.push_back({meta, BlocksFound{ask.id, 0, {0, 0}, 1, 0}});
      for (const auto& plan : b.probe.sent<Execute>())
        network.push_back(
            {worker, Executed{plan.id, {{{1, 2}}}, std::vector<std::uint8_t>(plan.segments.size())}});
      for (const auto& reply : b.probe.sent<RankReply>()) ++outcomes[reply.id];
      for (const auto& refused : b.probe.sent<Refused>()) ++outcomes[refused.id];
      b.probe.effects = {};
    };
    RequestId asked = 0;
    std::int64_t now = 0;
    for (int i = 0; i < 400; ++i) {
      b.probe.run_until(now += random() % 50);
      take();
      if (random() % 3 == 0) {
        b.rank(now, ++asked, random() % 2 ? "bat" : "recompute", 1 + random() % 800);
      } else if (!jobs.empty() && random() % 2 == 0) {
        b.probe.done(now, jobs.front(), features());
        jobs.erase(jobs.begin());
      } else if (!network.empty()) {
        const auto n = random() % network.size();
        const auto [from, message] = network[n];
        if (random() % 4 != 0)
          network.erase(network.begin() + static_cast<std::ptrdiff_t>(n));  // else: doubled
        if (random() % 5 != 0) b.probe.receive(now, from, message);         // else: lost
      }
      take();
    }
    b.probe.run_until(now + 1'000);
    take();
    CHECK(outcomes.size() == asked);
    for (const auto& [id, count] : outcomes) CHECK(count == 1);
  }
}

}  // namespace
}  // namespace troupe::router
