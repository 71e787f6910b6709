#include "placement/popularity/shard_hits.h"

#include <doctest/doctest.h>

namespace troupe::placement {
namespace shard_hits_test {

TEST_CASE("shard hits: each shard gives the percentage of its rows found, and 0 if none was wanted") {
  ShardHits hits;
  CHECK(hits.shard_rows() == 0);
  for (const bool found : {true, true, true, false}) hits.use(1, 3, found);
  hits.use(1, 90, false);
  CHECK(hits.shard_rows() == 1);
  CHECK(hits.found()[3] == 75);
  CHECK(hits.found()[90] == 0);
  CHECK(hits.found()[4] == 0);
}

TEST_CASE("shard hits: a higher row widens the shards, and counts stay with their rows") {
  ShardHits hits;
  for (const std::uint32_t row : {0U, 1U, 2U, 127U}) hits.use(1, row, true);
  for (const std::uint32_t row : {1U, 128U}) hits.use(1, row, false);
  CHECK(hits.shard_rows() == 2);
  CHECK(hits.found()[0] == 67);  // two of three
  CHECK(hits.found()[1] == 100);
  CHECK(hits.found()[63] == 100);
  CHECK(hits.found()[64] == 0);
  hits.use(1, UINT32_MAX, true);
  CHECK(hits.shard_rows() == 1U << 25);
  CHECK(hits.found()[127] == 100);
  CHECK(hits.found()[0] == 67);  // four of six
}

TEST_CASE("shard hits: recent rows dominate, and another table resets the counts") {
  ShardHits hits;
  for (int i = 0; i < 2'000; ++i) hits.use(1, 5, true);
  for (int i = 0; i < 2'000; ++i) hits.use(1, 5, false);
  CHECK(hits.found()[5] < 5);
  hits.use(2, 5, true);
  CHECK(hits.found()[5] == 100);
}

}  // namespace shard_hits_test
}  // namespace troupe::placement
