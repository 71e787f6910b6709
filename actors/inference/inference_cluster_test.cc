// The worker in the cluster: heartbeats, versions, admission and drain.
#include <doctest/doctest.h>

#include "actors/testing/inference_bench.h"

namespace troupe::actors {
namespace {

using namespace inference_test;

using Names = std::vector<std::string>;

Bench beating(std::uint32_t slots = 1) {
  InferenceConfig config = Bench::config(slots);
  config.heartbeat = {100};
  config.routers = {1, 7};
  config.incarnation = 40;
  return Bench(config);
}

TEST_CASE(
    "inference cluster: every router gets a heartbeat at start and then on time, however often a timer "
    "fires") {
  Bench b = beating();
  CHECK(b.probe.recipients() == std::vector<Address>{{1, Role::router}, {7, Role::router}});
  CHECK(b.probe.sent<Heartbeat>().at(0).incarnation == 40);
  CHECK(b.probe.sent<Heartbeat>().at(0).models == Names{"m1"});
  b.probe.run_until(99);
  CHECK(b.probe.sent<Heartbeat>().empty());
  b.probe.start(50);
  CHECK(b.probe.effects.list.empty());
  b.probe.run_until(500);
  CHECK(b.probe.sent<Heartbeat>().size() == 10);
}

TEST_CASE("inference cluster: a router that sends Versions gets heartbeats at once, until it is lost") {
  Bench b = beating();
  b.probe.receive(10, {9, Role::router}, Versions{0, "m1", "catalog", ""});
  CHECK(b.probe.recipients() ==
        std::vector<Address>{{1, Role::router}, {7, Role::router}, {9, Role::router}});
  CHECK(b.probe.sent<Heartbeat>().size() == 3);
  b.probe.receive(11, {9, Role::router}, Versions{0, "m1", "catalog", ""});
  CHECK(b.probe.sent<Heartbeat>().empty());
  b.probe.run_until(100);
  CHECK(b.probe.sent<Heartbeat>().size() == 3);
  b.probe.lose(110, 9);
  b.probe.lose(110, 7);
  b.probe.run_until(200);
  // Router 7 is named in the cluster's file and comes back.
  CHECK(b.probe.recipients() == std::vector<Address>{{1, Role::router}, {7, Role::router}});
}

TEST_CASE("inference cluster: a heartbeat reports waiting work and pace, also while the device hangs") {
  Bench b = beating(2);
  b.plain(0, 1, 5);
  const auto first = b.job();
  b.plain(0, 2, 5);
  b.execute(0, 3, {block(1, 6), segment(2)});
  const auto id = b.probe.sent<AcquireBlocks>().at(0).id;
  b.probe.run_until(100);
  Heartbeat beat = b.probe.sent<Heartbeat>().at(0);
  CHECK(beat.slots == 2);
  CHECK(beat.slots_busy == 2);
  CHECK(beat.plans_waiting == 1);
  CHECK(beat.operations_waiting == 8);  // all tokens, until the grants are known
  CHECK(beat.us_per_operation == 0);
  b.probe.receive(110, kv, acquired(id, {{Grant::read, 3, 0, {1}}}));
  b.probe.run_until(200);
  CHECK(b.probe.sent<Heartbeat>().at(0).operations_waiting == 2);
  b.run(250, first);
  b.probe.run_until(300);
  beat = b.probe.sent<Heartbeat>().at(0);
  CHECK(beat.us_per_operation == 50);
  CHECK(beat.plans_executed == 1);
  CHECK(beat.operations_waiting == 0);
  CHECK(beat.slots_busy == 2);
}

TEST_CASE("inference cluster: later batches count more for the pace than earlier ones") {
  Bench b = beating();
  double last = 0;
  for (RequestId id = 1; id <= 60; ++id) {
    const std::int64_t us = 1'000 * static_cast<std::int64_t>(id);
    b.probe.run_until(us - 1);
    last = b.probe.sent<Heartbeat>().back().us_per_operation;
    b.plain(us, id, 10);
    b.run(us + (id <= 30 ? 100 : 500), b.job());
  }
  CHECK(last > 45);
  CHECK(last < 50);
}

TEST_CASE("inference cluster: a plan that cannot finish in time is refused at once, unless no plan waits") {
  Bench b;
  b.plain(0, 1, 10);
  b.run(1'000, b.job());  // 100 us per token
  b.plain(1'000, 2, 10);  // shows how fast the device is now
  b.plain(1'000, 3, 2);
  b.plain(1'000, 4, 3);  // half of 10, and 2 + 3 tokens, are just in time
  CHECK(b.probe.sent<Refused>().empty());
  b.plain(1'000, 5, 1);
  CHECK(b.probe.sent<Refused>().at(0).refusal.code == "overloaded");
  CHECK(b.probe.sent<Refused>().at(0).refusal.kind == RefusalKind::unavailable);
}

TEST_CASE("inference cluster: slots share the waiting work, and a new plan's blocks count as reused") {
  Bench b(2);
  b.plain(0, 1, 10);
  b.run(1'000, b.job());
  for (const RequestId id : {2, 3}) b.plain(1'000, id, 8);
  b.plain(1'000, 4, 4);
  // Half of 16, and 4, on two slots, and its own 4.
  b.execute(1'000, 5, {block(1, 50), segment(4)});
  CHECK(b.probe.sent<Refused>().empty());
  b.execute(1'000, 6, {segment(7)});
  CHECK(b.probe.sent<Refused>().size() == 1);
}

TEST_CASE("inference cluster: plans run on the model to which they are pinned, or not at all") {
  Bench b;
  b.plain_on(0, 1, "m2");
  const Refused refused = b.probe.sent<Refused>().at(0);
  CHECK(refused.refusal.kind == RefusalKind::unavailable);
  CHECK(refused.refusal.code == "wrong_model");
  b.plain_on(1, 2, "m1");
  CHECK(b.job().second.requests.at(0)->model_version == "m1");
  b.run(2, b.job());
  CHECK(b.probe.sent<Executed>().at(0).model_version == "m1");
  b.plain(3, 3);
  CHECK(b.job().second.requests.at(0)->model_version == "m1");
}

TEST_CASE("inference cluster: the next model is loaded and reported, and a batch has plans of one model") {
  Bench b;
  b.follow(0, 5, "m1", "m2");
  const auto load = b.probe.started<LoadModel>().at(0);
  CHECK(load.second.model_version == "m2");
  b.follow(1, 5, "m1", "m2");
  CHECK(b.probe.effects.list.empty());
  b.probe.done(2, load.first, ModelChanged{});
  b.plain_on(3, 1, "m2");
  const auto first = b.job();
  b.plain_on(4, 2, "m1");
  b.plain_on(4, 3, "m2");
  b.plain_on(4, 4, "m1");
  b.run(5, first);
  const auto second = b.job();
  REQUIRE(second.second.requests.size() == 2);
  CHECK(second.second.requests[0]->model_version == "m1");
  CHECK(second.second.requests[1]->model_version == "m1");
  b.run(6, second);
  CHECK(b.job().second.requests.at(0)->model_version == "m2");
  b.probe.run_until(1'000'000);
  CHECK(b.probe.sent<Heartbeat>().at(0).models == Names{"m1", "m2"});
  CHECK(b.probe.sent<Heartbeat>().at(0).versions_epoch == 5);
}

TEST_CASE("inference cluster: a failed load is retried at growing intervals and logged once") {
  Bench b = beating();
  b.follow(0, 5, "m1", "m2");
  std::size_t logs = 0;
  std::int64_t now = 0;
  for (const std::int64_t pause : {100, 200, 400}) {
    b.probe.done(now, b.probe.started<LoadModel>().at(0).first,
                 Refusal{RefusalKind::unprocessable, "bad_model", "no file", "", ""});
    for (const auto& effect : b.probe.effects.list) logs += std::holds_alternative<Effects::Log>(effect);
    b.probe.run_until(now + pause - 1);
    CHECK(b.probe.started<LoadModel>().empty());
    b.probe.run_until(now += pause);
    CHECK(b.probe.started<LoadModel>().size() == 1);
  }
  CHECK(logs == 1);
  b.probe.run_until(2'000);
  const Heartbeat beat = b.probe.sent<Heartbeat>().at(0);
  CHECK(beat.refused_model == "m2");
  CHECK(beat.refused_why == "no file");
}

TEST_CASE("inference cluster: an old model takes plans for a while and is dropped after its last plan") {
  Bench b = beating();
  b.follow(0, 5, "m2");
  CHECK(b.probe.sent<Refused>().empty());
  b.probe.done(1, b.probe.started<LoadModel>().at(0).first, ModelChanged{});
  b.plain_on(4'999, 1, "m1");
  const auto last = b.job();
  b.plain_on(5'001, 2, "m1");
  CHECK(b.probe.sent<Refused>().at(0).refusal.code == "wrong_model");
  b.probe.run_until(6'000);
  CHECK(b.probe.started<DropModel>().empty());
  b.run(6'001, last);
  CHECK(b.probe.sent<Executed>().at(0).model_version == "m1");
  CHECK(b.probe.started<DropModel>().at(0).second.model_version == "m1");
  b.probe.done(6'002, b.probe.started<DropModel>().at(0).first, ModelChanged{});
  CHECK(b.core.check_bounds() == "");
}

TEST_CASE("inference cluster: versions are accepted from routers only") {
  Bench b;
  b.probe.receive(0, kv, Versions{9, "m9", "", ""});
  CHECK(b.probe.started<LoadModel>().empty());
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
}

TEST_CASE("inference cluster: grants are accepted from the node's own KV-cache worker only") {
  Bench b;
  b.execute(0, 7, {block(1), segment(2)});
  const auto id = b.probe.sent<AcquireBlocks>().at(0).id;
  for (const Address other : {router, server, Address{kv.node + 1, Role::kv_worker}}) {
    b.probe.receive(10, other, acquired(id, {{Grant::read, 3, 0, {1}}}));
    CHECK(b.probe.counted(Metric::protocol_errors) == 1);
    CHECK(b.probe.started<RunBatch>().empty());
  }
  b.probe.receive(20, kv, acquired(id, {{Grant::read, 3, 0, {1}}}));
  CHECK(b.probe.started<RunBatch>().size() == 1);
}

TEST_CASE(
    "inference cluster: a draining worker refuses new plans, ends those it has, and then reports drained") {
  Bench b;
  b.plain(0, 1);
  const auto first = b.job();
  b.plain(0, 2);
  b.probe.receive(1, server, Drain{11, true});
  CHECK(b.probe.sent<Heartbeat>().at(0).draining);
  CHECK(field_of(b.probe.sent<StatusReply>().at(0), "drained") == "no");
  CHECK_FALSE(b.probe.sent<StatusReply>().at(0).ready);
  b.plain(2, 3);
  CHECK(b.probe.sent<Refused>().at(0).refusal.code == "draining");
  CHECK(b.probe.sent<Refused>().at(0).refusal.kind == RefusalKind::unavailable);
  b.plain(2, 2);
  CHECK(b.probe.effects.list.empty());
  b.run(3, first);
  b.run(4, b.job());
  CHECK(b.probe.sent<Executed>().at(0).id == 2);
  b.probe.receive(5, server, Drain{12, true});
  CHECK(b.probe.sent<Heartbeat>().empty());
  CHECK(field_of(b.probe.sent<StatusReply>().at(0), "drained") == "yes");
  b.probe.receive(6, server, Drain{13, false});
  CHECK_FALSE(b.probe.sent<Heartbeat>().at(0).draining);
  CHECK(b.probe.sent<StatusReply>().at(0).ready);
  b.plain(7, 4);
  CHECK(b.probe.started<RunBatch>().size() == 1);
}

}  // namespace
}  // namespace troupe::actors
