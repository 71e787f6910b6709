#include "sim/ports/sim_shards.h"

#include <doctest/doctest.h>

#include "runtime/actor/table_shard.h"
#include "runtime/testing/batch_of.h"
#include "sim/ports/compute_port.h"
#include "sim/testing/evaluate.h"

namespace troupe::sim::sim_shards_test {  // keeps names apart from the other fixtures of this executable
namespace {

constexpr std::uint32_t page_rows = 4, table_rows = 10;

struct Bench {
  Pages pages{8, 4};
  std::vector<int> promises;
  SimShards shards{pages, page_rows, table_rows,
                   [this](int promise, const TableShard&, std::string_view) { promises.push_back(promise); }};

  SimShards::HeldShards granted(const TableShard& shard, BlockGrant grant) {
    RunBatch batch;
    batch.shards = {{shard, std::move(grant)}};
    return SimShards::granted(batch);
  }
  // Fills a shard and returns its checksum.
  std::uint64_t fill(const std::string& model, std::uint32_t row, std::uint32_t page) {
    SimShards::HeldShards granted = this->granted(shards.shard_of(model, row), {Grant::write, 5, 0, {page}});
    shards.read(model, row, granted);
    return shards.end(granted).at(0).checksum;
  }
  RowTotals totals() const {
    RowTotals totals;
    shards.add_to(totals);
    return totals;
  }
};

TEST_CASE_FIXTURE(Bench, "sim shards: rows are right and counted, whatever their source") {
  const TableShard shard = shards.shard_of("a", 6);
  CHECK(shard.shard == 1);
  CHECK(shards.shard_of("b", 6).table != shard.table);
  SimShards::HeldShards none;
  CHECK(shards.read("a", 6, none).wrong == 0);
  CHECK(totals().from_table == 1);

  SimShards::HeldShards write = granted(shard, {Grant::write, 5, 0, {3}});
  for (const std::uint32_t row : {4, 7}) CHECK(shards.read("a", row, write).wrong == 0);
  CHECK(shards.read("a", 8, write).wrong == 0);  // a row of the next shard
  CHECK(totals().from_table == 4);
  const std::vector<BlockOutcome> written = shards.end(write);
  REQUIRE(written.size() == 1);
  CHECK(written[0] ==
        BlockOutcome{block_of(shard), 5, Outcome::written, pages.checksum(std::vector<std::uint32_t>{3})});

  for (const bool pulled : {false, true}) {
    SimShards::HeldShards read =
        granted(shard, {Grant::read, 5, written[0].checksum, {3}, true, false, pulled});
    CHECK(shards.read("a", 5, read).wrong == 0);
    CHECK(shards.end(read) == std::vector{BlockOutcome{block_of(shard), 5, Outcome::done}});
  }
  CHECK(totals().from_here == 1);
  CHECK(totals().from_nodes == 1);
  CHECK(promises.empty());
}

TEST_CASE_FIXTURE(Bench,
                  "sim shards: a flipped shard fails its checksum and the table provides the rows; unchecked "
                  "rows are wrong") {
  const std::uint64_t sum = fill("a", 0, 3);
  pages.strike(3, 7);
  const TableShard shard = shards.shard_of("a", 0);
  SimShards::HeldShards checked = granted(shard, {Grant::read, 5, sum, {3}, true});
  CHECK(shards.read("a", 0, checked).wrong == 0);
  CHECK(shards.read("a", 1, checked).wrong == 0);
  CHECK(shards.end(checked) == std::vector{BlockOutcome{block_of(shard), 5, Outcome::corrupt}});
  CHECK(totals().from_table == 3);

  SimShards::HeldShards trusted = granted(shard, {Grant::read, 5, sum, {3}});
  const RowSource one = shards.read("a", 0, trusted), other = shards.read("a", 1, trusted);
  CHECK(one.wrong != 0);
  CHECK(one.wrong != other.wrong);
  CHECK(one.struck);
  CHECK(shards.end(trusted).empty());
  CHECK(promises.empty());
}

TEST_CASE_FIXTURE(Bench,
                  "sim shards: a wrong shard, one of another model, and one pulled too late are reported") {
  const auto read = [&](const std::string& model, std::uint32_t row) {
    SimShards::HeldShards granted = this->granted(shards.shard_of(model, row), {Grant::read, 5, 0, {3}});
    const bool wrong = shards.read(model, row, granted).wrong != 0;
    return std::pair(wrong, std::exchange(promises, {}));
  };
  fill("a", 0, 3);
  CHECK(read("a", 0) == std::pair(false, std::vector<int>{}));
  CHECK(read("a", 4) == std::pair(true, std::vector{2}));
  CHECK(read("b", 0) == std::pair(true, std::vector{4}));
  pages.copy(3, pages.at(3), true);
  CHECK(read("a", 0) == std::pair(false, std::vector{3}));
}

TEST_CASE_FIXTURE(
    Bench, "sim shards: a page overwritten while its shard is held is reported, for writers and readers") {
  for (const Grant grant : {Grant::write, Grant::read}) {
    const std::uint64_t sum = fill("a", 0, 3);
    SimShards::HeldShards granted = this->granted(shards.shard_of("a", 0), {grant, 5, sum, {3}});
    shards.read("a", 0, granted);
    pages.write(3, {}, {});
    shards.end(granted);
    CHECK(std::exchange(promises, {}) == std::vector{3});
  }
  SimShards::HeldShards unused = granted(shards.shard_of("a", 0), {Grant::read, 5, 0, {3}});
  pages.write(3, {}, {});
  CHECK(shards.end(unused).empty());
  CHECK(promises.empty());
}

TEST_CASE_FIXTURE(Bench, "sim shards: fill lists tables by name with all shards and fills the granted ones") {
  const std::vector<std::string> models{"a", "b"};
  const ShardsFilled listed = shards.fill({}, models);
  REQUIRE(listed.tables.size() == 2);
  CHECK(listed.tables[0].name < listed.tables[1].name);
  for (const ShardsFilled::Table& table : listed.tables) CHECK(table.shards == 3);
  const TableShard last = shards.shard_of("b", 9);
  const ShardsFilled filled = shards.fill({{{last, {Grant::write, 5, 0, {2}}},
                                            {last, {Grant::read, 6, 0, {3}}},
                                            {shards.shard_of("c", 0), {Grant::write, 7, 0, {4}}}}},
                                          models);
  REQUIRE(filled.outcomes.size() == 1);
  CHECK(filled.outcomes[0].name == block_of(last));
  SimShards::HeldShards read = granted(last, {Grant::read, 5, filled.outcomes[0].checksum, {2}, true});
  CHECK(shards.read("b", 9, read).wrong == 0);
  CHECK(totals().from_here == 1);
}

// ---- on a device ----

struct Device {
  Instant now;
  Pages pages{32, 4};
  DeviceFaults faults;
  std::set<std::uint64_t> poisons;
  Violations violations;
  SimComputePort port{options(), pages, faults, poisons, violations};

  ComputeOptions options() {
    ComputeOptions options{
        .node = 3, .model_version = "m1", .page_rows = page_rows, .shard_rows = table_rows};
    options.batch_time = [](const placement::Pass&, std::uint64_t) { return Duration{100}; };
    options.now = [this] { return now; };
    return options;
  }
  BatchDone run(const RunBatch& batch) {
    const auto takes = port.begin(now, batch, 0);
    now = now + *takes;
    return std::get<BatchDone>(port.run(batch, 0));
  }
};

BatchRequest request(Grant grant) {
  BatchRequest request;
  request.plan.segments = {{SegmentKind::user, {1, 2, 6}, 0, {}}, {SegmentKind::discriminant, {9}, 3, {0}}};
  request.blocks.resize(2);
  request.plan.readouts = {{1, 0, {1, 2}}};
  request.kv.resize(2);
  if (grant == Grant::write) request.kv[0] = {grant, 0, {4}};
  return request;
}
RunBatch asking(Grant grant) {
  RunBatch batch = batch_of({request(grant)});
  batch.asks_for_shards = true;
  return batch;
}

TEST_CASE_FIXTURE(
    Device,
    "sim shards: a batch that misses rows ends with the shards it wants, each once, without computing") {
  const RunBatch asks = asking(Grant::write);
  const BatchDone away = run(asks);
  CHECK(now == Instant{20});
  REQUIRE(away.away.size() == 3);  // of rows 1 and 2, of row 6, and of row 9
  CHECK(std::ranges::is_sorted(away.away));
  CHECK(away.replies.empty());
  CHECK(pages.at(4) == Page{});
  CHECK(away.rows.misses == 0);

  RunBatch granted = batch_of({request(Grant::write)});
  for (std::uint32_t i = 0; i < 3; ++i)
    granted.shards.push_back({away.away[i], {Grant::write, 5 + i, 0, {10 + i}}});
  const BatchDone done = run(granted);
  CHECK(done.away.empty());
  CHECK(done.shards.size() == 3);
  CHECK(done.replies.at(0).readouts == evaluate("m1", granted.requests[0]->plan));
  CHECK(done.rows.from_table == 4);

  RunBatch bad = granted;  // nothing is granted: all rows come from the table
  for (GrantedShard& shard : bad.shards) shard.grant = {};
  CHECK(run(bad).replies.at(0).readouts == done.replies[0].readouts);
  CHECK(violations.count() == 0);
}

TEST_CASE_FIXTURE(Device,
                  "sim shards: rows in the pool need no shard; rows of a wrong shard change the "
                  "answer, also from the pool") {
  port.run(ChangeRowPages{{20, 21, 22}, 0}, 1);
  RunBatch batch = asking(Grant::none);
  const BatchDone away = run(batch);
  batch.asks_for_shards = false;
  for (std::uint32_t i = 0; i < 3; ++i)
    batch.shards.push_back({away.away.at(i), {Grant::write, 5 + i, 0, {10 + i}}});
  const BatchDone done = run(batch);
  const RunBatch again = asking(Grant::none);
  CHECK(run(again).away.empty());
  CHECK(run(again).replies.at(0).readouts == done.replies.at(0).readouts);

  Device other;
  other.port.run(ChangeRowPages{{20, 21, 22}, 0}, 1);
  for (std::uint32_t i = 0; i < 3; ++i) {
    other.pages.copy(10 + i, pages.at(10 + i));
    other.pages.strike(10 + i, 5);
    batch.shards[i].grant.grant = Grant::read;
  }
  const auto wrong = other.run(batch).replies.at(0).readouts;
  CHECK(wrong != done.replies[0].readouts);
  CHECK(other.run(again).replies.at(0).readouts == wrong);
}

TEST_CASE_FIXTURE(Device,
                  "sim shards: filling takes the time to read the shards; dropping a model under a waiting "
                  "batch is reported") {
  const FillShards fill{{{{}, {}}, {{}, {}}}};
  CHECK(port.begin(now, fill, 1) == Duration{40});
  CHECK(std::get<ShardsFilled>(port.run(fill, 1)).tables.size() == 1);
  port.begin(now, asking(Grant::none), 0);
  port.run(DropModel{"m1"}, 1);
  CHECK(violations.count() == 1);
}

}  // namespace
}  // namespace troupe::sim::sim_shards_test
