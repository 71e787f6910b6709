// The inference worker and the pages that rows of embedding tables may fill.
#include <doctest/doctest.h>

#include "actors/inference/inference_bench.h"

namespace troupe::actors::inference_test {
namespace {

struct RowBench : Bench {
  static InferenceConfig with_rows() {
    InferenceConfig c = config(1);
    c.heartbeat = {100};
    c.refill_bytes = 1'000'000;  // a byte a microsecond
    return c;
  }
  RowBench() : Bench(with_rows()) {}
  void lend(std::int64_t us, std::uint64_t number, std::vector<std::uint32_t> pages, std::uint32_t give_back = 0) {
    probe.receive(us, kv, LendPages{1, number, std::move(pages), give_back});
  }
};

TEST_CASE_FIXTURE(RowBench, "pages go to the device, and what it gives back goes to the worker") {
  lend(1, 1, {4, 5}, 0);
  const auto job = probe.started<ChangeRowPages>().at(0);
  CHECK(job.second.pages == std::vector<std::uint32_t>{4, 5});
  probe.done(2, job.first, RowPages{{}, {.hits = 3, .misses = 4}});
  CHECK(probe.sent<PagesLent>().at(0) == PagesLent{1, 1, {}, 3, 4});
  CHECK(probe.recipients().at(0) == kv);
  CHECK(probe.counted(Metric::rows_missed) == 4);
  lend(3, 2, {}, 1);
  const auto next = probe.started<ChangeRowPages>().at(0);
  CHECK(next.second.give_back == 1);
  probe.done(4, next.first, RowPages{{5}, {.hits = 5, .misses = 4}, 70, {0, 1}});
  CHECK(probe.sent<PagesLent>().at(0) == PagesLent{1, 2, {5}, 5, 4, 70, {0, 1}});
  CHECK(probe.counted(Metric::rows_hit) == 2);
}

TEST_CASE_FIXTURE(RowBench, "what is told again is done once and answered again; what is late, or another process's, is not") {
  lend(1, 2, {4});
  const auto job = probe.started<ChangeRowPages>().at(0);
  lend(2, 2, {4});
  CHECK(probe.effects.list.empty());
  probe.done(3, job.first, RowPages{{}, {}});
  lend(4, 2, {4});
  CHECK(probe.started<ChangeRowPages>().empty());
  CHECK(probe.sent<PagesLent>().size() == 1);
  lend(5, 1, {9});
  CHECK(probe.effects.list.empty());
  probe.receive(6, kv, LendPages{7, 3, {9}, 0});
  CHECK(probe.effects.list.empty());
  probe.receive(7, router, LendPages{1, 3, {9}, 0});
  CHECK(probe.counted(Metric::protocol_errors) == 1);
}

TEST_CASE_FIXTURE(RowBench, "a device that keeps no rows gives its pages back") {
  lend(1, 1, {4, 5});
  probe.done(2, probe.started<ChangeRowPages>().at(0).first, Refusal{500, "wrong_job", "", "", ""});
  CHECK(probe.sent<PagesLent>().at(0).given_back == std::vector<std::uint32_t>{4, 5});
}

TEST_CASE_FIXTURE(RowBench, "pages with room are refilled as fast as is allowed, less what passes miss") {
  lend(1, 1, {4});
  probe.done(2, probe.started<ChangeRowPages>().at(0).first, RowPages{{}, {.bytes_missed = 30, .wants_refill = true}});
  probe.run_until(100);
  const auto refill = probe.started<RefillRows>();
  REQUIRE(refill.size() == 1);
  CHECK(refill[0].second.bytes == 70);
  probe.run_until(200);
  CHECK(probe.started<RefillRows>().empty());  // one at a time
  probe.done(201, refill[0].first, RowsRefilled{{.bytes_missed = 30, .bytes_refilled = 70, .wants_refill = false}});
  CHECK(probe.counted(Metric::row_bytes_refilled) == 70);
  probe.run_until(400);
  CHECK(probe.started<RefillRows>().empty());  // there is nothing left to bring
}

TEST_CASE_FIXTURE(RowBench, "routers hear which parts of the table are here, as far as there are any") {
  probe.run_until(100);
  CHECK(probe.sent<Heartbeat>().at(0).shard_rows == 0);
  CHECK(probe.sent<Heartbeat>().at(0).rows_found.empty());
  lend(101, 1, {4});
  RowPages changed;
  changed.rows.shards = {8, {50, 0, 100}, 70};
  probe.done(102, probe.started<ChangeRowPages>().at(0).first, std::move(changed));
  probe.run_until(200);
  const Heartbeat beat = probe.sent<Heartbeat>().at(0);
  CHECK(beat.us_per_row == 70);
  CHECK(beat.shard_rows == 8);
  CHECK(beat.rows_found == std::vector<std::uint8_t>{50, 0, 100});
}

TEST_CASE_FIXTURE(RowBench, "what lanes tell out of order is counted once") {
  plain(1, 10);
  const auto work = job();
  BatchDone done;
  done.replies.push_back(reply(1));
  done.rows = {.hits = 7, .misses = 2, .evicted = 1};
  probe.done(2, work.first, done);
  CHECK(probe.counted(Metric::rows_hit) == 7);
  CHECK(probe.counted(Metric::rows_evicted) == 1);
  plain(3, 11);
  done.rows = {.hits = 5, .misses = 3};
  probe.done(4, job().first, done);
  CHECK(probe.counted(Metric::rows_hit) == 0);
  CHECK(probe.counted(Metric::rows_missed) == 1);
}

}  // namespace
}  // namespace troupe::actors::inference_test
