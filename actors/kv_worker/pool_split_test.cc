#include "actors/kv_worker/pool_split.h"

#include "actors/testing/kv_worker_parts.h"

namespace troupe::actors {
namespace pool_split_test {

using namespace kv_worker_test;

struct SplitBench : PartsBench {
  AreaSavings savings{2, 7};
  PoolSplit split{config, pool, savings};
};

TEST_CASE_FIXTURE(SplitBench,
                  "pool split: a newer split of this process is applied, and every sound one is answered") {
  split.on_split({1, 2, {{5, 0}, {2, 0}}}, effects);
  CHECK(pool.cap(PoolArea::item) == 5);
  split.on_split({1, 2, {{6, 0}, {1, 0}}}, effects);  // repeated
  split.on_split({9, 3, {{6, 0}, {1, 0}}}, effects);  // of another process
  CHECK(pool.cap(PoolArea::item) == 5);
  REQUIRE(sent<PoolReport>().size() == 3);
  CHECK(sent<PoolReport>()[2].epoch == 2);
  split.on_split({1, 4, {{6, 0}, {2, 0}}}, effects);  // more pages than there are
  CHECK(sent<PoolReport>().size() == 3);
  CHECK(pool.cap(PoolArea::item) == 5);
}

TEST_CASE_FIXTURE(SplitBench, "pool split: reports say how often blocks were wanted and what they saved") {
  BlockWant want = item(1);
  want.compute_us = 30;
  savings.use(0, want, 1, true, false);
  savings.use(0, want, 1, false, false);
  split.on_report_timer({0}, true, effects);
  const PoolReport report = sent<PoolReport>().at(0);
  CHECK(report.areas.at(0).hits == 1);
  CHECK(report.areas[0].misses == 1);
  CHECK(report.areas[0].saved_us == 30);
  CHECK(report.areas.at(1) == AreaReport{3, 0});
}

}  // namespace pool_split_test
}  // namespace troupe::actors
