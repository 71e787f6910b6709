#include "router/early_requests.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace early_requests_test {

struct Bench {
  WorkerTable workers{{.heartbeat = {1'000}}, {1}};
  LeaderView leader{{1}, {1'000}};
  VersionKeeper versions{{.model_version = "m"}, true};
  Availability availability{{.worker_wait = {6'000}}, versions, workers, leader};
  EarlyRequests early{2, {{1'000}, {5'000}}, availability};

  bool keep(std::int64_t us, RequestId id, std::int64_t budget = 0) {
    Received received{{1, Role::server}, RankRequest{.id = id, .budget_us = budget}};
    return early.keep({us}, received);
  }
  // Returns the id and the budget of the request that is due, or zeros.
  std::pair<RequestId, std::int64_t> take(std::int64_t us) {
    const auto received = early.take({us});
    if (!received) return {0, 0};
    const auto& request = std::get<RankRequest>(received->message);
    return {request.id, request.budget_us};
  }
  void know() { versions.hear({0}, {.epoch = 1, .model_version = "m"}, workers); }
};

TEST_CASE("early requests: as many as fit are kept until half of the usual budget has passed") {
  Bench b;
  CHECK(b.keep(0, 1));
  CHECK(b.keep(100, 2));
  CHECK_FALSE(b.keep(100, 3));
  CHECK(b.take(499).first == 0);
  CHECK(b.take(500) == std::pair<RequestId, std::int64_t>{1, 500});
  CHECK(b.take(500).first == 0);
  CHECK(b.early.size() == 1);
}

TEST_CASE("early requests: once the versions are known, all that were kept are due, oldest first") {
  Bench b;
  CHECK(b.keep(0, 1));
  CHECK(b.keep(100, 2));
  b.know();
  CHECK_FALSE(b.keep(200, 3));
  CHECK(b.take(200) == std::pair<RequestId, std::int64_t>{1, 800});
  CHECK(b.take(200) == std::pair<RequestId, std::int64_t>{2, 900});
  CHECK(b.take(200).first == 0);
}

TEST_CASE("early requests: those that arrive while no worker is usable for a moment are kept until one is") {
  Bench b;
  b.know();
  CHECK_FALSE(b.keep(0, 1));
  b.workers.lose(1);
  CHECK(b.keep(10, 1));
  CHECK(b.keep(20, 2, 100));
  CHECK(b.take(69).first == 0);
  CHECK(b.take(70) == std::pair<RequestId, std::int64_t>{2, 50});  // half of its own budget
  Heartbeat beat{.incarnation = 5, .sequence = 1};
  beat.models = {"m"};
  b.workers.hear({80}, 1, beat);
  CHECK(b.take(80) == std::pair<RequestId, std::int64_t>{1, 930});
  CHECK_FALSE(b.keep(90, 3));
  b.workers.lose(1);
  CHECK_FALSE(b.keep(6'000, 4));  // the absence lasts
}

TEST_CASE("early requests: the request of a client that has gone is dropped") {
  Bench b;
  CHECK(b.keep(0, 1));
  CHECK(b.keep(0, 2));
  CHECK_FALSE(b.early.cancel({2, Role::server}, 1));
  CHECK(b.early.cancel({1, Role::server}, 1));
  CHECK_FALSE(b.early.cancel({1, Role::server}, 1));
  b.know();
  CHECK(b.take(200).first == 2);
}

TEST_CASE("early requests: once the router drains nothing is kept, and what was kept is due") {
  Bench b;
  CHECK(b.keep(0, 1, 20'000));
  Effects effects;
  std::uint64_t next_id = 1;
  b.availability.drain({{0}, next_id, effects}, true);
  CHECK_FALSE(b.keep(10, 2));
  CHECK(b.take(10) == std::pair<RequestId, std::int64_t>{1, 4'990});
}

}  // namespace early_requests_test
}  // namespace troupe::router
