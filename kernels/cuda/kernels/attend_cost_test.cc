#include "kernels/cuda/kernels/attend_cost.h"

#include <doctest/doctest.h>

#include <vector>

using namespace troupe::kernels::cuda;

namespace {

// Returns a machine with costs that reveal the parts of a prediction.
AttendMachine plain(std::uint32_t multiprocessors, std::uint32_t kv_heads) {
  return {.multiprocessors = multiprocessors,
          .kv_heads = kv_heads,
          .head_dim = 64,
          .l2_bytes = 1e9,
          .launch_cycles = 1000,
          .block_cycles = 100};
}
constexpr AttendTile tile{64, 10, 15};

// Predicts the cycles of blocks of these lengths.
double cycles(const AttendMachine& machine, const std::vector<std::uint32_t>& lengths,
              std::uint32_t partials = 0) {
  std::vector<std::uint32_t> of_length(100);
  for (const std::uint32_t length : lengths) ++of_length[length];
  return attend_cycles(machine, tile, of_length, partials);
}

}  // namespace

TEST_SUITE("cuda attention cost") {
  TEST_CASE(
      "attention cost: no blocks cost 0; one block costs its launch, its fixed part and its tiles alone") {
    CHECK(attend_cycles(plain(4, 1), tile, {}, 0) == 0);
    CHECK(cycles(plain(4, 1), {6}) == 1100 + 6 * 15);
  }

  TEST_CASE("attention cost: blocks beyond one per multiprocessor wait for the longest blocks before them") {
    CHECK(cycles(plain(4, 1), {6, 6, 6, 6}) == 1100 + 6 * 15);
    CHECK(cycles(plain(4, 1), {6, 6, 6, 6, 6}) == 1100 + 12 * 10);
    CHECK(cycles(plain(4, 2), {6, 6, 6}) == 1100 + 12 * 10);
    CHECK(cycles(plain(2, 1), {9, 1, 1, 1}) == 1100 + 9 * 15);
    CHECK(cycles(plain(1, 1), {9, 5, 1}) == 1100 + 15 * 10);
    CHECK(cycles(plain(1, 2), {9, 5, 1}) == 1100 + 30 * 10);
  }

  TEST_CASE("attention cost: a split costs a second launch, and writing and reading partial results") {
    AttendMachine machine = plain(4, 1);
    CHECK(cycles(machine, {3, 3}, 2) == doctest::Approx(2200 + 3 * 15));
    machine.l2_bytes = 1;
    const double keys = 6.0 * 64 * 64 * 2 * 2, partials = 2.0 * 2 * 64 * 68 * 4;
    CHECK(cycles(machine, {3, 3}) == doctest::Approx(1100 + keys / 4));
    CHECK(cycles(machine, {3, 3}, 2) == doctest::Approx(2200 + (keys + partials) / 4));
  }

  TEST_CASE(
      "attention cost: a large wgmma tile reads half as much from L2 per product, and mma.sync is slower") {
    const AttendTile small = attend_tile(90, 128, {64, 2, true}),
                     large = attend_tile(90, 128, {128, 1, true});
    CHECK(large.cycles == doctest::Approx(2 * small.cycles));
    CHECK(large.cycles == doctest::Approx(1024 / 0.75));
    CHECK(small.alone_cycles > small.cycles);
    CHECK(attend_tile(90, 128, {128, 2, false}).cycles > 1.7 * large.cycles);
    CHECK(attend_tile(89, 128, {64, 1, false}).cycles == attend_tile(86, 128, {64, 1, false}).cycles);
    CHECK(attend_tile(80, 128, {64, 1, false}).cycles < attend_tile(86, 128, {64, 1, false}).cycles);
  }
}
