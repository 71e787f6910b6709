// Tests of versions, reloads, the index's leader and draining.
#include "router/testing/router_core_test.h"

#include <functional>
#include <set>

#include "router/fleet/fingerprint.h"
#include "runtime/actor/user_home.h"

namespace troupe::router {
namespace {

RouterConfig coordinated() {
  RouterConfig config = cluster_config({1, 2});
  config.coordinate = true;
  config.budget_max = {1'000'000};
  return config;
}

// A router with a Coordination that answers at once: its content, and the answering of its
// questions.
struct CoordinatedBench : RouterBench {
  Revision revision = 1;
  std::string value = "model 1\n\n";

  explicit CoordinatedBench(RouterConfig config = coordinated()) : RouterBench(std::move(config)) {}
  // Answers every question of the last call, and the follow-up questions; other effects are kept in
  // `all`.
  Effects all;
  void settle(std::int64_t us) {
    all = {};
    for (int i = 0; i < 20; ++i) {
      const auto questions = probe.started<Coordinate>();
      for (auto& effect : probe.effects.list) all.list.push_back(effect);
      if (questions.empty()) return;
      bool ok = true;
      if (const auto* write = std::get_if<WriteKey>(&questions[0].second.what)) {
        ok = write->expected == revision;
        if (ok) ++revision, value = write->value;
      }
      probe.done(us, questions[0].first, CoordinationReply{ok, revision, value});
    }
  }
  void start() {
    probe.start(0);
    settle(0);
  }
  void tick(std::int64_t us) {
    run_until(us);
    settle(us);
  }
  template <class M>
  std::size_t sent_to(Role role) const {
    std::size_t count = 0;
    for (const auto& effect : all.list)
      if (const auto* send = std::get_if<Effects::Send>(&effect))
        count += std::holds_alternative<M>(send->message) && send->to.role == role;
    return count;
  }
  void beats(std::int64_t us, std::vector<std::string> models, std::uint64_t epoch) {
    for (const NodeId node : {1, 2}) {
      Heartbeat heartbeat = beat_of(5);
      heartbeat.models = models;
      heartbeat.versions_epoch = epoch;
      beat(us, node, heartbeat);
    }
  }
};

TEST_CASE("versions: while the served versions are unknown, requests wait for a limited time") {
  CoordinatedBench c;
  c.probe.start(0);
  const auto question = c.probe.started<Coordinate>().at(0);
  c.rank(1, 1);
  CHECK(c.probe.sent<Refused>().empty());
  CHECK(c.probe.started<FindFeatures>().empty());
  const RouterConfig config = coordinated();
  c.probe.run_until(config.budget.us / 2 + 1);
  CHECK(c.refused() == "unavailable starting");
  const std::int64_t later = config.budget.us;
  c.rank(later, 2);
  c.probe.done(later + 1, question.first, CoordinationReply{true, 7, "model 4\ncatalog 4\n"});
  const auto features = c.probe.started<FindFeatures>().at(0).second;
  CHECK(features.model_version == "model 4");
  CHECK(features.catalog_version == "catalog 4");
}

TEST_CASE("versions: workers that follow older versions are sent the current ones") {
  CoordinatedBench c;
  c.start();
  Heartbeat heartbeat = beat_of(5);
  c.beat(1, 1, heartbeat);
  CHECK(c.probe.sent<Versions>().at(0) == c.core.versions());
  heartbeat.versions_epoch = 1;
  c.beat(2, 1, heartbeat);
  CHECK(c.probe.sent<Versions>().empty());
  heartbeat.versions_epoch = 2;  // the worker knows newer versions than this router
  c.beat(3, 1, heartbeat);
  CHECK(c.probe.started<Coordinate>().size() == 1);
}

TEST_CASE("reload: it is answered when the new model serves and nothing runs on the old one") {
  CoordinatedBench c;
  c.start();
  c.beats(10, {"model 1"}, 1);
  c.send(20, 1, 100'000);
  CHECK(c.plan().model_version == "model 1");
  const auto running = c.serial;
  const auto at = c.node;
  c.probe.receive(30, server, Reload{50, "model 2", ""});
  c.settle(30);
  CHECK(c.value == "model 1\n\nmodel 2");
  CHECK(c.sent_to<Versions>(Role::router) == 1);
  c.probe.receive(31, server, Reload{50, "model 2", ""});  // a copy of it
  CHECK(c.probe.sent<Refused>().empty());
  c.probe.receive(31, server, Reload{51, "model 3", ""});
  CHECK(c.refused() == "unavailable busy");
  c.beats(900, {"model 1"}, c.revision);
  c.tick(1'000);
  CHECK(c.core.versions().model_version == "model 1");
  c.beats(1'900, {"model 1", "model 2"}, c.revision);
  c.tick(2'000);
  CHECK(c.core.versions().model_version == "model 2");
  c.beats(2'900, {"model 1", "model 2"}, c.revision);
  for (std::int64_t us = 3'000; us <= 6'000; us += 1'000) {  // the old request still runs
    c.tick(us);
    CHECK(c.sent_to<Stored>(Role::server) == 0);
    c.beats(us + 900, {"model 1", "model 2"}, c.revision);
  }
  c.serial = running;
  c.execute_at(6'950, at);
  CHECK(c.probe.sent<RankReply>().at(0).model_version == "model 1");
  std::size_t stored = 0;
  for (std::int64_t us = 7'000; us <= 10'000; us += 1'000) {
    c.tick(us);
    stored += c.sent_to<Stored>(Role::server);
    c.beats(us + 900, {"model 1", "model 2"}, c.revision);
  }
  CHECK(stored == 1);
  CHECK_FALSE(c.core.swapping());
}

TEST_CASE("versions: new requests are pinned to the new versions, and old plans stay as they were") {
  CoordinatedBench c;
  c.start();
  c.beats(1, {"model 1", "model 2"}, 1);
  c.rank(2, 1, "recompute", 100'000);
  const auto old_job = c.job;
  c.probe.receive(3, {8, Role::router}, Versions{9, "model 2", "catalog 2", ""});
  c.rank(4, 2, "recompute", 100'000);
  CHECK(c.probe.started<FindFeatures>().at(0).second.model_version == "model 2");
  c.probe.done(5, old_job, test_features());
  CHECK(c.plan().model_version == "model 1");
  CHECK(c.plan().catalog_version == "catalog 1");  // of the snapshot that it was made from
}

TEST_CASE("versions: a catalog removed by the flip is requested once more under the current versions") {
  CoordinatedBench c;
  c.start();
  c.beats(1, {"model 1", "model 2"}, 1);
  c.rank(2, 1, "recompute");
  c.probe.receive(3, {8, Role::router}, Versions{9, "model 2", "catalog 2", ""});
  c.probe.done(4, c.job, Refusal{RefusalKind::conflict, "wrong_catalog"});
  const auto [again, work] = c.probe.started<FindFeatures>().at(0);
  CHECK(work.catalog_version == "catalog 2");
  c.probe.done(5, again, test_features());
  CHECK(c.plan().model_version == "model 2");
  c.rank(6, 2, "recompute");
  c.probe.done(7, c.job, Refusal{RefusalKind::conflict, "wrong_catalog"});
  CHECK(c.refused() == "conflict wrong_catalog");
}

TEST_CASE("reload: a reload of the served versions is answered once the Coordination confirms them") {
  CoordinatedBench c;
  c.start();
  c.beats(10, {"model 1"}, 1);
  c.probe.receive(20, server, Reload{50, "model 1", ""});
  CHECK(c.probe.sent<Stored>().empty());
  c.settle(20);
  CHECK(c.sent_to<Stored>(Role::server) == 1);
  CHECK(c.revision == 1);
  CHECK_FALSE(c.core.swapping());
}

// Returns the models that these users are pinned to.
std::set<std::string> pinned_to(CoordinatedBench& c, std::int64_t us, RequestId first,
                                const std::function<bool(const std::string&)>& of) {
  std::set<std::string> models;
  for (RequestId i = 0; i < 40; ++i) {
    const std::string user = "user " + std::to_string(i);
    if (!of(user)) continue;
    c.rank(us, first + i, "recompute", 0, user);
    const auto asked = c.probe.started<FindFeatures>();
    REQUIRE(asked.size() == 1);
    models.insert(asked[0].second.model_version);
  }
  return models;
}

TEST_CASE(
    "shared versions: each user has one of two models, the next one by its share once all workers have it") {
  const auto is_of_next = [](const std::string& user) {
    return share_position(user_hash("t", user), "model 2") < 300;
  };
  const auto is_other = [&](const std::string& user) { return !is_of_next(user); };
  const auto all = [](const std::string&) { return true; };
  using Models = std::set<std::string>;
  RouterConfig config = coordinated();
  config.in_flight_max = 1'000;
  CoordinatedBench c(config);
  c.start();
  c.beats(10, {"model 1"}, 1);
  c.probe.receive(20, server, Reload{50, "model 2", "", 0.3});
  c.settle(20);
  CHECK(c.value == "model 1\n\nmodel 2\n\n300");
  Heartbeat one = beat_of(5);
  one.models = {"model 1", "model 2"};
  one.versions_epoch = c.revision;
  c.beat(500, 1, one);  // the other worker does not have it yet
  c.tick(1'000);
  CHECK(pinned_to(c, 1'010, 1'000, all) == Models{"model 1"});
  CHECK(c.sent_to<Stored>(Role::server) == 0);
  c.beats(1'900, {"model 1", "model 2"}, c.revision);
  std::size_t stored = 0;
  for (std::int64_t us = 2'000; us <= 6'000; us += 1'000) {
    c.tick(us);
    stored += c.sent_to<Stored>(Role::server);
    c.beats(us + 900, {"model 1", "model 2"}, c.revision);
  }
  CHECK(stored == 1);
  c.probe.receive(6'900, server, StatusRequest{60});
  CHECK(field_of(c.probe.sent<StatusReply>().at(0), "next_model") == "model 2");
  CHECK(field_of(c.probe.sent<StatusReply>().at(0), "next_share") == "0.3");
  CHECK(pinned_to(c, 6'910, 2'000, is_of_next) == Models{"model 2"});
  CHECK(pinned_to(c, 6'920, 3'000, is_other) == Models{"model 1"});
  c.beats(7'000, {"model 1"}, c.revision);  // no worker has the next model any more
  CHECK(pinned_to(c, 7'010, 4'000, all) == Models{"model 1"});
}

TEST_CASE("reload: a share needs another model and no catalog") {
  CoordinatedBench c;
  c.start();
  RequestId id = 70;
  for (const Reload& bad :
       {Reload{0, "model 2", "", 1.01}, Reload{0, "model 2", "", -0.1}, Reload{0, "model 1", "", 0.5},
        Reload{0, "", "catalog 2", 0.5}, Reload{0, "model 2", "catalog 2", 0.5}}) {
    Reload asked = bad;
    asked.id = id++;
    c.probe.receive(1, server, asked);
    CHECK(c.refused() == "malformed bad_share");
  }
}

TEST_CASE("shared versions: a request for the next model gets it, or a temporary refusal") {
  RouterConfig config = coordinated();
  config.form.discriminant = {};
  CoordinatedBench c(config);
  c.start();
  c.beats(10, {"model 1"}, 1);
  c.probe.receive(20, server, Reload{50, "model 2", "", 0});
  c.settle(20);
  const auto complete = [&](std::int64_t us, RequestId id) {
    c.probe.receive(
        us, server,
        CompleteRequest{
            .id = id, .model = "model 2", .prompt = {5, 6, 7}, .max_tokens = 2, .n = 1, .beam_width = 3});
  };
  complete(30, 70);
  CHECK(c.refused() == "unavailable no_worker");
  c.beats(900, {"model 1", "model 2"}, c.revision);
  c.tick(1'000);
  complete(1'010, 71);
  CHECK(c.plan().model_version == "model 2");
  c.beats(1'100, {"model 1"}, c.revision);
  complete(1'110, 72);
  CHECK(c.refused() == "unavailable no_worker");
}

TEST_CASE("reload: a share below 1 leaves some users the current model") {
  CoordinatedBench c;
  c.start();
  c.beats(10, {"model 1"}, 1);
  c.probe.receive(20, server, Reload{50, "model 2", "", 0.9999});
  c.settle(20);
  CHECK(c.value == "model 1\n\nmodel 2\n\n999");
}

TEST_CASE("reload: a model that a worker refuses is taken back, and the refusal says why") {
  CoordinatedBench c;
  c.start();
  c.beats(10, {"model 1"}, 1);
  c.probe.receive(20, server, Reload{50, "model 9", "catalog 2"});
  c.probe.done(21, c.probe.started<FindFeatures>().at(0).first, Features{});
  c.settle(21);
  CHECK(c.value == "model 1\n\nmodel 9\ncatalog 2");
  Heartbeat heartbeat = beat_of(5);
  heartbeat.versions_epoch = c.revision;
  heartbeat.refused_model = "model 9";
  heartbeat.refused_why = "no such folder";
  c.beat(900, 2, heartbeat);
  c.tick(1'000);
  CHECK(c.value == "model 1\n\n");
  REQUIRE(c.sent_to<Refused>(Role::server) == 1);
  for (const auto& effect : c.all.list)
    if (const auto* send = std::get_if<Effects::Send>(&effect))
      if (const auto* refused = std::get_if<Refused>(&send->message)) {
        CHECK(refused->refusal.kind == RefusalKind::unprocessable);
        CHECK(refused->refusal.code == "model_refused");
        CHECK(refused->refusal.what.find("node 2: no such folder") != std::string::npos);
      }
  CHECK_FALSE(c.core.swapping());
}

TEST_CASE("reload: without a Coordination, empty, or with an unknown catalog it is refused") {
  RouterBench alone;
  alone.probe.receive(0, server, Reload{1, "model 2", ""});
  CHECK(alone.refused() == "unprocessable versions_fixed");
  CoordinatedBench c;
  c.start();
  c.probe.receive(1, server, Reload{2, "", ""});
  CHECK(c.refused() == "malformed empty_reload");
  c.probe.receive(2, server, Reload{3, "a\nb", ""});
  CHECK(c.refused() == "malformed bad_version");
  c.probe.receive(3, server, Reload{4, "", "no such"});
  c.probe.done(4, c.probe.started<FindFeatures>().at(0).first,
               Refusal{RefusalKind::not_found, "wrong_catalog"});
  CHECK(c.refused() == "unprocessable wrong_catalog");
}

TEST_CASE("reload: a reload that cannot finish ends by its deadline") {
  RouterConfig config = coordinated();
  config.reload_budget = {3'500};
  CoordinatedBench c(config);
  c.start();
  c.probe.receive(100, server, Reload{4, "model 2", ""});
  c.settle(100);
  c.tick(3'000);
  CHECK(c.sent_to<Refused>(Role::server) == 0);
  c.run_until(4'000);
  CHECK(c.refused() == "deadline_exceeded deadline_exceeded");
  c.settle(4'000);
  c.tick(5'000);
  CHECK(c.value == "model 1\n\n");
}

TEST_CASE("index: only the leader is asked, and nobody while none leads") {
  RouterConfig config = small_config();
  config.cache_metas = {4, 5};
  RouterBench b(config);
  b.rank(0, 1);
  b.find(1);
  CHECK(b.plans() == 1);
  CHECK(b.probe.sent<LookupBlocks>().empty());
  b.probe.receive(2, {5, Role::cache_meta}, LeaderBeat{7});
  b.rank(3, 2);
  b.find(4);
  CHECK(b.probe.recipients().at(0) == Address{5, Role::cache_meta});
  CHECK_FALSE(b.probe.sent<LookupBlocks>().at(0).prefer.empty());
  b.lose(5, 5);
  b.execute(6, {1, 2});
}

TEST_CASE("index: a forget message goes to the leader, or to all cache-metas without a leader") {
  RouterConfig config = small_config();
  config.cache_metas = {4, 5};
  RouterBench b(config);
  b.probe.receive(0, server, DeleteUser{1, "t", "ann"});
  b.probe.done(1, b.probe.started<Write>().at(0).first, WriteResult{1});
  CHECK(b.probe.sent<Forget>().size() == 2);
  b.probe.receive(2, {5, Role::cache_meta}, LeaderBeat{7});
  b.probe.receive(3, server, DeleteUser{2, "t", "ann"});
  b.probe.done(4, b.probe.started<Write>().at(0).first, WriteResult{1});
  CHECK(b.probe.sent<Forget>().size() == 1);
}

TEST_CASE("readiness: a router reports not ready and the reason: no items, no worker, draining") {
  RouterConfig config = small_config();
  config.features.every = {1'000};
  RouterBench b(config);
  const auto status = [&](std::int64_t us) {
    b.probe.receive(us, server, StatusRequest{9});
    return b.probe.sent<StatusReply>().at(0);
  };
  b.probe.start(0);
  const auto listing = b.probe.started<ListItems>();
  REQUIRE(listing.size() == 1);
  b.beat(2, 1, beat_of(5));
  CHECK(field_of(status(3), "not_ready") == "the catalog has not been read yet");
  b.probe.done(4, listing[0].first, list_of({}, true));
  CHECK(field_of(status(5), "not_ready").starts_with("the catalog has no items;"));
  CHECK_FALSE(status(5).ready);
  b.run_until(2'500);
  const auto again = b.probe.started<ListItems>();
  REQUIRE(again.size() == 1);
  b.beat(2'600, 1, beat_of(5));
  b.probe.done(2'700, again[0].first, list_of({test_item("a")}, true));
  CHECK(status(2'800).ready);
  b.lose(2'850, 1);
  CHECK(field_of(status(2'860), "not_ready") == "no worker serves model model 1");
  b.probe.receive(2'900, server, Drain{5});
  CHECK(field_of(b.probe.sent<StatusReply>().at(0), "not_ready") ==
        "it is draining: it accepts no new requests");
}

TEST_CASE("status: counts writes and reads in flight, and answers") {
  RouterBench b;
  b.probe.receive(0, server, DeleteUser{1, "t", "ann"});
  const auto write = b.probe.started<Write>().at(0).first;
  const auto field = [&](std::int64_t us, const char* name) {
    b.probe.receive(us, server, StatusRequest{9});
    return field_of(b.probe.sent<StatusReply>().at(0), name);
  };
  CHECK(field(1, "writes_in_flight") == "1");
  CHECK(field(1, "reads_in_flight") == "0");
  CHECK(field(1, "requests_answered") == "0");
  b.probe.done(2, write, WriteResult{1});
  CHECK(field(3, "writes_in_flight") == "0");
}

TEST_CASE("status: names the catalog of the latest features, even if versions does not know it") {
  RouterBench b;
  b.send(0, 1);
  b.probe.receive(1, server, StatusRequest{2});
  CHECK(field_of(b.probe.sent<StatusReply>().at(0), "catalog_version") == "catalog 1");
}

TEST_CASE("drain: a draining router finishes its requests and refuses new ones until it serves again") {
  RouterBench b;
  b.send(0, 1);
  b.probe.receive(1, server, Drain{5});
  CHECK(field_of(b.probe.sent<StatusReply>().at(0), "drained") == "no");
  CHECK_FALSE(b.probe.sent<StatusReply>()[0].ready);
  b.rank(2, 2);
  CHECK(b.refused() == "unavailable draining");
  b.probe.receive(3, server, DeleteUser{3, "t", "ann"});
  CHECK(b.refused() == "unavailable draining");
  b.execute(4, {1, 2});
  CHECK(b.replies() == 1);
  b.probe.receive(5, server, Drain{5});
  CHECK(field_of(b.probe.sent<StatusReply>().at(0), "drained") == "yes");
  b.probe.receive(6, server, Drain{6, false});
  b.send(7, 4);
  CHECK(b.plans() == 1);
}

std::string members_field(RouterBench& b, std::int64_t us, const char* name) {
  b.probe.receive(us, server, StatusRequest{99});
  return field_of(b.probe.sent<StatusReply>().at(0), name);
}

// Answers the router's read of the members.
void report_members(RouterBench& b, std::int64_t us, Revision revision, const std::string& text) {
  b.run_until(us);
  for (const auto& [job, question] : b.probe.started<Coordinate>())
    if (std::get<ReadKey>(question.what).key == "members")
      return b.probe.done(us, job, CoordinationReply{.ok = true, .revision = revision, .value = text});
  FAIL("it did not ask who the workers are");
}

TEST_CASE("members: a joined worker is used once heard, a removed one never, and its requests go elsewhere") {
  RouterConfig config = cluster_config({1});
  config.members_every = {1'000};
  RouterBench b(config);
  b.probe.start(0);
  for (const auto& [job, question] : b.probe.started<Coordinate>())
    b.probe.done(0, job, CoordinationReply{.ok = true});
  b.beat(1, 1, beat_of(5));
  b.beat(2, 6, beat_of(5));  // not a member yet
  b.send(3, 1);
  CHECK(b.node == 1);
  report_members(b, 1'000, 4, "last 6\njoined 6 10.0.0.6 7000 w6\n");
  CHECK(members_field(b, 1'001, "members_epoch") == "4");
  b.beat(1'010, 6, beat_of(5));
  b.beat(1'011, 1, beat_of(5));
  report_members(b, 2'000, 5, "last 6\njoined 6 10.0.0.6 7000 w6\nleft 1\n");
  b.beat(2'001, 1, beat_of(5));
  b.beat(2'002, 6, beat_of(5));
  b.send(2'003, 2);
  CHECK(b.node == 6);
  CHECK(members_field(b, 2'004, "handed_on") == "yes");
  report_members(b, 3'000, 6,
                 "last 7\njoined 6 10.0.0.6 7000 w6\njoined 7 10.0.0.7 7000 w7\nleaving 6\nleft 1\n");
  CHECK(members_field(b, 3'001, "leaving_workers") == "6");
}

TEST_CASE(
    "members: a joined router announces itself until workers answer; one of the cluster file does not") {
  for (const bool joined : {true, false}) {
    RouterConfig config = cluster_config({1, 2});
    config.joined = joined;
    RouterBench b(config);
    b.probe.start(0);
    const auto reported = [&] {
      std::vector<Address> to;
      for (const Address& one : b.probe.recipients())
        if (one.role == Role::inference_worker) to.push_back(one);
      return to;
    };
    const std::vector<Address> one{{1, Role::inference_worker}},
        both{{1, Role::inference_worker}, {2, Role::inference_worker}}, none;
    CHECK(reported() == (joined ? both : none));
    b.beat(1, 2, beat_of(5));
    b.run_until(config.heartbeat.us);
    CHECK(reported() == (joined ? one : none));
    b.beat(config.heartbeat.us + 1, 1, beat_of(5));
    b.beat(config.heartbeat.us + 1, 2, beat_of(5));
    b.run_until(2 * config.heartbeat.us);
    CHECK(reported() == none);
    b.probe.lose(2 * config.heartbeat.us + 1, 1);
    b.run_until(3 * config.heartbeat.us);
    CHECK(reported() == (joined ? one : none));
  }
}

TEST_CASE("readiness: a joined router is ready when it knows the leader or has waited long enough") {
  const auto reason = [](bool joined, std::int64_t us, bool led) {
    RouterConfig config = cluster_config({1});
    config.cache_metas = {1, 2};
    config.joined = joined;
    config.members_every = {1'000'000};
    RouterBench b(config);
    b.probe.start(0);
    for (const auto& [job, question] : b.probe.started<Coordinate>())
      b.probe.done(0, job, CoordinationReply{.ok = true});
    b.beat(us - 2, 1, beat_of(5));
    if (led) b.probe.receive(us - 1, {2, Role::cache_meta}, LeaderBeat{4});
    b.probe.receive(us, server, StatusRequest{99});
    return field_of(b.probe.sent<StatusReply>().at(0), "not_ready");
  };
  CHECK(reason(true, 10, false) == "the leading cache-meta is not known yet");
  CHECK(reason(true, 4'999'999, false) == "the leading cache-meta is not known yet");
  CHECK(reason(true, 5'000'000, false) == "");
  CHECK(reason(true, 10, true) == "");
  CHECK(reason(false, 10, false) == "");
}

TEST_CASE("members: joined routers hear of versions, routers that left do not") {
  RouterConfig config = coordinated();
  config.routers = {7, 8};
  config.members_every = {1'000'000'000};
  config.members = {
      {.last = 9, .joined = {{9, "f9", "h", 1, {NodeRole::router, NodeRole::cache_meta}}}, .left = {8}}, 1};
  CoordinatedBench c(config);
  c.start();
  c.beats(10, {"model 1"}, 1);
  c.probe.receive(30, server, Reload{50, "model 2", ""});
  c.settle(30);
  std::vector<NodeId> reported;
  for (const auto& effect : c.all.list)
    if (const auto* send = std::get_if<Effects::Send>(&effect); send && send->to.role == Role::router)
      reported.push_back(send->to.node);
  CHECK(reported == std::vector<NodeId>{7, 9});
}

TEST_CASE("members: without a leader, a forget message goes to the current cache-metas") {
  RouterConfig config = cluster_config({1});
  config.cache_metas = {4, 5};
  config.members_every = {1'000};
  RouterBench b(config);
  b.probe.start(0);
  for (const auto& [job, question] : b.probe.started<Coordinate>())
    b.probe.done(0, job, CoordinationReply{.ok = true});
  report_members(b, 1'000, 4, "last 6\njoined 6 10.0.0.6 7000 m6\nroles 6 cache_meta\nleft 4\n");
  b.probe.receive(1'001, server, DeleteUser{1, "t", "ann"});
  b.probe.done(1'002, b.probe.started<Write>().at(0).first, WriteResult{1});
  std::vector<NodeId> reported;
  for (const Address& to : b.probe.recipients())
    if (to.role == Role::cache_meta) reported.push_back(to.node);
  CHECK(reported == std::vector<NodeId>{5, 6});
}

TEST_CASE("members: a starting router knows who joined and left before its first read") {
  RouterConfig config = cluster_config({1, 2});
  config.members_every = {1'000};
  config.members = {{.last = 6, .joined = {{6, "w6", "10.0.0.6", 7000}}, .left = {2}}, 4};
  RouterBench b(config);
  b.probe.start(0);
  for (const auto& [job, question] : b.probe.started<Coordinate>())
    if (std::get<ReadKey>(question.what).key != "members")
      b.probe.done(0, job, CoordinationReply{.ok = true});
  b.beat(1, 2, beat_of(5));  // no member any more
  b.beat(2, 6, beat_of(5));
  b.send(3, 1);
  CHECK(b.node == 6);
  CHECK(members_field(b, 4, "members_epoch") == "4");
}

}  // namespace
}  // namespace troupe::router
