// Tests what a router's status counts, and which workers it lists first.
#include "router/testing/router_core_test.h"

namespace troupe::router {
namespace router_status_test {

StatusReply status_of(RouterBench& b, std::int64_t us) {
  b.probe.receive(us, server, StatusRequest{3});
  return b.probe.sent<StatusReply>().at(0);
}
std::string value_of(const StatusReply& reply, const std::string& name) {
  for (const auto& field : reply.fields)
    if (field.name == name) return field.value;
  return "(none)";
}

TEST_CASE("status: counts the requests in flight, and those that had their outcome") {
  RouterBench b;
  b.beat(0, 1, beat_of(5));
  b.send(0, 1);
  CHECK(value_of(status_of(b, 1), "requests_in_flight") == "1");
  b.execute(10, {1, 2});
  b.rank(20, 2);
  b.probe.done(20, b.job, Refusal{RefusalKind::not_found, "unknown_user"});
  const StatusReply reply = status_of(b, 30);
  CHECK(reply.id == 3);
  CHECK(reply.ready);
  CHECK(value_of(reply, "requests_in_flight") == "0");
  CHECK(value_of(reply, "requests_answered") == "1");
  CHECK(value_of(reply, "requests_refused") == "1");
  CHECK(value_of(reply, "plans_sent") == "1");
  CHECK(value_of(reply, "drained") == "(none)");
}

TEST_CASE("status: a write that fails degrades the router until one is stored") {
  RouterBench b;
  b.beat(0, 1, beat_of(5));
  const auto write = [&](std::int64_t us, RequestId id, const JobResult& result) {
    b.probe.receive(us, server, DeleteUser{id, "t", "ann"});
    b.probe.done(us, b.probe.started<Write>().back().first, result);
  };
  CHECK(value_of(status_of(b, 1), "degraded") == "(none)");
  write(2, 5, Refusal{RefusalKind::unavailable, "storage_failed", "the disk is full"});
  const StatusReply failing = status_of(b, 3);
  CHECK(failing.ready);
  CHECK(value_of(failing, "degraded") == "writes of profiles and items fail: storage_failed");
  write(4, 6, WriteResult{7});
  CHECK(value_of(status_of(b, 5), "degraded") == "(none)");
}

TEST_CASE("status: a coordination store that is away degrades a router that only reads the members there") {
  RouterConfig config = small_config();
  config.members_every = {1'000};
  RouterBench b(config);
  b.probe.start();
  const auto answer = [&](std::int64_t us, const JobResult& result) {
    b.probe.done(us, b.probe.started<Coordinate>().at(0).first, result);
    std::string logged;
    for (const auto& effect : b.probe.effects.list)
      if (const auto* log = std::get_if<Effects::Log>(&effect)) logged += log->event;
    return logged;
  };
  CHECK(answer(1, CoordinationReply{.ok = true}) == "");
  b.run_until(1'000);
  const Refusal away{RefusalKind::unavailable, "coordination_unavailable", "connection refused"};
  CHECK(answer(1'001, away) == "coordination_unavailable");
  CHECK(b.probe.counted(Metric::store_refuses) == 1);
  CHECK(value_of(status_of(b, 1'002), "degraded") ==
        "the cluster's members cannot be read: connection refused");
  b.run_until(2'000);
  CHECK(answer(2'001, CoordinationReply{.ok = true}) == "coordination_available");
  CHECK(value_of(status_of(b, 2'002), "degraded") == "(none)");
}

TEST_CASE("status: a silent worker degrades the router, and is logged") {
  RouterBench b(cluster_config({1, 2}));
  b.probe.start();
  for (const NodeId node : {1U, 2U}) b.beat(1, node, beat_of(5));
  double lost = 0;
  for (std::int64_t us = 1'000; us <= 6'000; us += 1'000) {
    b.beat(us, 1, beat_of(5));
    b.run_until(us);
    lost += b.probe.counted(Metric::workers_lost);
  }
  const StatusReply reply = status_of(b, 6'001);
  CHECK(reply.ready);
  CHECK(value_of(reply, "degraded") == "1 of 2 workers are lost: node 2");
  CHECK(lost == 1);
}

TEST_CASE("status: names the placement, and Algorithm 1's decision once there is one, which is logged") {
  RouterConfig config = cluster_config({1, 2});
  config.places = std::make_shared<const ItemAssignment>(config.workers);
  config.placement = "auto";
  config.precompute.blocks = ItemBlockKind::prefix;
  config.precompute.refresh = {.window = 32, .replication = {.on = true, .item_pages = 100}};
  config.costs.token_bytes = 10;
  RouterBench b(config);
  b.probe.start();
  for (const NodeId node : {1U, 2U}) b.beat(1, node, beat_of(5));
  StatusReply reply = status_of(b, 1);
  CHECK(value_of(reply, "placement") == "auto");
  CHECK(value_of(reply, "hot_share") == "0");
  CHECK(value_of(reply, "link_speed") == "(none)");
  for (RequestId id = 1; id <= 10; ++id) {
    b.send(2, id);
    b.execute_at(3, b.node);
  }
  b.run_until(1'000);
  int logged = 0;
  for (const auto& effect : b.probe.effects.list)
    if (const auto* log = std::get_if<Effects::Log>(&effect)) logged += log->event == "hot_items_decided";
  CHECK(logged == 1);
  // The user's 21 tokens take 21 us. In a tenth of that a link with 0.25 us per token brings 8.4 tokens; the
  // two items have 8, and one of two is on another worker.
  reply = status_of(b, 1'001);
  CHECK(value_of(reply, "hot_share") == "0.5");
  CHECK(value_of(reply, "remote_share_max") == "0.525");
  CHECK(value_of(reply, "link_bytes_per_s") == "40000000");
  CHECK(value_of(reply, "link_speed") == "assumed");
}

TEST_CASE("status: without item blocks the placement is none") {
  RouterConfig config = cluster_config({1, 2});
  config.placement = "auto";
  RouterBench b(config);
  b.probe.start();
  const StatusReply reply = status_of(b, 1);
  CHECK(value_of(reply, "placement") == "none");
  CHECK(value_of(reply, "hot_share") == "(none)");
}

TEST_CASE("status: workers with a problem come first") {
  RouterBench b(cluster_config({1, 2, 3}));
  for (const NodeId node : {1U, 2U, 3U}) b.beat(0, node, beat_of(5));
  b.lose(1, 3);
  const StatusReply reply = status_of(b, 2);
  CHECK(value_of(reply, "worker").starts_with("3: lost"));
}

}  // namespace router_status_test
}  // namespace troupe::router
