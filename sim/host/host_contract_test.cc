// Tests the guarantees that a core may rely on in both worlds. Every case runs on the CAF host, on the CAF
// host with messages encoded inside the process, and in the simulation.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/network/caf_host.h"
#include "runtime/testing/host_test.h"
#include "sim/host/sim_host.h"

using namespace troupe;

namespace host_contract_test {

constexpr Address server{1, Role::server}, router{1, Role::router}, meta{2, Role::cache_meta};

struct CafWorld {
  MetricRegistry metrics;
  Inbox inbox;
  CafHost host{metrics, nullptr, 2};
  std::vector<Received> await(std::size_t count) { return inbox.await(count); }
};
struct CafBytesWorld {
  MetricRegistry metrics;
  Inbox inbox;
  CafHost host{metrics, nullptr, 2, CafHost::Inside::bytes};
  std::vector<Received> await(std::size_t count) { return inbox.await(count); }
};
struct SimWorld {
  MetricRegistry metrics;
  Inbox inbox;
  SimHost host{metrics, nullptr, {.seed = 7}};
  std::vector<Received> await(std::size_t count) {
    host.run_until(host.now() + Duration{1'000'000});
    return inbox.await(count);
  }
};

// Starts a job that reads a catalog, waits a millisecond, then answers.
struct MetaCore final : Core {
  void step(Instant now, Event&& event, Effects& effects) override {
    if (auto* received = std::get_if<Received>(&event)) {
      asked = *received;
      effects.start(17, ListItems{0, 3});
    } else if (auto* done = std::get_if<JobDone>(&event)) {
      found.id = std::get<LookupBlocks>(asked.message).id;
      found.holders = std::get<ItemList>(done->result).items;
      found.holders.push_back(static_cast<NodeId>(done->job));
      effects.set_timer(1, now + Duration{1000});
    } else if (std::get<TimerFired>(event).timer == 1) {
      effects.send(asked.from, found);
      effects.count(Metric::requests_rank, 2);
    }
  }
  Received asked;
  BlocksFound found;
};

JobResult list_items(const Job& job, std::uint32_t slot) {
  ItemList list;
  for (std::uint32_t i = 0; i < std::get<ListItems>(job).count; ++i) list.items.push_back(slot + 5 + i);
  return list;
}

// Forwards requests from the client to `meta`, and answers from `meta` to the client.
FunctionCore::Step relay() {
  return [](Instant, const Event& event, Effects& effects) {
    auto* received = std::get_if<Received>(&event);
    if (received) effects.send(received->from == server ? meta : server, received->message);
  };
}

std::vector<std::uint64_t> ids_of(const std::vector<Received>& messages) {
  std::vector<std::uint64_t> ids;
  for (auto& received : messages) ids.push_back(std::get<StatusRequest>(received.message).id);
  return ids;
}

TEST_CASE_TEMPLATE("hosts: a request through two cores, a job and a timer has the same answer in every world",
                   World, CafWorld, CafBytesWorld, SimWorld) {
  FunctionPort catalog(list_items);
  World world;
  Host& host = world.host;
  host.add({router, core_of(relay())});
  host.add({meta, std::make_unique<MetaCore>(), &catalog});
  host.set_server(server, world.inbox.server());
  host.start();
  host.post(router, server, LookupBlocks{.id = 42, .user = "ada"});
  auto messages = world.await(1);
  REQUIRE(messages.size() == 1);
  CHECK(messages[0].from == router);
  CHECK(messages[0].message == Message(BlocksFound{.id = 42, .holders = {5, 6, 7, 17}}));
  host.stop();
  CHECK(world.metrics.value(Metric::requests_rank) == 2);
  CHECK(world.metrics.value(Metric::protocol_errors) == 0);
}

TEST_CASE_TEMPLATE("hosts: timers fire in time order, and one in the past fires immediately", World, CafWorld,
                   CafBytesWorld, SimWorld) {
  World world;
  world.host.add({router, core_of([latest = Instant{}, fired = std::uint64_t{0}](
                                      Instant now, const Event& event, Effects& effects) mutable {
                    const std::uint64_t timer = std::get<TimerFired>(event).timer;
                    if (timer == start_timer) {
                      latest = now + Duration{60'001};
                      effects.set_timer(3, latest);
                      effects.set_timer(2, now + Duration{60'000});
                      effects.set_timer(1, now + Duration{-5});
                      return;
                    }
                    fired = fired * 10 + timer;
                    if (timer == 3) effects.send(server, StatusRequest{now < latest ? 0 : fired});
                  })});
  world.host.set_server(server, world.inbox.server());
  world.host.start();
  CHECK(ids_of(world.await(1)) == std::vector<std::uint64_t>{123});
}

TEST_CASE_TEMPLATE("hosts: invalid envelopes and messages to unknown addresses are counted and dropped",
                   World, CafWorld, CafBytesWorld, SimWorld) {
  World world;
  const Address nobody{9, Role::kv_worker};
  world.host.add({router, core_of([&](Instant, const Event& event, Effects& effects) {
                    if (!std::holds_alternative<Received>(event)) return;
                    effects.send(nobody, StatusRequest{1});
                    effects.send(server, StatusRequest{2});
                  })});
  world.host.set_server(server, world.inbox.server());
  world.host.start();
  world.host.post_encoded(router, Bytes{1, 2, 3});
  world.host.post(nobody, server, StatusRequest{1});
  world.await(0);  // the simulation delivers the broken bytes first, whatever its seed
  world.host.post(router, server, StatusRequest{1});
  CHECK(ids_of(world.await(1)) == std::vector<std::uint64_t>{2});
  world.host.stop();
  CHECK(world.metrics.value(Metric::protocol_errors) == 3);
}

TEST_CASE_TEMPLATE("hosts: after stop() a post is dropped and a second stop() does nothing", World, CafWorld,
                   CafBytesWorld, SimWorld) {
  World world;
  int steps = 0;
  world.host.add({router, core_of([&](Instant, const Event&, Effects& effects) {
                    ++steps;
                    effects.send(server, StatusRequest{1});
                  })});
  world.host.set_server(server, world.inbox.server());
  world.host.start();
  CHECK(world.await(1).size() == 1);
  world.host.stop();
  world.host.post(router, server, StatusRequest{1});
  world.host.stop();
  CHECK(steps == 1);
}

}  // namespace host_contract_test
