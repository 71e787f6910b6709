// Random test of the whole router: workers lose, repeat, delay and refuse messages, restart and
// fall silent.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "router/testing/router_core_test.h"

namespace troupe::router {
namespace {

constexpr NodeId worker_count = 4;
constexpr std::int64_t budget_us = 4'000;

struct World {
  explicit World(unsigned seed) : random(seed), core(config()), probe(core) { probe.start(); }
  static RouterConfig config() {
    RouterConfig result = cluster_config({1, 2, 3, 4});
    result.budget = {budget_us};
    result.retry_burst = 3;
    result.recent_max = 64;
    return result;
  }

  std::mt19937 random;
  RouterCore core;
  CoreProbe probe;
  std::int64_t now = 0;
  std::map<NodeId, Incarnation> process{{1, 5}, {2, 5}, {3, 5}, {4, 5}};
  std::vector<std::pair<Address, Message>> network;  // in flight to the router
  std::vector<std::uint64_t> jobs;
  std::map<RequestId, std::int64_t> deadlines;
  std::map<RequestId, int> outcomes;
  struct Sent {
    NodeId node;
    std::int64_t at;
  };
  std::map<std::uint64_t, std::vector<Sent>> sends;  // of each plan
  std::map<NodeId, std::int64_t> lost;               // when a worker was taken for lost last
  bool late = false;
  bool twice = false;  // a plan was sent twice to a worker that was not taken for lost in between

  NodeId some_node() {
    return static_cast<NodeId>(1 + random() % (worker_count + 1));
  }  // not always a worker
  bool chance(unsigned one_in) { return random() % one_in == 0; }

  Message run_plan(const Execute& plan) {
    const auto segments = plan.plan.segments.size();
    switch (random() % 8) {
      case 0:
        return Refused{plan.id, {RefusalKind::unavailable, "overloaded"}};
      case 1:
        return Refused{plan.id, {RefusalKind::unavailable, "draining"}};
      case 2:
        return Refused{plan.id, {RefusalKind::internal, "device_failed"}};
      case 3:
        return Executed{plan.id, {{{1}}}, std::vector<std::uint8_t>(segments), 0, 0, 0, 0, "model 1"};
      default:
        return Executed{plan.id, {{{1, 2}}}, std::vector<std::uint8_t>(segments), 0, 0, 0, 0, "model 1"};
    }
  }
  void count_outcome(RequestId id) {
    ++outcomes[id];
    late = late || now > deadlines.at(id);
  }
  // Carries out the router's effects.
  void take() {
    for (NodeId node = 1; node <= worker_count; ++node)
      if (!core.workers().alive({now}, node)) lost[node] = now;
    for (const auto& [job, work] : probe.started<FindFeatures>()) jobs.push_back(job);
    for (const auto& effect : probe.effects.list) {
      const auto* send = std::get_if<Effects::Send>(&effect);
      if (!send) continue;
      if (const auto* lookup = std::get_if<LookupBlocks>(&send->message))
        network.push_back({meta, answer_of(*lookup, {{some_node()}, {1, 0}, {some_node()}, 1, 0})});
      if (const auto* plan = std::get_if<Execute>(&send->message)) {
        std::vector<Sent>& before = sends[plan->id];
        for (const Sent& sent : before)
          twice = twice || (sent.node == send->to.node && lost[sent.node] <= sent.at);
        before.push_back({send->to.node, now});
        network.push_back({send->to, run_plan(*plan)});
      }
      if (const auto* reply = std::get_if<RankReply>(&send->message)) count_outcome(reply->id);
      if (const auto* refused = std::get_if<Refused>(&send->message)) count_outcome(refused->id);
    }
    probe.effects = {};
  }
  std::uint64_t beats = 0;
  void beat(NodeId node) {
    Heartbeat heartbeat = beat_of(process[node]);
    heartbeat.sequence = ++beats;
    heartbeat.operations_waiting = random() % 200;
    heartbeat.draining = chance(10);
    network.push_back({{node, Role::inference_worker}, heartbeat});
  }
  void deliver() {
    const auto n = random() % network.size();
    const auto [from, message] = network[n];
    // otherwise it is delivered twice
    if (!chance(4)) network.erase(network.begin() + static_cast<std::ptrdiff_t>(n));
    if (!chance(6)) probe.receive(now, from, message);  // otherwise it is lost
  }
  void ask(RequestId id) {
    const std::int64_t budget = 1 + static_cast<std::int64_t>(random() % budget_us);
    deadlines.try_emplace(id, now + budget);
    probe.receive(
        now, server,
        RankRequest{
            id, "t", std::to_string(random() % 50), {"a", "b"}, 0, chance(2) ? "bat" : "recompute", budget});
  }
  void run_until(std::int64_t us) {  // in single steps, so that `now` is right at every outcome
    while (now < us) {
      probe.run_until(++now);
      take();
    }
  }
  void step(RequestId& asked) {
    run_until(now + static_cast<std::int64_t>(random() % 60));
    const NodeId node = 1 + random() % worker_count;
    switch (random() % 8) {
      case 0:
        ask(chance(6) && asked > 0 ? asked : ++asked);  // or a copy
        break;
      case 1:
        beat(node);
        break;
      case 2:
        if (!chance(8)) break;
        ++process[node];
        if (chance(2)) probe.lose(now, node);
        break;
      case 3:
      case 4:
        if (jobs.empty()) break;
        probe.done(now, jobs.front(), test_features());
        jobs.erase(jobs.begin());
        break;
      default:
        if (!network.empty()) deliver();
    }
    take();
    REQUIRE(core.check_bounds() == "");
  }
};

TEST_CASE("router: whatever is lost, every request has one outcome by its deadline, and retries stay few") {
  std::uint64_t answered = 0, retries = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    World world(seed);
    RequestId asked = 0;
    for (int i = 0; i < 1'500; ++i) world.step(asked);
    world.run_until(world.now + budget_us);
    CHECK(world.outcomes.size() == asked);
    for (const auto& [id, count] : world.outcomes) CHECK(count == 1);
    CHECK_FALSE(world.late);
    for (const auto& [plan, sent] : world.sends) CHECK(sent.size() <= 4);
    CHECK_FALSE(world.twice);
    const double retries_most = 0.1 * static_cast<double>(world.core.admitted()) + 3;
    CHECK(static_cast<double>(world.core.retries()) <= retries_most);
    CHECK(world.core.executing() + world.core.in_lookup() + world.core.in_features() == 0);
    retries += world.core.retries();
    answered += world.core.attempts();
  }
  CHECK(answered > 2'000);  // the run did something
  CHECK(retries > 100);
}

// Returns the features of a user whose history tells the content's number.
Features features_of_content(int content) {
  const auto token = static_cast<Token>(100 + content);
  const Profile user{7, std::vector<Token>(20, token), std::vector<std::uint32_t>(20, 1)};
  return features_of(std::make_shared<const Profile>(user), {test_item("a"), test_item("b")}, "catalog 1");
}
int content_of(const Execute& plan) {
  Token highest = 0;
  for (const Segment& segment : plan.plan.segments)
    for (const Token token : segment.tokens) highest = std::max(highest, token);
  return highest - 100;
}

// Workers die at random, and always when they run the content `bad`.
TEST_CASE("suspects: no request is refused for another's poison unless it ran alone on a worker that died") {
  std::uint64_t convicted = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    RouterConfig config = cluster_config({1, 2, 3, 4});
    config.budget = {50'000};
    RouterBench b(config);
    b.probe.start();
    std::map<NodeId, Incarnation> process;
    std::map<RequestId, int> asked;
    struct Running {
      NodeId node;
      std::uint64_t id;
      bool alone;
      int content;
    };
    std::vector<Running> running;
    constexpr int bad = 50;
    std::set<int> may_be_refused{bad};
    std::int64_t now = 0;
    const auto take = [&] {
      for (const auto& effect : b.probe.effects.list) {
        const auto* send = std::get_if<Effects::Send>(&effect);
        if (!send) continue;
        if (const auto* plan = std::get_if<Execute>(&send->message))
          running.push_back({send->to.node, plan->id, plan->alone, content_of(*plan)});
        if (const auto* refused = std::get_if<Refused>(&send->message))
          if (refused->refusal.code == "poison") {
            CHECK(may_be_refused.count(asked.at(refused->id)) == 1);
            convicted += asked.at(refused->id) == bad;
          }
      }
      b.probe.effects = {};
    };
    const auto kill = [&](NodeId node) {
      for (const Running& plan : running)
        if (plan.node == node && plan.alone) may_be_refused.insert(plan.content);
      std::erase_if(running, [&](const Running& plan) { return plan.node == node; });
      b.probe.lose(now, node);
      take();
      process[node] += 1;
      b.beat(now, node, beat_of(process[node]));
      take();
    };
    for (NodeId node = 1; node <= 4; ++node) b.beat(0, node, beat_of(process[node] = 5));
    for (RequestId id = 1; id <= 300; ++id) {
      now += 100;
      b.run_until(now);
      take();
      for (NodeId node = 1; node <= 4; ++node) {
        b.beat(now, node, beat_of(process[node]));
        take();
      }
      const int content = asked[id] = random() % 12 == 0 ? bad : static_cast<int>(random() % 40);
      b.rank(now, id, "recompute", 0, std::to_string(content));
      const bool admitted = !b.probe.started<FindFeatures>().empty();
      take();
      if (admitted) b.probe.done(now, b.job, features_of_content(content)), take();
      if (random() % 12 == 0) kill(1 + random() % 4);
      if (running.size() < 4) continue;
      const Running plan = running[random() % running.size()];
      if (plan.content == bad) {
        kill(plan.node);
      } else {
        std::erase_if(running, [&](const Running& r) { return r.id == plan.id && r.node == plan.node; });
        b.serial = plan.id;
        b.execute_at(now, plan.node);
        take();
      }
    }
    REQUIRE(b.core.check_bounds() == "");
  }
  CHECK(convicted > 20);
}

}  // namespace
}  // namespace troupe::router
