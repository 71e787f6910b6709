#include "router/testing/router_core_test.h"

#include <algorithm>
#include <cmath>

#include "runtime/actor/user_home.h"
#include "runtime/testing/accepted_senders.h"

namespace troupe::router {
namespace {

TEST_CASE("policies: only BAT's policy evicts by hotness; its baselines evict the least recently used") {
  RouterBench b;
  BlockName cold;
  cold.bytes[0] = 9;
  RequestId id = 0;
  for (const char* policy : {"user", "item"}) {
    CAPTURE(policy);
    b.rank(0, ++id, policy);
    b.find(1);
    b.index(2, 2, 1, {cold});
    CHECK(b.plan().retention.evict_first.empty());
    b.execute(3, {0, 0});
  }
}

TEST_CASE("planner: takes the cheaper prefix for the chosen node, and keeps it for retries") {
  RouterBench b(cluster_config({1, 2}));
  RequestId id = 0;
  const auto ask = [&](std::vector<NodeId> user, std::vector<NodeId> items, double user_uses = 0,
                       std::vector<BlockName> coldest = {}) {
    b.rank(0, ++id, "planner", 100'000);
    b.find(0);
    const auto holders = static_cast<std::uint8_t>(items.size() / 2);
    b.index(0,
            IndexAnswer{
                std::move(user), {holders, holders}, std::move(items), 0, 0, std::move(coldest), user_uses});
    return b.plan();
  };
  const auto reuses = [](const Execute& plan, SegmentKind kind) {
    for (std::size_t i = 0; i < plan.blocks.size(); ++i)
      if (plan.plan.segments[i].kind == kind && plan.blocks[i].name) return true;
    return false;
  };
  for (const NodeId holder : {1, 2}) {  // the user has 21 tokens, the items have 8
    CHECK(reuses(ask({holder}, {}), SegmentKind::user));
    CHECK(b.node == holder);
    b.execute_at(0, holder);
    const Execute by_items = ask({}, {holder, holder});
    CHECK(reuses(by_items, SegmentKind::item));
    CHECK(by_items.retention.keep_hotter);
    CHECK(b.node == holder);
    b.execute_at(0, holder);
  }
  CHECK(reuses(ask({}, {2, 2}, 0.6), SegmentKind::item));
  b.execute_at(0, b.node);
  const Execute invests =
      ask({}, {2, 2}, 0.7, {test_item("z").block});  // 8 more tokens now, and 8 instead of 21 later
  CHECK(reuses(invests, SegmentKind::user));
  CHECK(invests.retention.evict_first.empty());  // the node that holds the blocks chooses what to evict
  CHECK(invests.retention.keep_hotter);
  b.execute_at(0, b.node);

  const Execute first = ask({1}, {2, 2});
  CHECK(b.node == 1);
  CHECK(reuses(first, SegmentKind::user));
  b.lose(1, 1);
  CHECK(b.node == 2);
  CHECK(reuses(b.plan(), SegmentKind::user));
}

TEST_CASE("router: events for it are logged, everything else is counted") {
  const auto receive = [](Address from, const Message& message) {
    RouterBench b;
    b.probe.receive(1, from, message);
    return b.probe.effects;
  };
  CHECK(accepted_senders(1, receive) == R"(RankRequest: everybody
ScoreRequest: everybody
PutUser: everybody
DeleteUser: everybody
PutItem: everybody
DeleteItem: everybody
Reload: everybody
Refused: everybody
Executed: everybody
BlocksFound: everybody
Heartbeat: everybody
Versions: everybody
Suspect: everybody
LeaderBeat: everybody
Drain: everybody
StatusRequest: everybody
StatusReply: everybody
GenerateRequest: everybody
CompleteRequest: everybody
AppendEvents: everybody
GetUser: everybody
GetItem: everybody
ReplayRequest: everybody
ReplayReply: everybody
Cancel: everybody
EmbedRequest: everybody
)");
}

TEST_CASE("router: a request goes from features to the index, to the worker and back") {
  RouterBench b;
  b.rank(0, 9);
  b.find(10);
  const auto lookup = b.probe.sent<LookupBlocks>().at(0);
  CHECK(b.probe.recipients().at(0) == meta);
  CHECK(lookup.user == owner_of_user("t", "ann"));
  REQUIRE(lookup.blocks.size() == 3);
  CHECK(lookup.blocks[0].kind == SegmentKind::user);
  CHECK(lookup.blocks[0].tokens == 21);  // <user> and the history
  CHECK(lookup.blocks[1] == BlockQuery{test_item("a").block, SegmentKind::item, 4});
  CHECK(lookup.blocks[2] == BlockQuery{test_item("b").block, SegmentKind::item, 4});
  CHECK(lookup.count_access);
  BlockName cold;
  cold.bytes[0] = 9;
  b.index(30, 2, 1, {cold});
  const Execute plan = b.plan();
  CHECK(plan.budget_us == 970);
  CHECK(plan.retention.evict_first == std::vector<BlockName>{cold});
  CHECK(plan.blocks.at(1).name == lookup.blocks[0].name);
  b.execute(100, {1.0, 2.0}, {1, 1, 0, 0, 0, 0});
  const auto reply = b.probe.sent<RankReply>().at(0);
  CHECK(b.probe.recipients().at(0) == server);
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
  CHECK(reply.timings == Timings{10, 20, 3, 4, 5, 100, 6, 31});
  CHECK(b.probe.counted(Metric::blocks_hit_user) == 1);
  CHECK(b.probe.counted(Metric::plans_user) == 1);
}

TEST_CASE("router: a user with low hotness or a short history leaves the prefix to the items") {
  RouterBench b;
  b.rank(0, 1);
  b.find(1);
  b.index(2, 1, 1);
  CHECK(b.plan().plan.segments.at(1).kind == SegmentKind::item);
  CHECK(b.plan().blocks[1].name == test_item("a").block);
  b.execute(3, {1, 2}, {0, 1, 0, 0, 0, 0});
  CHECK(b.probe.sent<RankReply>().at(0).plan == "item");
  CHECK(b.probe.counted(Metric::blocks_hit_item) == 1);
  CHECK(b.probe.counted(Metric::blocks_computed_item) == 2);  // one item and the system prompt
  b.rank(4, 2);
  b.find(5, test_features(6));  // 7 tokens against 8
  b.index(6, 9, 0);
  CHECK(b.plan().plan.segments.at(1).kind == SegmentKind::item);
}

TEST_CASE("router: the recompute policy asks no index and reuses nothing") {
  RouterBench b;
  b.rank(0, 1, "recompute");
  b.find(1);
  CHECK(b.probe.sent<LookupBlocks>().empty());
  for (const SegmentBlock& block : b.plan().blocks) CHECK_FALSE(block.name.has_value());
  b.execute(2, {1, 2});
  CHECK(b.probe.sent<RankReply>().at(0).plan == "item");  // of the form's first arrangement
  CHECK(b.probe.sent<RankReply>().at(0).arrangement == Arrangement::item_first);
  CHECK(b.probe.counted(Metric::plans_recompute) == 1);
}

TEST_CASE("router: a silent index costs a tenth of the budget, and its late answer changes nothing") {
  RouterBench b;
  b.rank(0, 1);
  b.find(10);
  b.run_until(109);
  CHECK(b.probe.sent<Execute>().empty());
  b.run_until(110);
  CHECK(b.plan().plan.segments.at(1).kind == SegmentKind::item);
  CHECK(b.plan().retention.evict_first.empty());
  b.index(120, 9, 0);
  CHECK(b.probe.effects.list.empty());
}

TEST_CASE("router: a refusal names the unknown user, item or version") {
  RouterBench b;
  b.rank(0, 1);
  Features found = test_features();
  found.user.reset();
  b.find(1, found);
  CHECK(b.refused() == "not_found unknown_user");
  b.rank(2, 2);
  found = test_features();
  found.items[1] = no_item;
  b.find(3, found);
  CHECK(b.refused() == "not_found unknown_item");
  CHECK(b.probe.sent<Refused>()[0].refusal.where == "candidates[1]");
  CHECK(b.probe.sent<Refused>()[0].refusal.what.find("\"b\"") != std::string::npos);
  b.rank(4, 3);
  b.probe.done(5, b.job, Refusal{RefusalKind::unavailable, "store_failed"});
  CHECK(b.refused() == "unavailable store_failed");
}

TEST_CASE("router: a request beyond the model's limits is refused before it is computed") {
  RouterBench b;
  b.rank(0, 1);
  const ProfilePointer user = test_features().user;
  Features found = features_of(user, {test_item("a", 60), test_item("b")});  // 2 + 1 + 60 + 1 + 1 > 64
  b.find(1, found);
  CHECK(b.refused() == "unprocessable too_long");
  b.rank(2, 2);
  found = features_of(user, {test_item("a", 58), test_item("b")});
  b.find(3, found);
  CHECK(b.refused() == "too_large too_many_tokens");
  b.rank(4, 3, "no such policy");
  CHECK(b.refused() == "malformed unknown_policy");
}

TEST_CASE("router: the deadline ends a request once, in every stage") {
  RouterBench b;
  b.rank(0, 1);
  b.find(1);
  b.index(2, 9, 0);
  b.run_until(999);
  CHECK(b.probe.sent<Refused>().empty());
  b.run_until(1'000);
  CHECK(b.refused() == "deadline_exceeded deadline_exceeded");
  CHECK(b.probe.counted(Metric::requests_expired) == 1);
  b.execute(1'001, {1, 2});
  CHECK(b.probe.effects.list.empty());

  b.rank(2'000, 2, "bat", 10);  // its features take longer than its budget
  b.run_until(2'010);
  CHECK(b.refused() == "deadline_exceeded deadline_exceeded");
  b.find(2'020);
  CHECK(b.probe.effects.list.empty());
}

TEST_CASE("router: logits that are not finite or have the wrong shape are never an answer") {
  for (const std::vector<double>& logits :
       {std::vector<double>{1, std::nan("")}, {1}, {1, 2, 3}, {INFINITY, 0}}) {
    RouterBench b;
    b.rank(0, 1);
    b.find(1);
    b.index(2, 9, 0);
    b.execute(3, logits);
    CHECK(b.refused() == "unavailable bad_model_output");
    CHECK(b.probe.sent<RankReply>().empty());
  }
}

TEST_CASE("router: too many requests are refused; copies and foreign answers are ignored") {
  RouterBench b;
  b.rank(0, 1);
  b.rank(1, 1);
  CHECK(b.probe.started<FindFeatures>().empty());
  b.rank(2, 2);
  b.rank(3, 3);
  CHECK(b.refused() == "unavailable overloaded");
  b.find(4);
  b.index(5, 9, 0);
  b.probe.receive(6, {2, Role::inference_worker}, b.answer({1, 2}));
  CHECK(b.probe.effects.list.empty());
  b.execute(7, {1, 2});
  b.execute(8, {1, 2});
  CHECK(b.probe.effects.list.empty());
  b.rank(9, 3);  // a copy of a refused request, and one of an answered request
  b.rank(9, 1);
  CHECK(b.probe.effects.list.size() == 1);
  b.rank(10, 4);
  CHECK(b.probe.started<FindFeatures>().size() == 1);
}

TEST_CASE("router: a worker's refusal and a worker's loss reach the client") {
  RouterBench b;
  b.probe.start();
  b.rank(0, 1, "recompute");
  b.find(1);
  b.probe.receive(2, worker, Refused{b.serial, {RefusalKind::unavailable, "device_failed"}});
  CHECK(b.refused() == "unavailable device_failed");
  b.rank(3, 2, "recompute");
  b.find(4);
  b.lose(5, 2);
  CHECK(b.refused() == "");
  b.lose(6, 1);
  CHECK(b.refused() == "");  // for a moment another worker is awaited
  b.run_until(1'003);
  CHECK(b.refused() == "deadline_exceeded deadline_exceeded");
  b.run_until(6'000);
  b.rank(6'001, 3);
  CHECK(b.refused() == "unavailable no_worker");
}

TEST_CASE("router: requests wait while a worker that drains is the last that this router has heard") {
  RouterBench b(cluster_config({1, 2}));
  b.probe.start();
  b.beat(0, 1, beat_of(5)), b.beat(0, 2, beat_of(5));
  b.lose(100, 1);  // it restarts, and connects to the other routers first
  Heartbeat drains = beat_of(5);
  drains.draining = true;
  b.beat(200, 2, drains);
  b.rank(300, 1, "recompute", 1'000'000);
  CHECK(b.refused() == "");
  CHECK(b.probe.started<FindFeatures>().empty());
  b.beat(700, 1, beat_of(6));
  for (const auto& [started, work] : b.probe.started<FindFeatures>()) b.job = started;
  b.find(710);
  CHECK(b.plans() == 1);
  CHECK(b.node == 1);
}

TEST_CASE("completion: a worker searches it, for the served model named or unnamed") {
  RouterConfig generates = small_config();
  generates.form.discriminant = {};
  RouterBench b(generates);
  CompleteRequest asked{
      .id = 4, .model = "model 1", .prompt = {5, 6, 7}, .max_tokens = 2, .n = 1, .beam_width = 3};
  b.probe.receive(0, server, asked);
  const Execute plan = b.plan();
  CHECK(plan.catalog_version == "");
  CHECK(plan.plan.search == Search{.width = 3, .results = 1, .steps = 2});
  Executed found{.id = plan.id, .reused = {0}, .model_version = "model 1"};
  found.beams = {{{8, 9}, -0.5}};
  b.probe.receive(5, worker, found);
  CHECK(b.probe.sent<CompleteReply>().at(0).completions == found.beams);
  asked.id = 5;
  asked.model = "model 2";
  b.probe.receive(6, server, asked);
  CHECK(b.refused() == "not_found unknown_model");
}

TEST_CASE("scores: the query comes once, then every item, each read at its last token") {
  RouterBench b;
  b.probe.receive(0, server, ScoreRequest{4, "", {5, 6, 7}, {{{8}}, {{9, 9}}}, {11, 12}, true});
  const Execute plan = b.plan();
  REQUIRE(plan.plan.segments.size() == 3);
  CHECK(plan.plan.segments[0].kind == SegmentKind::user);
  CHECK(plan.plan.segments[2] == Segment{SegmentKind::item, {9, 9}, 3, {0}});
  CHECK(plan.plan.readouts.at(1) == Readout{2, 1, {11, 12}});
  b.probe.receive(5, worker,
                  Executed{plan.id, {{{0, 0}}, {{std::log(3.0), 0}}}, {0, 0, 0}, 0, 0, 0, 0, "model 1"});
  const auto reply = b.probe.sent<ScoreReply>().at(0);
  CHECK(reply.id == 4);
  CHECK(reply.items.at(0).scores.at(0) == doctest::Approx(0.5));
  CHECK(reply.items.at(1).scores.at(0) == doctest::Approx(0.75));
  CHECK(reply.tokens_total == 6);

  b.probe.receive(6, server, ScoreRequest{5, "", {}, {{{8}}}, {11}});  // no query
  CHECK(b.plan().plan.segments.at(0).start == 0);
  CHECK(b.plan().plan.segments[0].sees.empty());
  b.probe.receive(7, worker, Executed{b.plan().id, {{{1, 2}}}, {0}, 0, 0, 0, 0, "model 1"});
  CHECK(b.refused() == "unavailable bad_model_output");
  b.probe.receive(8, server, ScoreRequest{6, "", {}, {{{8}}}, {1'000}});
  CHECK(b.refused() == "unprocessable unknown_token");
}

TEST_CASE("writes: a write is stored and answered, and the cache forgets the old content") {
  RouterBench b;
  b.probe.receive(0, server, PutUser{3, "t", "ann", {"a"}, {}});
  const auto [job, write] = b.probe.started<Write>().at(0);
  CHECK(std::holds_alternative<PutUser>(write.what));
  b.probe.receive(1, server, PutItem{4, "x", "", {5}, 6});
  CHECK(b.refused() == "unavailable overloaded");
  b.probe.done(2, job, WriteResult{8});
  CHECK(b.probe.sent<Stored>().at(0) == Stored{3, 8});
  CHECK(b.probe.sent<Forget>().at(0) == Forget{SegmentKind::user, owner_of_user("t", "ann")});
  b.probe.receive(3, server, DeleteItem{5, "x"});
  b.probe.done(4, b.probe.started<Write>().at(0).first, Refusal{RefusalKind::not_found, "unknown_item"});
  CHECK(b.refused() == "not_found unknown_item");
  CHECK(b.probe.sent<Forget>().empty());
}

TEST_CASE(
    "writes: whole parts of a replaced generator history stay, because the new one may begin with "
    "them") {
  RouterConfig config = small_config();
  config.form.discriminant = {};
  config.form.history_part = 16;
  RouterBench b(config);
  b.probe.receive(0, server, PutUser{3, "t", "ann", {"a"}, {}});
  b.probe.done(1, b.probe.started<Write>().at(0).first, WriteResult{8});
  CHECK(b.probe.sent<Forget>().at(0).below == 16);
  b.probe.receive(2, server, DeleteUser{4, "t", "ann"});
  b.probe.done(3, b.probe.started<Write>().at(0).first, WriteResult{9});
  CHECK(b.probe.sent<Forget>().at(0).below == 0);
}

TEST_CASE("ranking: candidates missing from the catalog are skipped and listed if the request allows it") {
  RouterBench b;
  const auto ask = [&](std::int64_t us, RequestId id, UnknownCandidates unknown) {
    b.probe.receive(us, server,
                    RankRequest{.id = id,
                                .tenant = "t",
                                .user = "ann",
                                .candidates = {"a", "x", "b"},
                                .policy = "recompute",
                                .unknown = unknown});
    for (const auto& [started, work] : b.probe.started<FindFeatures>()) b.job = started;
    Features found = test_features();
    found.items.insert(found.items.begin() + 1, no_item);
    b.find(us, std::move(found));
  };
  ask(0, 3, UnknownCandidates::refuse);
  CHECK(b.refused() == "not_found unknown_item");
  ask(1, 4, UnknownCandidates::skip);
  REQUIRE(b.plans() == 1);
  b.execute(2, {1, 2});
  const RankReply reply = b.probe.sent<RankReply>().at(0);
  CHECK(reply.skipped == std::vector<std::string>{"x"});
  REQUIRE(reply.items.size() == 2);
  CHECK(reply.items[0].id == "b");
}

TEST_CASE("ranking: a history in the request replaces a missing profile") {
  RouterBench b;
  b.probe.receive(
      0, server,
      RankRequest{.id = 3, .tenant = "t", .candidates = {"a"}, .policy = "recompute", .history = {"b", "b"}});
  const auto jobs = b.probe.started<FindFeatures>();
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].second.user.empty());
  CHECK(jobs[0].second.items == std::vector<std::string>{"a"});
  REQUIRE(jobs[0].second.history);
  CHECK(jobs[0].second.history->history == std::vector<std::string>{"b", "b"});
  Features found = features_of(std::make_shared<const Profile>(Profile{0, std::vector<Token>(8, 10), {4, 4}}),
                               {test_item("a")}, "catalog 1");
  b.job = jobs[0].first;
  b.find(1, std::move(found));
  const Execute plan = b.plan();
  std::size_t history = 0;
  for (const Segment& segment : plan.plan.segments)
    if (segment.kind == SegmentKind::user) history += segment.tokens.size();
  CHECK(history == 1 + 2 * 4);  // after the form's own token
  CHECK(b.probe.counted(Metric::features_own) == 1);
  b.probe.receive(2, server,
                  RankRequest{.id = 4, .tenant = "t", .user = "ann", .candidates = {"a"}, .history = {"b"}});
  CHECK(b.refused() == "malformed ambiguous_history");
}

TEST_CASE("appends: the reply reports the result, and whole parts of the history stay") {
  RouterConfig config = small_config();
  config.form.discriminant = {};
  config.form.history_part = 16;
  RouterBench b(config);
  b.probe.receive(0, server, AppendEvents{.id = 3, .tenant = "t", .user = "ann", .history = {"a", "b"}});
  b.probe.done(1, b.probe.started<Write>().at(0).first, WriteResult{8, 1, 1, 0, 5});
  CHECK(b.probe.sent<Appended>().at(0) == Appended{3, 8, 1, 1, 0, 5});
  CHECK(b.probe.sent<Forget>().at(0).below == 16);
  b.probe.receive(2, server, AppendEvents{.id = 4, .tenant = "t", .user = "ann", .history = {"a"}});
  b.probe.done(3, b.probe.started<Write>().at(0).first, WriteResult{8, 0, 1, 0, 5});
  CHECK(b.probe.sent<Appended>().at(0).repeated == 1);
  CHECK(b.probe.sent<Forget>().empty());  // nothing has changed
  b.probe.receive(4, server, AppendEvents{.id = 5, .tenant = "t", .user = "ann"});
  CHECK(b.refused() == "malformed no_events");
}

TEST_CASE("reads: stored data is returned as the port has it, once, by the deadline") {
  RouterBench b;
  b.probe.receive(0, server, GetUser{3, "t", "ann"});
  const auto jobs = b.probe.started<Read>();
  REQUIRE(jobs.size() == 1);
  b.probe.receive(0, server, GetUser{3, "t", "ann"});
  CHECK(b.probe.effects.list.empty());  // a copy
  b.probe.done(1, jobs[0].first, UserReply{.user = "ann", .version = 7});
  CHECK(b.probe.sent<UserReply>().at(0) == UserReply{.id = 3, .user = "ann", .version = 7});
  b.probe.receive(2, server, GetItem{4, "none"});
  b.probe.done(3, b.probe.started<Read>().at(0).first, Refusal{RefusalKind::not_found, "unknown_item"});
  CHECK(b.refused() == "not_found unknown_item");
  b.probe.receive(4, server, GetItem{5, "a"});
  b.run_until(1'500);
  CHECK(b.refused() == "deadline_exceeded deadline_exceeded");
  b.probe.receive(1'600, server, GetUser{6, "t", ""});
  CHECK(b.refused() == "malformed empty_user");
}

TEST_CASE("writes: a write that finishes after its deadline reaches the cache, but is not answered twice") {
  RouterBench b;
  b.probe.receive(0, server, DeleteUser{3, "t", "ann"});
  const auto job = b.probe.started<Write>().at(0).first;
  b.run_until(1'000);
  CHECK(b.refused() == "unavailable outcome_unknown");
  b.probe.done(1'500, job, WriteResult{8});
  CHECK(b.probe.sent<Stored>().empty());
  CHECK(b.probe.sent<Forget>().size() == 1);
}

TEST_CASE("precompute: a new item is computed under the name that requests will look up") {
  RouterConfig on = small_config();
  on.precompute.blocks = ItemBlockKind::prefix;
  RouterCore core(on);
  CoreProbe probe(core);
  probe.start();
  probe.receive(1, {1, Role::kv_worker}, StatusReply{1, 1, Role::kv_worker, true});
  probe.done(2, probe.started<ListItems>().at(0).first, ItemList{.last = true});
  probe.receive(3, server, PutItem{4, "x", "", {5, 6}, 6});
  probe.done(4, probe.started<Write>().at(0).first, WriteResult{1});
  const auto lookup = probe.sent<LookupBlocks>().at(0);
  REQUIRE(lookup.blocks.size() == 1);
  CHECK(lookup.blocks[0].name == BlockNames(on.form, on.names).item(std::vector<Token>{5, 6}));
  probe.receive(5, meta, BlocksFound{lookup.id, {0}});
  const auto chunk = probe.sent<Execute>().at(0);
  probe.receive(6, worker, Executed{chunk.id, {}, {0, 0}, 2});
  probe.receive(7, server, StatusRequest{1});
  CHECK_FALSE(probe.sent<StatusReply>().at(0).ready);  // no worker was heard yet
  probe.receive(8, worker, beat_of(5));
  probe.receive(9, server, StatusRequest{2});
  const auto status = probe.sent<StatusReply>().at(0);
  CHECK(status.ready);
  CHECK(field_of(status, "precompute") == "done");
  CHECK(field_of(status, "items_precomputed") == "1");
}

TEST_CASE(
    "precompute: items that many requests want are hot and are copied to all workers in the "
    "background") {
  RouterConfig config = cluster_config({1, 2});
  config.places = std::make_shared<const ItemAssignment>(config.workers);
  config.precompute.blocks = ItemBlockKind::prefix;
  config.precompute.refresh = {.hot_share = 0.5, .window = 20};
  RouterBench b(config);
  b.probe.start();
  for (const NodeId node : {1, 2}) {
    b.beat(1, node, beat_of(5));
    b.probe.receive(1, {node, Role::kv_worker}, StatusReply{1, node, Role::kv_worker, true});
    for (const auto& [job, work] : b.probe.started<ListItems>()) b.probe.done(1, job, ItemList{.last = true});
  }
  for (RequestId id = 1; id <= 9; ++id) {
    b.send(2, id);
    CHECK(b.probe.sent<LookupBlocks>().empty());
    b.execute_at(3, b.node);
  }
  b.send(4, 10);
  CHECK(b.probe.counted(Metric::items_hot) == 2);
  const LookupBlocks lookup = b.probe.sent<LookupBlocks>().at(0);
  REQUIRE(lookup.blocks.size() == 2);
  const BlockNames names(config.form, config.names);
  CHECK(lookup.blocks[0].name == names.item(test_item("a").tokens));
  CHECK(lookup.blocks[1].name == names.item(test_item("b").tokens));
  CHECK(lookup.all_holders);
  b.probe.receive(5, meta, BlocksFound{lookup.id, {1, 1}, {1, 1}});
  const Execute chunk = b.probe.sent<Execute>().at(0);
  CHECK(chunk.priority == Priority::background);
  CHECK(chunk.retention.belongs);
  CHECK(chunk.blocks.back().at == 1);
  CHECK(b.probe.counted(Metric::items_refreshed) == 2);
}

}  // namespace
}  // namespace troupe::router
