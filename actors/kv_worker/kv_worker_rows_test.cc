// Tests the KV-cache worker's boundary between blocks and rows of embedding tables.
#include <cmath>
#include <cstring>

#include "actors/testing/kv_worker_test.h"
#include "placement/split/latency_counts.h"

namespace troupe::actors::kv_worker_test {
namespace {

// Four pages for items, three for users, two for rows.
struct RowBench : Bench {
  static KvWorkerConfig with_rows() {
    KvWorkerConfig config = small();
    config.pool = pool_sizes(9, 4, {4, 3, 2});
    config.rows = {.borrowers = {1}, .retry = {100}};
    return config;
  }
  RowBench() : Bench(with_rows()) {}
  LendPages lent() const {
    const auto said = probe.sent<LendPages>();
    return said.empty() ? LendPages{} : said[0];
  }
  void split(std::int64_t us, std::uint64_t epoch, std::vector<AreaSplit> areas) {
    probe.receive(us, allocator, SetSplit{1, epoch, std::move(areas)});
  }
  void answer(std::int64_t us, std::uint64_t number, std::vector<std::uint32_t> given_back = {}) {
    probe.receive(us, worker, PagesLent{1, number, std::move(given_back), 5, 6});
  }
};

TEST_CASE_FIXTURE(RowBench, "row area: rows get their pages at the start, and their hits are in the report") {
  probe.start();
  CHECK(lent().pages.size() == 2);
  CHECK(lent().incarnation == 1);
  answer(1, 1);
  const AreaReport rows = core.report().areas.at(2);
  CHECK(rows == AreaReport{2, 2, 5, 6});
  CHECK(core.pool().free_pages() == 7);
}

TEST_CASE_FIXTURE(RowBench, "row area: a growing row area evicts the oldest excess blocks and moves none") {
  probe.start();
  answer(1, 1);
  for (std::uint8_t n = 1; n <= 4; ++n) write(2, item(n));
  for (std::uint8_t n = 11; n <= 13; ++n) write(2, user(n));
  std::vector<std::uint32_t> places;
  for (std::uint8_t n = 2; n <= 4; ++n) places.push_back(core.pool().find(name(n))->pages.at(0));
  split(3, 1, {{3, 0}, {3, 0}, {3, 3}});
  CHECK(lent().pages.size() == 1);
  CHECK(core.pool().find(name(1)) == nullptr);
  for (std::uint8_t n = 2; n <= 4; ++n) CHECK(core.pool().find(name(n))->pages.at(0) == places[n - 2]);
  answer(4, 2);
  CHECK(probe.counted(Metric::boundary_bytes_copied) == 0);
  probe.receive(5, server, StatusRequest{1});
  const StatusReply status = probe.sent<StatusReply>().at(0);
  CHECK(field_of(status, "row_pages_used") == "3");
  CHECK(field_of(status, "row_hits") == "5");
  CHECK(field_of(status, "boundary_bytes_copied") == "0");
}

TEST_CASE_FIXTURE(RowBench, "row area: a shrinking row area waits for its pages") {
  probe.start();
  const std::vector<std::uint32_t> pages = lent().pages;
  answer(1, 1);
  for (std::uint8_t n = 1; n <= 4; ++n) write(2, item(n));
  for (std::uint8_t n = 11; n <= 13; ++n) write(2, user(n));
  split(3, 1, {{5, 0}, {3, 0}, {1, 1}});
  CHECK(lent().give_back == 1);
  CHECK(acquire(4, {item(5)}).at(0).grant == Grant::write);  // in the place of another item
  CHECK(core.pool().find(name(1)) == nullptr);
  answer(5, 2, {pages[0]});
  CHECK(core.pool().free_pages() == 1);
  CHECK(acquire(6, {item(6)}).at(0).grant == Grant::write);
  CHECK(core.pool().find(name(2)) != nullptr);
}

TEST_CASE_FIXTURE(
    RowBench, "row area: the report tells what each area saved, and would have saved with the whole pool") {
  probe.start();
  std::vector<double> savings(placement::split_cells + 1);
  for (std::size_t cell = 0; cell < savings.size(); ++cell) savings[cell] = static_cast<double>(cell);
  probe.receive(1, worker, PagesLent{1, 1, {}, 5, 6, 33, savings});
  const auto dear = [](std::uint8_t n) {
    BlockWant want = item(n);
    want.compute_us = 100;
    return want;
  };
  // The first is evicted: the area has four pages.
  for (std::uint8_t n = 1; n <= 5; ++n) write(2, dear(n));
  CHECK(acquire(3, {dear(5), dear(1)}).at(0).grant == Grant::read);
  const PoolReport report = core.report();
  CHECK(report.areas.at(0).saved_us == 100);
  CHECK(report.areas.at(0).savings.at(100) == 200);  // nine pages would have held both
  CHECK(report.areas.at(0).savings.at(12) == 100);   // one page holds only the last
  CHECK(report.areas.at(1).savings.empty());
  CHECK(report.areas.at(2).saved_us == 33);
  CHECK(report.areas.at(2).savings == savings);
}

TEST_CASE_FIXTURE(
    RowBench,
    "row area: uses elsewhere count as local ones, and a non-home user's blocks only by their savings") {
  probe.start();
  BlockWant dear = user(1);
  dear.compute_us = 100;
  const auto ask = [&](BlockWant want, Retention retention) {
    const auto us = static_cast<std::int64_t>(++last);
    const BlockName wanted = want.name;
    probe.receive(us, worker, AcquireBlocks{last, 100, {std::move(want)}, std::move(retention)});
    release(us, last, wanted.bytes[0], granted().at(0), Outcome::written);
  };
  ask(dear, {.remote_home = true});
  ask(dear, {.remote_home = true});
  AreaReport users = core.report().areas.at(1);
  CHECK(users.hits == 1);
  CHECK(users.saved_us == 100);
  CHECK(users.savings.at(100) == 0);
  ask(item(2), {.elsewhere = {{name(7), 8, 1, 40}}});
  ask(item(2), {.elsewhere = {{name(8), 4, 3, 10}, {name(7), 8, 1, 50}}});
  users = core.report().areas.at(1);
  CHECK(users.hits + users.misses == 2);  // no such request ran here
  CHECK(users.savings.at(100) == 2 * 10 + 50);
  CHECK(users.savings.at(12) == 2 * 10);       // one page of nine: the block used three times in a row
  CHECK(users.savings.at(34) == 2 * 10 + 50);  // three pages: the block of two pages, too
  probe.receive(50, server, StatusRequest{1});
  CHECK(field_of(probe.sent<StatusReply>().at(0), "uses_elsewhere") == "5");
}

TEST_CASE_FIXTURE(RowBench,
                  "row area: uses elsewhere are bounded per message, and huge or NaN numbers do no harm") {
  probe.start();
  Retention sent_changes;
  for (std::uint32_t i = 0; i < 400; ++i) {
    sent_changes.elsewhere.push_back({{}, UINT32_MAX, UINT32_MAX, i % 2 == 0 ? NAN : INFINITY});
    std::memcpy(sent_changes.elsewhere.back().name.bytes.data(), &i, sizeof i);
  }
  probe.receive(1, worker, AcquireBlocks{1, 100, {item(1)}, sent_changes});
  probe.receive(2, server, StatusRequest{1});
  CHECK(field_of(probe.sent<StatusReply>().at(0), "uses_elsewhere") == std::to_string(256ULL * UINT32_MAX));
  const std::vector<double> savings = core.report().areas.at(1).savings;
  CHECK(savings.at(100) == 0);  // larger than the pool
}

TEST_CASE_FIXTURE(RowBench, "row area: falling or too few savings are rejected") {
  probe.start();
  for (const std::vector<double>& wrong : {std::vector<double>{1, 2}, std::vector<double>(101, -1.0)}) {
    probe.receive(1, worker, PagesLent{1, 1, {}, 5, 6, 33, wrong});
    CHECK(probe.counted(Metric::protocol_errors) == 1);
  }
}

TEST_CASE_FIXTURE(RowBench, "row area: requests are counted by how long they held blocks, and by user") {
  probe.start();
  for (int i = 0; i < 5; ++i) {
    const auto grants = acquire(10'000 * i, {user(1)});
    release(10'000 * i + 3'000, last, 1, grants.at(0), i == 0 ? Outcome::written : Outcome::done);
  }
  const ServedReport served = core.report().served;
  CHECK(served.requests == 5);
  CHECK(served.hot_requests == 2);  // from the fourth on
  CHECK(served.user_tokens == 20);
  CHECK(served.latencies.at(placement::latency_step(3'000)) == 5);
}

TEST_CASE_FIXTURE(
    RowBench, "row area: pages never lent and answers of unknown senders are counted and change nothing") {
  probe.start();
  answer(1, 1, {8});
  CHECK(probe.counted(Metric::protocol_errors) == 1);
  probe.receive(2, far, PagesLent{1, 1, {}, 0, 0});
  CHECK(probe.counted(Metric::protocol_errors) == 1);
  CHECK(core.rows().lent() == 2);
}

TEST_CASE_FIXTURE(RowBench, "row area: the index gets no free tokens for the row area") {
  probe.start();
  CHECK(sent_changes().areas.at(2) == AreaCapacity{});
}

}  // namespace
}  // namespace troupe::actors::kv_worker_test
