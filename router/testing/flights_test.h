#pragma once
// Bench for tests of the parts that handle flights: a table of flights with what it needs, and
// flights of requests that score items of a few tokens.
#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "router/flights/attempts.h"
#include "router/flights/flights.h"

namespace troupe::router {

struct FlightBench {
  explicit FlightBench(std::vector<NodeId> nodes = {1, 2}, TenantsConfig limits = {})
      : workers({.heartbeat = {1'000}, .pace = {.us_per_operation = 1}, .window = {0}, .window_passes = 0},
                std::move(nodes)),
        tenants(std::move(limits)) {}

  WorkerTable workers;
  Tenants tenants;
  WorkerQueues queues{{100}, workers, tenants};
  Outcomes outcomes{16};
  Flights flights{outcomes, tenants, workers, queues};
  std::uint64_t next_id = 100;
  Effects effects;

  static constexpr Address client{9, Role::server};
  Step at(std::int64_t us) { return {{us}, next_id, effects}; }

  // Returns a flight that scores one item; its work is as many operations as the item has tokens.
  Flight flight_of(std::uint32_t tokens = 4, const std::string& tenant = "t") {
    const PromptForm form;
    const BlockNames names(form, {"m", "layout"});
    Flight flight{.serial = next_id, .origin = {client, next_id, {0}, {1'000}}};
    ++next_id;
    flight.tenant = tenants.id_of(tenant);
    flight.pinned = {"m", "c"};
    ScoreRequest request{.id = flight.origin.id, .items = {{std::vector<Token>(tokens, 3)}}};
    request.label_tokens = {1, 2};
    flight.request = take_score(std::move(request), policy("bat"));
    for (Candidate& candidate : flight.request->candidates(form, names)) {
      PlanCost cost({}, candidate, 0);
      flight.plans.push_back({std::move(candidate), std::move(cost)});
    }
    flight.workers = workers.nodes();
    return flight;
  }
  // Makes the flight's only plan one with a block that an index may have, of an item or a user.
  // `holders`: the nodes that have it.
  static void hold_block(Flight& flight, SegmentKind kind, std::vector<NodeId> holders) {
    Candidate candidate = std::move(flight.plans.front().candidate);
    candidate.plan.segments.front().kind = kind;
    candidate.blocks.front() = {BlockName{}, "owner", 0};
    PlanCost cost({}, candidate, 0);
    flight.plans.clear();
    flight.plans.push_back({std::move(candidate), std::move(cost)});
    BlocksFound found{.id = flight.serial, .counts = {static_cast<std::uint8_t>(holders.size())}};
    found.holders = std::move(holders);
    found.uses = {0};
    flight.held = HeldBlocks::of(std::move(found), 1, 0.25);
  }
  Flight& add(std::uint32_t tokens = 4, const std::string& tenant = "t") {
    return flights.add(at(0), flight_of(tokens, tenant));
  }
  WorkerTable::Option option(const Flight& flight, NodeId node) const {
    return {.node = node, .work = flight.work_at(node, 0)};
  }
  // Sends the flight's plan to a worker, as far as the tables are concerned.
  void attempt(Flight& flight, NodeId node) {
    flight.attempts.push_back({workers.send({0}, option(flight, node)), {500}});
  }
  // Returns the messages of one kind since the last call, and forgets all effects.
  template <class T>
  std::vector<T> sent() {
    std::vector<T> found;
    for (auto& effect : std::exchange(effects, {}).list)
      if (auto* send = std::get_if<Effects::Send>(&effect))
        if (auto* message = std::get_if<T>(&send->message)) found.push_back(std::move(*message));
    return found;
  }
};

// Also has the attempts of router 7. `routers`: all routers of the cluster.
struct AttemptsBench : FlightBench {
  AttemptsBench(const std::vector<NodeId>& nodes, const std::vector<NodeId>& routers, Duration wait = {0})
      : FlightBench(nodes), members({nodes, routers}, {0}), worker_wait(wait) {}
  MemberWatch members;
  Duration worker_wait;
  PullCost pull_cost{0.25};
  VersionKeeper served{{.model_version = "m"}, false};
  LeaderView no_leader{{1}, {1'000}};
  Availability waits{{.worker_wait = worker_wait}, served, workers, no_leader};
  Attempts attempts{{.attempts_max = 2},
                    {Routing::By::earliest, workers, queues},
                    {{}, workers, tenants, pull_cost},
                    {{1'000}, tenants, queues, workers},
                    {members, 7},
                    waits,
                    workers,
                    queues,
                    flights};
};

}  // namespace troupe::router
