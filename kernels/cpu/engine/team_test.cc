#include "kernels/cpu/engine/team.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <stdexcept>

using namespace troupe::kernels;

namespace {

constexpr double worth_helping = Team::worth_helping;

TEST_CASE("team: every part is done exactly once, for any number of parts and cores") {
  for (const std::uint32_t cores : {1u, 2u, 5u}) {
    Team team(cores);
    Team::Pass pass(team);
    for (const std::size_t parts : {0u, 1u, 2u, 7u, 1000u}) {
      CAPTURE(cores);
      CAPTURE(parts);
      std::vector<std::atomic<int>> calls(parts);
      std::vector<std::atomic<int>> working(cores);
      std::atomic<bool> workers_fit = true;
      pass.run(parts, worth_helping, [&](std::size_t part, std::uint32_t worker) {
        if (worker >= cores || ++working[worker] > 1) workers_fit = false;
        ++calls[part];
        --working[worker];
      });
      CHECK(std::ranges::all_of(calls, [](const auto& n) { return n == 1; }));
      CHECK(workers_fit);
    }
  }
}

TEST_CASE("team: results that helpers wrote are visible after each region") {
  Team team(3);
  Team::Pass pass(team);
  std::vector<std::uint64_t> values(64, 0);
  for (std::uint64_t round = 1; round <= 2000; ++round) {
    pass.run(values.size(), worth_helping,
             [&](std::size_t part, std::uint32_t) { values[part] += part + round; });
    REQUIRE(std::ranges::all_of(values, [&](const auto& v) {
      const std::uint64_t part = std::uint64_t(&v - values.data());
      return v == part * round + round * (round + 1) / 2;
    }));
  }
}

// Two parts that wait for each other end only if two threads run them.
TEST_CASE("team: an idle core takes part") {
  Team team(2);
  Team::Pass pass(team);
  CHECK(pass.workers() == 2);
  std::atomic<int> arrived = 0;
  std::set<std::uint32_t> workers;
  std::mutex mutex;
  pass.run(2, worth_helping, [&](std::size_t, std::uint32_t worker) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    workers.insert(worker);
  });
  CHECK(workers == std::set<std::uint32_t>{0, 1});
}

TEST_CASE("team: with a pass on every core there are no helpers") {
  Team team(2);
  Team::Pass first(team), second(team);
  CHECK(first.workers() == 1);
  std::atomic<bool> alone = true;
  for (int round = 0; round < 200; ++round)
    first.run(8, worth_helping, [&](std::size_t, std::uint32_t worker) {
      if (worker != 0) alone = false;
    });
  CHECK(alone);
}

TEST_CASE("team: small work stays on the calling thread") {
  Team team(4);
  Team::Pass pass(team);
  std::atomic<bool> alone = true;
  for (int round = 0; round < 200; ++round)
    pass.run(8, worth_helping - 1, [&](std::size_t, std::uint32_t worker) {
      if (worker != 0) alone = false;
    });
  CHECK(alone);
}

TEST_CASE("team: work is split from fewer operations on while one pass at a time runs") {
  Team team(2, CpuSet(), 100, 10'000);
  const auto is_split = [&](Team::Pass& pass, double operations) {
    std::atomic<bool> helped = false;
    pass.run(50'000, operations, [&](std::size_t, std::uint32_t worker) {
      if (worker != 0) helped = true;
    });
    return helped.load();
  };
  {
    Team::Pass pass(team);
    CHECK(team.worth_splitting() == 100);
    CHECK_FALSE(is_split(pass, 99));
    std::atomic<int> arrived = 0;  // two parts that wait for each other end only if two threads run them
    pass.run(2, 100, [&](std::size_t, std::uint32_t) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
  }
  { const Team::Pass one(team), other(team); }
  for (std::uint32_t passes = 1; passes < Team::lone_passes_min; ++passes) {
    Team::Pass pass(team);
    CHECK(team.worth_splitting() == 10'000);
    CHECK_FALSE(is_split(pass, 9'999));
  }
  CHECK(team.worth_splitting() == 100);
}

TEST_CASE("team: passes that leave half of the cores idle split like one alone") {
  Team team(4, CpuSet(), 100, 10'000);
  std::optional<Team::Pass> one(std::in_place, team), other(std::in_place, team), third;
  CHECK(team.worth_splitting() == 100);
  std::atomic<int> arrived = 0;  // two parts that wait for each other end only if two threads run them
  one->run(2, 100, [&](std::size_t, std::uint32_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  third.emplace(team);
  CHECK(team.worth_splitting() == 10'000);
  third.reset();
  for (std::uint32_t passes = 0; passes < Team::lone_passes_min; ++passes) {
    CHECK(team.worth_splitting() == 10'000);
    other.reset();  // one pass always runs beside these
    other.emplace(team);
  }
  CHECK(team.worth_splitting() == 100);
}

TEST_CASE("team: concurrent passes each see their own parts done") {
  Team team(4);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        Team::Pass pass(team);
        std::atomic<std::size_t> sum = 0;
        pass.run(50, worth_helping, [&](std::size_t part, std::uint32_t) { sum += part; });
        if (sum != 50 * 49 / 2) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

// Parts that wait for each other are on two threads: the caller's and a helper's.
TEST_CASE(
    "team: an exception of a part leaves run, from the caller's or a helper's part, and the team continues") {
  Team team(2);
  Team::Pass pass(team);
  for (const std::uint32_t thrower : {0u, 1u}) {
    std::atomic<int> arrived = 0;
    const auto part = [&](std::size_t, std::uint32_t worker) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
      if (worker == thrower) throw std::runtime_error("no memory");
    };
    CHECK_THROWS_WITH(pass.run(2, worth_helping, part), "no memory");
    std::atomic<int> done = 0;
    pass.run(50, worth_helping, [&](std::size_t, std::uint32_t) { ++done; });
    CHECK(done == 50);
  }
}

TEST_CASE("team: a helper stops as soon as passes need all cores") {
  Team team(2);
  std::optional<Team::Pass> first(std::in_place, team), second;
  std::atomic<int> helped = 0, begun = 0;
  first->run(1000, worth_helping, [&](std::size_t, std::uint32_t worker) {
    if (worker == 1) {
      second.emplace(team);  // in the helper's own part: from now on two passes use both cores
      ++helped;
    } else if (++begun == 1) {
      while (helped == 0) std::this_thread::yield();
    }
  });
  CHECK(helped == 1);
}

TEST_CASE("team: memory nodes share the cores, unless that leaves some of them idle") {
  CHECK(make_teams(3, 3, {}).size() == 1);
  CHECK(make_teams(3, 3, {}).front()->cores() == 3);
  const std::vector<CpuSet> nodes{{0, 1, 2}, {0, 1}, {0}};
  CHECK(make_teams(5, 2, nodes).size() == 1);
  CHECK(make_teams(2, 5, nodes).size() == 1);
  const Teams teams = make_teams(5, 3, nodes);
  REQUIRE(teams.size() == 3);
  CHECK(teams[0]->cores() == 1);
  CHECK(teams[1]->cores() == 2);
  CHECK(teams[2]->cores() == 1);  // a share of two, on a node with one core
  CHECK(teams[1]->cpus() == CpuSet{0, 1});
}

TEST_CASE("team: helpers stay on their CPUs") {
  cpu_set_t mine;
  REQUIRE(sched_getaffinity(0, sizeof mine, &mine) == 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &mine)) ++cpu;
  Team team(2, {cpu});
  Team::Pass pass(team);
  std::atomic<int> arrived = 0, cpus = 0;
  pass.run(2, worth_helping, [&](std::size_t, std::uint32_t worker) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
    cpu_set_t set;
    if (worker == 1 && sched_getaffinity(0, sizeof set, &set) == 0 && CPU_ISSET(cpu, &set))
      cpus = CPU_COUNT(&set);
  });
  CHECK(cpus == 1);
}

}  // namespace
