// The inference worker with pages for rows of embedding tables, and with tables that are spread
// over nodes' memory.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "actors/testing/inference_bench.h"
#include "runtime/actor/table_shard.h"

namespace troupe::actors::inference_test {
namespace {

struct RowBench : Bench {
  static InferenceConfig with_rows() {
    InferenceConfig c = config(1);
    c.heartbeat = {100};
    c.refill_bytes = 1'000'000;  // a byte per microsecond
    return c;
  }
  RowBench() : Bench(with_rows()) {}
  void lend(std::int64_t us, std::uint64_t number, std::vector<std::uint32_t> pages,
            std::uint32_t give_back = 0) {
    probe.receive(us, kv, LendPages{1, number, std::move(pages), give_back});
  }
};

TEST_CASE_FIXTURE(RowBench,
                  "inference rows: lent pages go to the device, and returned pages to the KV-cache worker") {
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

TEST_CASE_FIXTURE(
    RowBench,
    "inference rows: a repeated message is handled once and answered again; late or foreign ones are not") {
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

TEST_CASE_FIXTURE(RowBench, "inference rows: a device that keeps no rows returns its pages") {
  lend(1, 1, {4, 5});
  probe.done(2, probe.started<ChangeRowPages>().at(0).first,
             Refusal{RefusalKind::internal, "wrong_job", "", "", ""});
  CHECK(probe.sent<PagesLent>().at(0).given_back == std::vector<std::uint32_t>{4, 5});
}

TEST_CASE_FIXTURE(
    RowBench,
    "inference rows: pages with free slots are refilled at the allowed pace, less bytes that passes miss") {
  lend(1, 1, {4});
  probe.done(2, probe.started<ChangeRowPages>().at(0).first,
             RowPages{{}, {.bytes_missed = 30, .wants_refill = true}});
  probe.run_until(100);
  const auto refill = probe.started<RefillRows>();
  REQUIRE(refill.size() == 1);
  CHECK(refill[0].second.bytes == 70);
  probe.run_until(200);
  CHECK(probe.started<RefillRows>().empty());  // one at a time
  probe.done(201, refill[0].first,
             RowsRefilled{{.bytes_missed = 30, .bytes_refilled = 70, .wants_refill = false}});
  CHECK(probe.counted(Metric::row_bytes_refilled) == 70);
  probe.run_until(400);
  CHECK(probe.started<RefillRows>().empty());  // nothing is left to refill
}

TEST_CASE_FIXTURE(RowBench,
                  "inference rows: heartbeats tell which shards of the table are cached, if there are any") {
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

TEST_CASE_FIXTURE(RowBench, "inference rows: totals that slots report out of order are counted once") {
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

// ---- tables that are spread over nodes' memory ----

struct ShardBench : Bench {
  static InferenceConfig with_shards() {
    InferenceConfig c = config(1);
    c.shard_owners = {1, 2, 3};
    c.page_tokens = 16;
    return c;
  }
  ShardBench() : Bench(with_shards()) {}

  static std::vector<TableShard> shards(std::uint32_t count) {
    std::vector<TableShard> list;
    for (std::uint32_t i = 0; i < count; ++i) list.push_back({name(7), i});
    return list;
  }
  // Runs a plan whose batch ends because it misses these shards. Returns the request to the
  // KV-cache worker.
  AcquireBlocks miss(std::int64_t us, std::vector<TableShard> away) {
    plain(us, 1);
    BatchDone done;
    done.away = std::move(away);
    probe.done(us + 1, job().first, done);
    CHECK(probe.sent<Refused>().empty());
    CHECK(probe.sent<Executed>().empty());
    return probe.sent<AcquireBlocks>().at(0);
  }
  void end(std::int64_t us, std::vector<BlockOutcome> outcomes) {
    BatchDone done;
    done.replies.push_back(reply(1));
    done.shards = std::move(outcomes);
    probe.done(us, last_.first, done);
  }
  std::pair<std::uint64_t, RunBatch> again() { return last_ = job(); }

 private:
  std::pair<std::uint64_t, RunBatch> last_;
};

TEST_CASE_FIXTURE(ShardBench, "inference shards: missed shards are acquired at once, each from its owner") {
  const AcquireBlocks ask = miss(1, shards(60));
  CHECK(probe.recipients().at(0) == kv);
  REQUIRE(ask.wants.size() == 60);
  std::map<NodeId, int> at;
  for (const BlockWant& want : ask.wants) {
    CHECK(want.tokens == 16);
    ++at[want.at];
  }
  CHECK(ask.wants[3].name == block_of(shards(4)[3]));
  CHECK(at.size() == 3);  // here, which is 0, and on the two others
  CHECK(at.count(0) == 1);
  CHECK(at.count(1) == 0);
  CHECK(ask.may_evict);
  CHECK(core.check_bounds() == "");
}

TEST_CASE_FIXTURE(ShardBench,
                  "inference shards: with the grants the batch runs once more, misses nothing, and releases "
                  "with outcomes") {
  const AcquireBlocks ask = miss(1, shards(2));
  probe.receive(3, kv, acquired(ask.id, {{Grant::read, 5, 6, {7}}, {Grant::write, 8, 0, {9}}}));
  const auto run = again();
  CHECK_FALSE(run.second.asks_for_shards);
  REQUIRE(run.second.requests.size() == 1);
  CHECK(run.second.requests[0]->plan.segments.size() == 1);
  REQUIRE(run.second.shards.size() == 2);
  CHECK(run.second.shards[1].shard.shard == 1);
  CHECK(run.second.shards[1].grant.pages == std::vector<std::uint32_t>{9});
  // Even if they were read before.
  for (const GrantedShard& shard : run.second.shards) CHECK(shard.grant.check);
  // A duplicate: the grants are still held.
  probe.receive(4, kv, acquired(ask.id, {{Grant::read, 5, 6, {7}}, {Grant::write, 8, 0, {9}}}));
  CHECK(probe.effects.list.empty());
  const BlockOutcome written{block_of(shards(2)[1]), 8, Outcome::written, 77};
  end(5, {written});
  CHECK(probe.sent<Executed>().size() == 1);
  CHECK(probe.sent<ReleaseBlocks>().at(0) == ReleaseBlocks{ask.id, {written}});
  CHECK(core.tasks() == 0);
}

TEST_CASE_FIXTURE(
    ShardBench,
    "inference shards: without a valid answer of the KV-cache worker all rows come from the table") {
  const AcquireBlocks ask = miss(1, shards(2));
  probe.run_until(200);
  CHECK(probe.sent<ReleaseBlocks>().at(0).id == ask.id);
  CHECK(again().second.shards.empty());
  probe.receive(201, kv, acquired(ask.id, {{Grant::read, 5, 6, {7}}, {}}));  // too late
  CHECK(probe.sent<ReleaseBlocks>().at(0).id == ask.id);
  end(202, {});
  CHECK(probe.sent<Executed>().size() == 1);
  CHECK(probe.sent<ReleaseBlocks>().empty());

  ShardBench other;
  const AcquireBlocks second = other.miss(1, shards(2));
  other.probe.receive(3, kv, acquired(second.id, {{Grant::read, 5, 6, {7}}}));
  CHECK(other.probe.sent<ReleaseBlocks>().at(0).id == second.id);
  CHECK(other.again().second.shards.empty());
}

TEST_CASE_FIXTURE(ShardBench, "inference shards: a batch that fails releases its shards") {
  const AcquireBlocks ask = miss(1, shards(1));
  probe.receive(3, kv, acquired(ask.id, {{Grant::read, 5, 6, {7}}}));
  probe.done(4, again().first, Refusal{RefusalKind::unavailable, "device_failed", "", "", ""});
  CHECK(probe.sent<ReleaseBlocks>().at(0) == ReleaseBlocks{ask.id, {}});
  CHECK(probe.sent<Refused>().size() == 1);
}

TEST_CASE_FIXTURE(ShardBench,
                  "inference shards: a batch that waits for shards keeps its slot and can run again") {
  plain(1, 9);
  const auto first = job();
  plain(2, 1);
  plain(2, 2);
  run(3, first);
  const auto both = job();
  REQUIRE(both.second.requests.size() == 2);
  BatchDone done;
  done.away = shards(1);
  probe.done(4, both.first, done);
  const AcquireBlocks ask = probe.sent<AcquireBlocks>().at(0);
  plain(5, 3);
  CHECK(probe.started<RunBatch>().empty());
  probe.receive(6, kv, acquired(ask.id, {{}}));
  const auto once_more = again();
  REQUIRE(once_more.second.requests.size() == 2);
  for (const auto& request : once_more.second.requests)
    CHECK(request->plan.segments.at(0).tokens.size() == 4);
  run(7, once_more);
  CHECK(probe.sent<Executed>().size() == 2);
}

TEST_CASE("inference shards: own shards, and no others, are filled at the start, in free pages") {
  ShardBench bench;
  CoreProbe& probe = bench.probe;
  const auto list = probe.started<FillShards>().at(0);
  CHECK(list.second.shards.empty());
  probe.done(1, list.first, ShardsFilled{{{name(7), 300}}, {}});
  std::size_t all = 0;
  std::set<BlockName> seen;
  for (std::int64_t us = 2; !probe.sent<AcquireBlocks>().empty(); us += 2) {
    const AcquireBlocks ask = probe.sent<AcquireBlocks>().at(0);
    CHECK_FALSE(ask.may_evict);
    std::vector<BlockGrant> grants(ask.wants.size(), BlockGrant{Grant::read, 5, 6, {7}});
    grants[0] = {Grant::write, 8, 0, {9}};
    for (const BlockWant& want : ask.wants) {
      CHECK(want.at == 0);
      CHECK(seen.insert(want.name).second);
    }
    all += ask.wants.size();
    probe.receive(us, kv, acquired(ask.id, grants));
    const auto fill = probe.started<FillShards>().at(0);
    REQUIRE(fill.second.shards.size() == 1);
    CHECK(block_of(fill.second.shards[0].shard) == ask.wants[0].name);
    probe.receive(us, kv, acquired(ask.id, grants));  // duplicate
    CHECK(probe.effects.list.empty());
    const BlockOutcome written{ask.wants[0].name, 8, Outcome::written, 77};
    probe.done(us + 1, fill.first, ShardsFilled{{}, {written}});
    CHECK(probe.sent<ReleaseBlocks>().at(0) == ReleaseBlocks{ask.id, {written}});
  }
  CHECK(all > 300 / 5);
  CHECK(all < 300 / 2);
  probe.run_until(9'000'000);
  CHECK(probe.started<FillShards>().empty());
  probe.run_until(12'000'000);
  CHECK(probe.started<FillShards>().size() == 1);  // the next walk over all shards
}

TEST_CASE("inference shards: a walk whose request is lost goes on") {
  ShardBench bench;
  CoreProbe& probe = bench.probe;
  probe.done(1, probe.started<FillShards>().at(0).first, ShardsFilled{{{name(7), 3'000}}, {}});
  const AcquireBlocks first = probe.sent<AcquireBlocks>().at(0);
  CHECK(first.wants.size() == 128);
  probe.run_until(1'000'000);
  CHECK(probe.sent<ReleaseBlocks>().at(0).id == first.id);
  CHECK(probe.sent<AcquireBlocks>().at(0).wants.front().name != first.wants.front().name);
}

TEST_CASE("inference shards: without owners nothing is acquired") {
  Bench bench;
  CHECK(bench.probe.started<FillShards>().empty());
  bench.plain(1, 1);
  CHECK_FALSE(bench.job().second.asks_for_shards);
}

}  // namespace
}  // namespace troupe::actors::inference_test
