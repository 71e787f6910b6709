#include "deploy/node/kv_worker_port.h"

#include <doctest/doctest.h>

#include <optional>
#include <utility>
#include <vector>

namespace troupe::deploy::kv_worker_port_test {

// Keeps the pulls that it is given.
struct KeepingTransport final : Transport {
  Bytes address() const override { return {}; }
  void meet(NodeId, Incarnation, Bytes) override {}
  void lose(NodeId, Incarnation) override {}
  std::variant<PullResult, Refusal> pull(const PullBlocks&) override { return PullResult{{1, 0}}; }
  bool start_pull(PullBlocks& work, const Done& done) override {
    if (work.parts > 1) return false;
    started.emplace_back(std::move(work), done);
    return true;
  }
  void stop() override {}
  std::vector<std::pair<PullBlocks, Done>> started;
};

struct NoStore final : Port {
  JobResult run(const Job&, std::uint32_t) override { return StoredList{}; }
};

TEST_CASE("KV worker port: the transport ends a pull that it starts, and others are run") {
  KeepingTransport transport;
  NoStore store;
  const PageArena arena(64, 1);
  KvWorkerPort port(&transport, store, arena);
  std::vector<JobResult> results;
  const auto finish = [&](JobResult result) { results.push_back(std::move(result)); };
  Job pull = PullBlocks{.node = 7};
  REQUIRE(port.begin(pull, finish));
  REQUIRE(transport.started.size() == 1);
  CHECK(transport.started[0].first.node == 7);
  CHECK(results.empty());
  transport.started[0].second(PullResult{{1}});
  transport.started[0].second(Refusal{RefusalKind::unavailable, "peer_lost", "", "", ""});
  REQUIRE(results.size() == 2);
  CHECK(std::get<PullResult>(results[0]).ok == std::vector<std::uint8_t>{1});
  CHECK(std::get<Refusal>(results[1]).code == "peer_lost");

  PullBlocks in_parts{.node = 8};
  in_parts.parts = 4;
  Job other = in_parts;
  CHECK_FALSE(port.begin(other, finish));
  CHECK(std::get<PullBlocks>(other).node == 8);
  CHECK(std::get<PullResult>(port.run(other, 0)).ok == std::vector<std::uint8_t>{1, 0});
  Job list = ListStored{};
  CHECK_FALSE(port.begin(list, finish));
  KvWorkerPort alone(nullptr, store, arena);
  CHECK_FALSE(alone.begin(other, finish));
  CHECK(std::get<Refusal>(alone.run(other, 0)).code == "no_transport");
}

}  // namespace troupe::deploy::kv_worker_port_test
