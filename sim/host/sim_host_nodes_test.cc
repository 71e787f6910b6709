// Tests of the simulated host's nodes: kill, restart, pause, clocks, loss notices.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/testing/host_test.h"
#include "sim/host/sim_host.h"

using namespace troupe;

namespace {

constexpr Address client{100, Role::server}, router{1, Role::router}, worker{1, Role::inference_worker};

using Ids = std::vector<std::uint64_t>;

std::uint64_t id_of(const Event& event) {
  auto* received = std::get_if<Received>(&event);
  return received ? std::get<StatusRequest>(received->message).id : 0;
}

// Host with a client that records the ids of the messages it gets, and nodes whose cores are functions.
struct World {
  MetricRegistry metrics;
  Ids heard;
  SimHost host;

  explicit World(SimOptions options = {.seed = 5}) : host(metrics, nullptr, options) {
    host.set_server(
        client, [this](Address, Message message) { heard.push_back(std::get<StatusRequest>(message).id); });
  }
  void add(Address address, FunctionCore::Step step, Port* port = nullptr, std::uint32_t slots = 1) {
    host.add_process(address.node, [=](Incarnation) {
      std::vector<ActorSpec> cores;
      cores.push_back({address, core_of(step), port, slots});
      return cores;
    });
  }
  // Adds a core that sends every message back.
  void add_echo(NodeId node) {
    add({node, Role::router}, [](Instant, const Event& event, Effects& effects) {
      if (auto* received = std::get_if<Received>(&event)) effects.send(received->from, received->message);
    });
  }
  void ask(NodeId node, std::uint64_t id) { host.post_from(client, {node, Role::router}, StatusRequest{id}); }
  void run(std::int64_t us) { host.run_until(host.now() + Duration{us}); }
};

struct TakesPort final : SimPort {
  std::optional<Duration> takes{};
  int begun = 0, done = 0;
  std::optional<Duration> begin(Instant, const Job& job, std::uint32_t) override {
    ++begun;
    const std::uint32_t count = std::get<ListItems>(job).count;
    return count ? std::optional(Duration{count}) : std::nullopt;
  }
  JobResult run(const Job&, std::uint32_t) override {
    ++done;
    return ItemList{};
  }
};

}  // namespace

TEST_CASE(
    "sim host: actors of several models belong to their node and die with it; a client's id belongs to no "
    "model") {
  World world({.seed = 5, .actor_ids = {2}});
  constexpr NodeId other = ModelActorIds{2}.number(1, 1);
  constexpr Address far{0xD0000000, Role::server};
  Ids far_heard, lost;
  world.host.set_server(
      far, [&](Address, Message message) { far_heard.push_back(std::get<StatusRequest>(message).id); });
  world.host.add_process(1, [&](Incarnation) {
    std::vector<ActorSpec> cores;
    for (const NodeId number : {NodeId{1}, other})
      cores.push_back(
          {{number, Role::router}, core_of([number, &lost](Instant, const Event& event, Effects& effects) {
             if (auto* received = std::get_if<Received>(&event))
               effects.send(received->from, StatusRequest{id_of(event) + number});
             if (auto* gone = std::get_if<PeerLost>(&event)) lost.push_back(gone->node);
           })});
    return cores;
  });
  world.host.start();
  world.ask(1, 5);
  world.run(2000);
  world.ask(other, 5);
  world.run(2000);
  CHECK(world.heard == Ids{6, 5 + std::uint64_t{other}});
  world.host.post_from(far, {other, Role::router}, StatusRequest{7});
  world.run(2000);
  CHECK(far_heard == Ids{7 + std::uint64_t{other}});
  world.host.announce_lost(1, 9);
  world.run(2000);
  CHECK(lost == Ids{9, 9});
  world.host.network().cut(100, 1);
  world.ask(other, 6);
  world.run(2000);
  CHECK(world.heard.size() == 2);
  world.host.kill(1);
  world.host.post_from(far, {other, Role::router}, StatusRequest{8});
  world.run(2000);
  CHECK(far_heard.size() == 1);
  CHECK(world.host.alive(other) == world.host.alive(1));
}

TEST_CASE("sim host: a killed node is silent, and answers with a larger incarnation after restart") {
  World world;
  world.add_echo(1);
  world.host.start();
  const Incarnation first = world.host.incarnation(1);
  CHECK(first > 0);
  world.ask(1, 1);
  world.run(2000);
  world.host.kill(1);
  CHECK_FALSE(world.host.alive(1));
  world.ask(1, 2);
  world.run(2000);
  world.host.restart(1);
  CHECK(world.host.alive(1));
  CHECK(world.host.incarnation(1) > first);
  world.ask(1, 3);
  world.run(2000);
  CHECK(world.heard == Ids{1, 3});
  const Incarnation second = world.host.incarnation(1);
  world.host.restart(1);
  CHECK(world.host.incarnation(1) > second);
  CHECK(world.metrics.value(Metric::protocol_errors) == 0);
}

TEST_CASE(
    "sim host: timers, jobs and local messages die with a process; network messages reach the next one") {
  World world;
  TakesPort port;
  Ids got;
  world.add(
      router,
      [&](Instant now, const Event& event, Effects& effects) {
        auto* fired = std::get_if<TimerFired>(&event);
        if (fired && fired->timer == start_timer) {
          if (world.host.now() > Instant{0}) return;  // the next process does nothing
          effects.set_timer(7, now + Duration{400});
          effects.start(1, ListItems{0, 400});
          effects.send(router, StatusRequest{99});
        } else {
          got.push_back(fired ? fired->timer : std::holds_alternative<JobDone>(event) ? 8 : id_of(event));
        }
      },
      &port);
  world.host.network().set_default({.latency_min = {100}, .latency_max = {100}});
  world.host.at({1}, [&] { world.host.restart(1); });
  world.host.start();
  world.ask(1, 5);
  world.run(1000);
  CHECK(port.begun == 1);
  CHECK(port.done == 0);
  CHECK(got == Ids{5});
}

TEST_CASE("sim host: a paused process gets its held messages in order after resume") {
  World world;
  std::vector<std::pair<std::int64_t, std::uint64_t>> got;
  world.add(router, [&](Instant now, const Event& event, Effects& effects) {
    if (auto* fired = std::get_if<TimerFired>(&event)) {
      if (fired->timer == start_timer) effects.set_timer(50, now + Duration{1500});
      if (fired->timer != start_timer) got.emplace_back(world.host.now().us, fired->timer);
    } else {
      got.emplace_back(world.host.now().us, id_of(event));
    }
  });
  world.host.network().set_default({.latency_min = {0}, .latency_max = {0}, .bytes_per_us = 1e6});
  world.host.start();
  world.run(1000);
  world.host.pause(1);
  CHECK(world.host.paused(1));
  for (std::uint64_t id = 1; id <= 9; ++id, world.run(100)) world.ask(1, id);
  CHECK(got.empty());
  world.run(3100);
  world.host.resume(1);
  world.run(0);
  Ids ids;
  for (auto [at, id] : got) {
    CHECK(at == 5000);
    ids.push_back(id);
  }
  CHECK(ids == Ids{1, 2, 3, 4, 5, 50, 6, 7, 8, 9});
}

TEST_CASE("sim host: messages held for a paused process are delivered and counted at resume") {
  World world;
  world.add_echo(1);
  world.host.start();
  world.run(2000);
  const auto delivered = [&] { return world.host.run_until(world.host.now() + Duration{2000}); };
  world.host.pause(1);
  for (std::uint64_t id = 1; id <= 3; ++id) world.ask(1, id);
  CHECK(delivered() == 0);
  world.host.resume(1);
  CHECK(delivered() == 6);  // each message to the core, and its answer to the client
  CHECK(world.heard.size() == 3);
}

TEST_CASE("sim host: messages held for a paused process die with it") {
  World world;
  world.add_echo(1);
  world.host.start();
  world.host.pause(1);
  world.ask(1, 1);
  world.run(2000);
  world.host.restart(1);
  CHECK_FALSE(world.host.paused(1));
  world.run(2000);
  CHECK(world.heard.empty());
}

TEST_CASE("sim host: held messages die with a process that is killed right after resume") {
  World world;
  world.add_echo(1);
  world.host.start();
  world.host.pause(1);
  world.ask(1, 1);
  world.run(2000);
  world.host.resume(1);
  world.host.restart(1);
  world.run(2000);
  CHECK(world.heard.empty());
}

TEST_CASE("sim host: a SimPort job runs at its end; an endless one holds its slot until the process dies") {
  World world;
  TakesPort port;
  std::vector<std::pair<std::int64_t, std::uint64_t>> ended;
  world.add(
      router,
      [&](Instant, const Event& event, Effects& effects) {
        if (auto* done = std::get_if<JobDone>(&event)) ended.emplace_back(world.host.now().us, done->job);
        if (!std::holds_alternative<TimerFired>(event)) return;
        effects.start(1, ListItems{0, 0});
        effects.start(2, ListItems{0, 30});
        effects.start(3, ListItems{0, 20});
      },
      &port, 2);
  world.host.start();
  world.run(10);
  CHECK(port.begun == 2);
  CHECK(port.done == 0);
  world.run(100);
  CHECK(ended == decltype(ended){{30, 2}, {50, 3}});
  world.host.restart(1);
  world.run(1000);
  CHECK(port.begun == 6);
  CHECK(ended.size() == 4);
}

TEST_CASE("sim host: jobs of a killed process never run") {
  World world;
  TakesPort port;
  world.add(
      router,
      [&](Instant, const Event& event, Effects& effects) {
        if (std::holds_alternative<TimerFired>(event)) effects.start(1, ListItems{0, 500});
      },
      &port);
  world.host.start();
  world.run(100);
  world.host.kill(1);
  world.run(1000);
  CHECK(port.begun == 1);
  CHECK(port.done == 0);
}

TEST_CASE("sim host: a clock changes its rate without a jump, and timers follow the clock") {
  World world;
  Instant due;
  std::vector<std::int64_t> fired;
  world.add(router, [&](Instant now, const Event& event, Effects& effects) {
    CHECK(now == world.host.local_time(1));
    if (std::get<TimerFired>(event).timer != start_timer) {
      CHECK(due <= now);
      CHECK(now <= due + Duration{1});
      fired.push_back(world.host.now().us);
    }
    due = now + Duration{1000};
    effects.set_timer(1, due);
  });
  world.host.set_clock_rate(1, 2);
  world.host.start();
  world.run(600);
  const Instant before = world.host.local_time(1);
  world.host.set_clock_rate(1, 0.5);
  CHECK(world.host.local_time(1) == before);  // 800 µs of the pending timer are left
  world.run(1700);
  CHECK(world.host.local_time(1) - before == Duration{850});
  world.host.set_clock_rate(1, 1);
  world.run(1000);
  CHECK(fired == std::vector<std::int64_t>{500, 2200, 3250});
  world.host.restart(1);
  CHECK(std::abs((world.host.local_time(1) - before).us) > 1'000'000);
}

TEST_CASE("sim host: messages within a node are fast and never lost; others follow the network's rules") {
  World world;
  std::uint64_t inner = 0, last = 0;
  world.host.add({router, core_of([](Instant, const Event& event, Effects& effects) {
                    if (std::holds_alternative<TimerFired>(event))
                      for (std::uint64_t id = 1; id <= 100; ++id) effects.send(worker, StatusRequest{id});
                  })});
  world.host.add({worker, core_of([&](Instant now, const Event& event, Effects& effects) {
                    if (!id_of(event)) return;
                    CHECK(now >= Instant{1});
                    last = static_cast<std::uint64_t>(now.us);
                    ++inner;
                    effects.send(client, StatusRequest{id_of(event)});
                  })});
  world.host.network().isolate(1);
  world.host.network().set_default({.lose_ppm = 1'000'000});
  world.host.start();
  world.run(10'000);
  CHECK(inner == 100);
  CHECK(last <= 20);
  CHECK(world.heard.empty());
}

TEST_CASE("sim host: a duplicated message is delivered twice") {
  World world;
  world.host.network().set_default({.double_ppm = 1'000'000});
  world.add_echo(1);
  world.host.start();
  world.ask(1, 3);
  world.run(10'000);
  CHECK(world.heard == Ids{3, 3, 3, 3});
}

TEST_CASE("sim host: a loss notice reaches the cores of its observer, once") {
  World world;
  std::vector<NodeId> reported;
  for (NodeId node = 1; node <= 3; ++node)
    world.add({node, Role::router}, [&reported, node](Instant, const Event& event, Effects&) {
      if (std::holds_alternative<PeerLost>(event)) reported.push_back(node);
    });
  world.host.start();
  world.host.announce_lost(1, 3);
  world.run(1000);
  CHECK(reported == std::vector<NodeId>{1});
}

TEST_CASE("sim host: actions run at their time, in call order, before the events of that microsecond") {
  World world;
  Ids order;
  world.add(router, [&](Instant now, const Event& event, Effects& effects) {
    order.push_back(std::get<TimerFired>(event).timer);
    if (order.back() != start_timer) return;
    for (std::uint64_t timer = 10; timer < 20; ++timer) effects.set_timer(timer, now + Duration{5});
    world.host.at({0}, [&] { order.push_back(3); });
  });
  world.host.at({5}, [&] { order.push_back(1); });
  world.host.at({5}, [&] { order.push_back(2); });
  world.host.start();
  world.run(5);
  REQUIRE(order.size() == 14);
  CHECK(Ids(order.begin(), order.begin() + 4) == Ids{start_timer, 3, 1, 2});
}

TEST_CASE("sim host: an action scheduled by a core's step runs right after the step") {
  World world;
  int fired = 0;
  world.add(router, [&](Instant now, const Event&, Effects& effects) {
    for (std::uint64_t timer = 1; timer < 10; ++timer) effects.set_timer(timer, now);
    if (++fired == 3) world.host.at(world.host.now(), [&] { world.host.kill(1); });
  });
  world.host.start();
  world.run(100);
  CHECK(fired == 3);
}

TEST_CASE("sim host: watches see every delivery before the core") {
  World world;
  world.add_echo(1);
  int messages = 0, events = 0, at_client = 0;
  world.host.watch_deliveries([&](Instant at, Address from, Address to, const Message& message) {
    ++messages;
    at_client += to == client && from == router && std::get<StatusRequest>(message).id == 4;
    CHECK(at == world.host.now());
    CHECK(world.heard.empty());
  });
  world.host.watch_events([&](Instant, Address, const Event&) { ++events; });
  world.host.start();
  world.ask(1, 4);
  world.run(5000);
  CHECK(messages == 2);
  CHECK(at_client == 1);
  CHECK(events == 3);  // the start timers count too
  CHECK(world.host.events() == 3);
}

TEST_CASE("sim host: a seed with faults replays exactly, and a fault does not change other nodes' draws") {
  struct Run {
    std::uint64_t digest;
    std::vector<std::int64_t> elsewhere;  // times of deliveries at nodes without the fault
    bool operator==(const Run&) const = default;
  };
  const auto run = [](std::uint64_t seed, bool fault) {
    World world({.seed = seed});
    for (NodeId node = 1; node <= 4; ++node) {
      const NodeId peer = (node - 1) / 2 * 2 + 2 - (node - 1) % 2;  // 1 and 2, 3 and 4
      world.add({node, Role::router}, [node, peer](Instant now, const Event& event, Effects& effects) {
        const Address me{node, Role::router};
        auto* received = std::get_if<Received>(&event);
        if (!received) effects.set_timer(1, now + Duration{300}), effects.send(me, StatusRequest{node});
        if (!received || received->from != me) effects.send({peer, Role::router}, StatusRequest{node});
      });
    }
    world.host.network().set_default({.lose_ppm = 400'000, .double_ppm = 100'000, .reorder_ppm = 50'000});
    Run result;
    world.host.watch_deliveries([&](Instant at, Address, Address to, const Message&) {
      if (to.node > 2) result.elsewhere.push_back(at.us);
    });
    world.host.start();
    if (fault) {
      world.host.at({5000}, [&] { world.host.kill(1); });
      world.host.at({9000}, [&] { world.host.restart(1), world.host.set_clock_rate(2, 1.5); });
      world.host.at({12'000}, [&] { world.host.pause(2); });
      world.host.at({15'000}, [&] { world.host.resume(2); });
    }
    world.host.run_until({30'000});
    result.digest = world.host.digest();
    return result;
  };
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    const Run with = run(seed, true), without = run(seed, false);
    CHECK(with == run(seed, true));
    CHECK(with.digest != without.digest);
    CHECK(with.elsewhere == without.elsewhere);
    CHECK(with.elsewhere.size() > 100);
    CHECK(run(seed + 100, true).digest != with.digest);
  }
}
