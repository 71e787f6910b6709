#include "sim/injector/injector.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "router/request/prompt.h"
#include "sim/runs/run.h"

using namespace troupe;
using namespace troupe::sim;

namespace {

constexpr auto index_of(FaultKind kind) { return static_cast<std::size_t>(kind); }

// One router (node 1), two cache-metas (2 and 3), three workers with disks (4 to 6).
Scenario calm_scenario() {
  Scenario s;
  s.cache_metas = 2;
  s.workers = 3;
  s.deadline = {1'600'000};
  s.precompute = false;
  return s;
}

struct Bench {
  Violations violations;
  Cluster cluster;
  Clients clients{cluster, violations};
  Injector injector{cluster, clients, violations};

  Bench(Scenario s, std::vector<Fault> faults) : cluster(with(std::move(s), std::move(faults)), violations) {
    injector.schedule_all();
    cluster.start();
  }
  static Scenario with(Scenario s, std::vector<Fault> faults) {
    s.faults = std::move(faults);
    return s;
  }
  void run_until(std::int64_t us) { cluster.host().run_until({us}); }
  std::uint32_t injected(FaultKind kind) const { return injector.injected()[index_of(kind)]; }
  std::uint32_t missed(FaultKind kind) const { return injector.missed()[index_of(kind)]; }

  std::string links() {
    std::string text;
    SimNetwork& network = cluster.host().network();
    for (const auto& [a, left] : cluster.nodes())
      for (const auto& [b, right] : cluster.nodes()) {
        const SimNetwork::Link& link = network.link(a, b);
        text += std::to_string(network.is_cut(a, b)) + std::to_string(link.lose_ppm) + ',' +
                std::to_string(link.double_ppm) + ',' + std::to_string(link.reorder_ppm) + ',' +
                std::to_string(link.latency_max.us) + ' ';
      }
    return text;
  }
  // Text of all state that faults change temporarily.
  std::string state() {
    std::string text = links();
    const auto add = [&](auto value) { text += std::to_string(value) + ' '; };
    SimHost& host = cluster.host();
    std::map<NodeId, std::int64_t> before;
    for (const auto& [id, node] : cluster.nodes()) before[id] = host.local_time(id).us;
    host.run_until(host.now() + Duration{10'000});
    for (auto& [id, node] : cluster.nodes()) {
      add(host.alive(id)), add(host.paused(id));
      if (host.alive(id)) add((host.local_time(id).us - before[id] + 5) / 10);
      const SimDisk::Faults& disk = node.disk->faults();
      add(disk.full), add(disk.failing), add(disk.slowness.factor), add(static_cast<int>(disk.torn)),
          add(disk.loads_lost);
      add(node.device.slowness.factor), add(node.device.hung), add(node.device.broken), add(node.device.nan);
      add(node.device.load_fails);
      if (node.kv_worker) add(node.kv_worker->pool().cap(PoolArea::item));
      add(node.features.slowness), add(node.features.failing), add(node.features.hung_until.us);
      add(node.features.unreadable);
      add(node.transfer.reset), add(node.transfer.corrupted), add(node.transfer.slowness);
    }
    const SimCoordination::Faults& hard = cluster.coordination().faults();
    add(hard.away), add(hard.slowness), add(hard.answers_lost);
    for (const NodeId node : hard.cut_off) add(node);
    add(cluster.world().user_flash.share), add(cluster.world().user_flash.first),
        add(cluster.world().item_flash.share);
    return text;
  }
};

struct Case {
  FaultKind kind;
  NodeId node;
};
constexpr Case lasting[] = {
    {FaultKind::kill, 4},
    {FaultKind::wipe, 4},
    {FaultKind::pause, 4},
    {FaultKind::isolate, 4},
    {FaultKind::one_way, 4},
    {FaultKind::bridge, 4},
    {FaultKind::delay, 4},
    {FaultKind::loss, 0},
    {FaultKind::doubling, 4},
    {FaultKind::reordering, 4},
    {FaultKind::transfer_reset, 4},
    {FaultKind::transfer_slow, 4},
    {FaultKind::disk_full, 4},
    {FaultKind::transfer_corruption, 4},
    {FaultKind::disk_failing, 4},
    {FaultKind::coordination_away, 1},
    {FaultKind::disk_slow, 4},
    {FaultKind::coordination_slow, 0},
    {FaultKind::coordination_emptied, 1},
    {FaultKind::coordination_restored, 1},
    {FaultKind::torn_save, 4},
    {FaultKind::two_leaders, 0},
    {FaultKind::load_failing, 4},
    {FaultKind::features_slow, 1},
    {FaultKind::features_hung, 1},
    {FaultKind::features_failing, 1},
    {FaultKind::clock_drift, 4},
    {FaultKind::coordination_away, 0},
    {FaultKind::device_error, 4},
    {FaultKind::device_hang, 4},
    {FaultKind::device_nan, 4},
    {FaultKind::slow_node, 4},
    {FaultKind::flash_crowd, 0},
    {FaultKind::model_load_failing, 4},
    {FaultKind::cold_start, 0},
    {FaultKind::memory_pressure, 4},
    {FaultKind::features_unreadable, 1},
};

}  // namespace

TEST_CASE("injector: a second fault of the same kind and node that ends earlier does not end the first") {
  for (const auto [kind, node] : lasting) {
    CAPTURE(name_of(kind));
    const Fault first{kind, {1'000'000}, {1'500'000}, node, kind == FaultKind::two_leaders ? 1U : 5U, 0.4};
    Fault second = first;
    second.at = {1'400'000}, second.lasts = {400'000}, second.intensity = 0.3;
    std::vector<std::string> during, after;
    for (const auto& faults : {std::vector<Fault>{}, {first}, {first, second}}) {
      Bench bench(calm_scenario(), faults);
      bench.run_until(2'200'000);
      during.push_back(bench.state());
      bench.run_until(4'000'000);
      after.push_back(bench.state());
    }
    CHECK(during[1] != during[0]);
    CHECK(during[2] == during[1]);
    CHECK(after[1] == after[0]);
    CHECK(after[2] == after[0]);
  }
}

TEST_CASE("injector: the end of the first of two faults of the same kind and node does not end the second") {
  for (const auto [kind, node] : lasting) {
    if (kind == FaultKind::two_leaders) continue;  // the second fault deposes another leader
    CAPTURE(name_of(kind));
    const Fault first{kind, {1'000'000}, {800'000}, node, 5U, 0.4};
    Fault second = first;
    second.at = {1'400'000}, second.lasts = {1'100'000};
    std::vector<std::string> during, after;
    for (const auto& faults : {std::vector<Fault>{second}, {first, second}}) {
      Bench bench(calm_scenario(), faults);
      bench.run_until(2'200'000);
      during.push_back(bench.state());
      bench.run_until(4'000'000);
      after.push_back(bench.state());
    }
    CHECK(during[1] == during[0]);
    CHECK(after[1] == after[0]);
  }
}

TEST_CASE("injector: a process restarted during a pause or memory pressure is paused and squeezed again") {
  Bench bench(calm_scenario(), {{FaultKind::pause, {1'000'000}, {1'000'000}, 4},
                                {FaultKind::memory_pressure, {1'000'000}, {2'000'000}, 4, 0, 0.2},
                                {FaultKind::kill, {1'200'000}, {200'000}, 4}});
  bench.run_until(1'900'000);
  CHECK(bench.cluster.host().alive(4));
  CHECK(bench.cluster.host().paused(4));
  bench.run_until(2'900'000);
  CHECK_FALSE(bench.cluster.host().paused(4));
  const PagePool& pool = bench.cluster.node(4).kv_worker->pool();
  CHECK(pool.cap(PoolArea::item) == pool.pages() / 5);
}

TEST_CASE("injector: a process stays down while another fault keeps it down") {
  const Duration at{1'000'000};
  Bench bench(calm_scenario(), {{FaultKind::kill, at, {2'000'000}, 4},
                                {FaultKind::cold_start, {1'200'000}, {200'000}},
                                {FaultKind::device_hang, {1'300'000}, {200'000}, 4}});
  bench.run_until(1'600'000);
  CHECK_FALSE(bench.cluster.host().alive(4));
  CHECK(bench.cluster.host().alive(5));
  bench.run_until(3'100'000);
  CHECK(bench.cluster.host().alive(4));
}

TEST_CASE("injector: faults that found nothing to act on are counted separately and meet no phase") {
  Bench bench(calm_scenario(), {{FaultKind::kill, {1'000'000}, {1'000'000}, 4},
                                {FaultKind::kill, {1'200'000}, {100'000}, 4},
                                {FaultKind::disk_swapped, {1'300'000}, {100'000}, 5},
                                {FaultKind::memory_corruption, {1'300'000}, {100'000}, 5},
                                {FaultKind::drain, {1'300'000}, {100'000}, 4},
                                {FaultKind::torn_save, {1'300'000}, {100'000}, 5}});
  bench.run_until(3'000'000);
  CHECK(bench.injected(FaultKind::kill) == 1);
  CHECK(bench.missed(FaultKind::kill) == 1);
  for (const FaultKind kind :
       {FaultKind::disk_swapped, FaultKind::memory_corruption, FaultKind::drain, FaultKind::torn_save}) {
    CAPTURE(name_of(kind));
    CHECK(bench.injected(kind) == 0);
    CHECK(bench.missed(kind) == 1);
    CHECK(std::ranges::count(bench.injector.coverage()[index_of(kind)], 0U) == phases);
  }
}

TEST_CASE("injector: memory corruption leaves cached blocks that do not match their checksums") {
  Bench bench(calm_scenario(), {{FaultKind::memory_corruption, {2'000'000}, {10'000}, 4, 0, 0.9}});
  const auto damaged = [&] {
    const Node& node = bench.cluster.node(4);
    return std::ranges::count_if(node.kv_worker->pool().ready_after(0, 10'000), [&](const PoolBlock* block) {
      return node.pages->checksum(block->pages) != block->checksum;
    });
  };
  bench.clients.start({500'000}, {1'900'000});
  bench.run_until(1'999'999);
  CHECK(bench.cluster.node(4).kv_worker->pool().ready_after(0, 10).size() > 5);
  CHECK(damaged() == 0);
  bench.run_until(2'000'000);
  CHECK(damaged() > 0);
  CHECK(bench.injected(FaultKind::memory_corruption) == 1);
}

TEST_CASE("injector: both forms of two_leaders send workers commands of a former leader") {
  for (const double intensity : {0.2, 0.8}) {
    CAPTURE(intensity);
    Scenario s = calm_scenario();
    s.routers = 2;
    Bench bench(s, {{FaultKind::two_leaders, {1'500'000}, {3'000'000}, 0, 2, intensity}});
    std::map<NodeId, std::uint64_t> highest;
    int stale = 0;
    bench.cluster.host().watch_deliveries([&](Instant, Address, Address to, const Message& message) {
      if (to.role != Role::kv_worker) return;
      const auto* beat = std::get_if<LeaderBeat>(&message);
      const auto* forget = std::get_if<Forget>(&message);
      if (beat) highest[to.node] = std::max(highest[to.node], beat->token);
      stale += forget && forget->token < highest[to.node];
    });
    bench.clients.start({500'000}, {5'000'000});
    bench.run_until(6'000'000);
    CHECK(stale > 0);
    CHECK(bench.injected(FaultKind::two_leaders) == 1);
  }
}

TEST_CASE("injector: faults that wait for a job or for clients act, and all promises are kept") {
  const auto act = [](FaultKind kind, NodeId node, double intensity) {
    Scenario s = calm_scenario();
    s.policy = router::policy("item");
    s.items = 1'000;
    s.requests_per_s = 80;
    s.faults = {{kind, {1'200'000}, {1'800'000}, node, 0, intensity}};
    RunResult result = run(s);
    CAPTURE(name_of(kind));
    CHECK(result.injected[index_of(kind)] == 1);
    for (const Violation& violation : result.violations) CHECK(violation.what == "");
    return result;
  };
  CHECK(act(FaultKind::torn_save, 4, 0.3).tally.kills == 1);
  CHECK(act(FaultKind::torn_save, 4, 0.8).tally.kills == 0);
  act(FaultKind::load_failing, 4, 0.9);
  CHECK(act(FaultKind::features_hung, 1, 0.5).tally.expired > 0);
  const RunResult swap = act(FaultKind::model_load_failing, 4, 0.5);
  CHECK(swap.coverage[index_of(FaultKind::model_load_failing)][static_cast<std::size_t>(Phase::swap)] > 50);
  CHECK(act(FaultKind::deletes, 0, 0.9).tally.refused > 0);
}

TEST_CASE("injector: overload, malformed requests and write storms end with their faults") {
  struct Counts {
    std::size_t requests = 0, writes = 0, of_greedy = 0;
    std::uint32_t refused = 0;
  };
  const auto count = [](FaultKind kind, std::int64_t from, std::int64_t to) {
    Scenario s = calm_scenario();
    s.tenants = 2;  // the seed makes the second one greedy
    s.requests_per_s = 100, s.capacity_per_s = 200, s.writes_share = 0;
    Bench bench(s, {{kind, {1'000'000}, {1'000'000}, 0, 0, 0.9}});
    Counts counts;
    bench.cluster.host().watch_deliveries([&](Instant now, Address from_whom, Address whom,
                                              const Message& message) {
      if (now.us < from || now.us >= to || whom.role != Role::router || from_whom.role != Role::server)
        return;
      ++counts.requests;
      counts.writes += std::holds_alternative<PutUser>(message) || std::holds_alternative<PutItem>(message) ||
                       std::holds_alternative<AppendEvents>(message);
      if (const auto* rank = std::get_if<RankRequest>(&message))
        counts.of_greedy += rank->tenant == bench.cluster.world().options().tenants[1];
    });
    bench.clients.start({100'000}, {to});
    bench.run_until(to + 100'000);
    for (std::size_t second = static_cast<std::size_t>(from / 1'000'000);
         second < static_cast<std::size_t>(to / 1'000'000); ++second)
      counts.refused += bench.clients.seconds().at(second).refused;
    return counts;
  };
  constexpr std::int64_t begin = 1'000'000, end = 2'000'000, later = 3'000'000, last = 5'000'000;
  const auto usual = [](std::size_t requests) {
    return requests > 140 && requests < 260;  // 200 in two seconds
  };
  const Counts flood = count(FaultKind::overload, begin, end), ebb = count(FaultKind::overload, later, last);
  CHECK(flood.requests > 400);
  CHECK(flood.of_greedy * 10 > flood.requests * 8);
  CHECK(usual(ebb.requests));
  CHECK(ebb.of_greedy * 10 < ebb.requests * 7);
  CHECK(count(FaultKind::malformed, begin, end).refused > 30);
  CHECK(count(FaultKind::malformed, later, last).refused == 0);
  CHECK(count(FaultKind::profile_storm, begin, end).writes > 30);
  CHECK(count(FaultKind::profile_storm, later, last).writes == 0);
}

TEST_CASE("clients: after stop() no more requests are sent, in any mode") {
  const auto asked = [](const std::function<void(Clients&)>& begin) {
    Bench bench(calm_scenario(), {});
    bench.run_until(500'000);
    begin(bench.clients);
    bench.run_until(900'000);
    const std::uint64_t sent = bench.clients.sent();
    bench.clients.stop();
    bench.run_until(1'500'000);
    CHECK(bench.clients.sent() == sent);
    return sent;
  };
  const auto requests = [](Duration gap) {
    return [gap, at = Instant{}](TracedRequest& request) mutable {
      request = {.at = at, .user = WorldData::user_id(1), .candidates = {WorldData::item_id(1)}};
      at = at + gap;
      return true;
    };
  };
  CHECK(asked([](Clients& clients) { clients.start({500'000}, {9'000'000}); }) > 5);
  CHECK(asked([&](Clients& clients) { clients.run_open_loop(requests({50'000})); }) == 9);
  CHECK(asked([&](Clients& clients) { clients.follow(requests({50'000})); }) == 19);
  CHECK(asked([&](Clients& clients) { clients.run_closed_loop(requests({0}), 3); }) > 6);
}

TEST_CASE("injector: deleted users are gone and are restored at the end of the fault") {
  Bench bench(calm_scenario(), {{FaultKind::deletes, {1'000'000}, {1'000'000}, 0, 0, 0.9}});
  const WorldData& world = bench.cluster.world();
  const auto gone = [&] {
    std::size_t count = 0;
    for (std::uint32_t u = 0; u < world.options().users; ++u)
      count += !world.profile("", WorldData::user_id(u)) || !world.profile("t1", WorldData::user_id(u));
    return count;
  };
  const std::size_t before = gone();
  bench.run_until(1'300'000);
  CHECK(gone() > before);
  CHECK(world.edition() > 0);
  bench.run_until(2'500'000);
  CHECK(gone() == before);
}

TEST_CASE("injector: poison is the history of one user only, if there is a user without twin") {
  std::uint32_t strikes = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Scenario s = calm_scenario();
    s.seed = seed, s.users = 2;
    Bench bench(s, {{FaultKind::poison, {100'000}, {1'000'000}}});
    bench.run_until(100'001);
    const WorldData& world = bench.cluster.world();
    std::uint32_t poisonous = 0;
    for (const std::string& tenant : world.options().tenants)
      for (std::uint32_t u = 0; u < s.users; ++u) {
        const auto history =
            router::fit_history(bench.cluster.form(), *world.profile(tenant, WorldData::user_id(u)), 64);
        poisonous += static_cast<std::uint32_t>(bench.cluster.poisons().count(poison_of(history.tokens)));
      }
    CHECK(poisonous == bench.injected(FaultKind::poison));
    strikes += bench.injected(FaultKind::poison);
  }
  CHECK(strikes > 45);
  CHECK(strikes < 60);
}

TEST_CASE("injector: a content is no longer poison after its fault has ended") {
  Scenario s = calm_scenario();
  s.users = 2;
  for (bool struck = false; !struck; ++s.seed) {
    REQUIRE(s.seed < 60);
    Bench bench(s, {{FaultKind::poison, {100'000}, {500'000}}});
    bench.run_until(100'001);
    struck = !bench.cluster.poisons().empty();
    if (!struck) continue;
    bench.run_until(700'000);
    CHECK(bench.cluster.poisons().empty());
  }
}
