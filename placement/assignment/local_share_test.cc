#include "placement/assignment/local_share.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "placement/assignment/hrcs.h"

namespace troupe::placement {
namespace {

TEST_CASE("expected shares: accesses are weighted by where their items are placed") {
  const auto accesses = AccessDistribution::from_counts(std::vector<std::uint64_t>{4, 3, 2, 1});
  Placement placement({1, 2}, 4);
  placement.put(0, everywhere);
  placement.put(1, 0);
  placement.put(2, 1);
  const ExpectedShares shares = expected_shares(placement, accesses);
  CHECK(shares.everywhere == doctest::Approx(0.4));
  CHECK(shares.sharded == doctest::Approx(0.5));
  CHECK(shares.nowhere == doctest::Approx(0.1));
  CHECK(shares.busiest == doctest::Approx(0.3));
  CHECK(shares.local == doctest::Approx(0.65));
  CHECK(shares.pulled == doctest::Approx(0.25));
}

TEST_CASE("counted shares: a request that runs where most of its items are finds these items") {
  Placement placement({1, 2, 3}, 6);
  placement.put(0, everywhere);
  for (const ItemNumber item : {1, 2}) placement.put(item, 1);
  placement.put(3, 2);
  Requests requests;
  requests.add(std::array<ItemNumber, 5>{0, 1, 2, 3, 4});
  const CountedShares shares = count_shares(placement, requests, 7);
  CHECK(shares.best == doctest::Approx(0.6));
  CHECK(shares.cached == doctest::Approx(0.8));
  CHECK(shares.busiest == 1);
  CHECK(shares.any <= shares.best);
}

TEST_CASE("counted shares: no requests give 0, and equally good nodes are chosen equally often") {
  Placement placement({1, 2, 3, 4}, 1);
  placement.put(0, everywhere);
  CHECK(count_shares(placement, {}, 1).best == 0);
  Requests requests;
  for (int i = 0; i < 4'000; ++i) requests.add(std::array<ItemNumber, 1>{0});
  CHECK(count_shares(placement, requests, 1).busiest < 0.3);
}

TEST_CASE("expected shares: the prediction agrees with drawn requests within half a percentage point") {
  const Items items(50'000, 100);
  for (const double exponent : {0.5, 0.7, 1.0}) {
    const auto accesses = AccessDistribution::zipf(items.count(), exponent);
    const Requests requests = draw_requests(accesses, 4'000, 50, 42);
    for (const std::uint64_t memory : {300'000, 1'000'000, 9'000'000}) {
      const HrcsDecision decision = decide_replication(0.3, accesses, items, 8, memory);
      for (const Placement& placement :
           {place_hot_and_cold(decision.replicated, accesses, items, {1, 2, 3, 4, 5, 6, 7, 8}, memory),
            place_everywhere(accesses, items, {1, 2, 3, 4, 5, 6, 7, 8}, memory),
            place_by_hash(accesses, items, {1, 2, 3, 4, 5, 6, 7, 8}, memory)}) {
        CAPTURE(exponent);
        CAPTURE(memory);
        const ExpectedShares expected = expected_shares(placement, accesses);
        const CountedShares counted = count_shares(placement, requests, 43);
        CHECK(std::abs(expected.local - counted.any) < 0.005);
        CHECK(std::abs(1 - expected.nowhere - counted.cached) < 0.005);
        CHECK(counted.best >= counted.any);
      }
    }
  }
}

TEST_CASE("drawn requests: the same seed draws the same requests") {
  const auto accesses = AccessDistribution::zipf(100, 0.7);
  CHECK(draw_requests(accesses, 20, 5, 1).items == draw_requests(accesses, 20, 5, 1).items);
  CHECK(draw_requests(accesses, 20, 5, 1).items != draw_requests(accesses, 20, 5, 2).items);
}

}  // namespace
}  // namespace troupe::placement
