// The KV-cache worker and the boundary between blocks and rows of embedding tables.
#include "actors/kv_worker/kv_worker_test.h"

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

TEST_CASE_FIXTURE(RowBench, "rows get their pages at the start, and their hits are in the report") {
  probe.start();
  CHECK(lent().pages.size() == 2);
  CHECK(lent().incarnation == 1);
  answer(1, 1);
  const AreaReport rows = core.report().areas.at(2);
  CHECK(rows == AreaReport{2, 2, 5, 6});
  CHECK(core.pool().free_pages() == 7);
}

TEST_CASE_FIXTURE(RowBench, "a boundary that moves towards rows takes the oldest blocks that are too many, and moves none") {
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
  probe.receive(5, door, StatusRequest{1});
  const StatusReply status = probe.sent<StatusReply>().at(0);
  CHECK(field_of(status, "row_pages_used") == "3");
  CHECK(field_of(status, "row_hits") == "5");
  CHECK(field_of(status, "boundary_bytes_copied") == "0");
}

TEST_CASE_FIXTURE(RowBench, "a boundary that moves away from rows waits for their pages") {
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

TEST_CASE_FIXTURE(RowBench, "pages that nobody was lent, and a stranger's answer, are counted and change nothing") {
  probe.start();
  answer(1, 1, {8});
  CHECK(probe.counted(Metric::protocol_errors) == 1);
  probe.receive(2, far, PagesLent{1, 1, {}, 0, 0});
  CHECK(probe.counted(Metric::protocol_errors) == 1);
  CHECK(core.rows().lent() == 2);
}

TEST_CASE_FIXTURE(RowBench, "other nodes and the index are told of no room for blocks among rows") {
  probe.start();
  CHECK(told().areas.at(2) == AreaRoom{});
}

}  // namespace
}  // namespace troupe::actors::kv_worker_test
