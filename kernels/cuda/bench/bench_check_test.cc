#include "kernels/cuda/bench/bench_check.h"

#include <doctest/doctest.h>

#include <limits>

#include "kernels/cuda/bench/bench_cost.h"
#include "kernels/cuda/testing/device_test.h"

using namespace troupe::kernels::cuda;

namespace {

// Returns a work that writes nothing, so that `found` is its result.
PreparedWork work_of(std::vector<double> found, std::size_t samples, std::vector<std::size_t>* seen) {
  return {.run = [](Stream&) {},
          .checks = samples,
          .check =
              [=](std::size_t sample) {
                seen->push_back(sample);
                return CheckedSample{{found[sample]}, {1}, {0.5}};
              }};
}

}  // namespace

TEST_SUITE("cuda bench") {
  TEST_CASE("bench check: a number off its bound, a missing number and poison are faults") {
    CHECK(fault_of(CheckedSample{{1, 2}, {1, 2.5}, {0.5}}) == "");
    CHECK(fault_of(CheckedSample{{1, 2}, {1, 2.5}, {0.5, 0.4}}).starts_with("number 1 is 2.0"));
    CHECK(fault_of(CheckedSample{{1}, {1, 2}, {9}}).starts_with("1 numbers; expected 2"));
    CHECK(fault_of(CheckedSample{{}, {}, {9}}) != "");
    CHECK(fault_of(CheckedSample{{std::numeric_limits<double>::quiet_NaN()}, {1}, {9}}) != "");
  }

  TEST_CASE("bench check: few samples are all compared; of many, some with the first and the last") {
    if (!have_device()) return;
    Chance chance(1);
    std::vector<std::size_t> seen;
    CHECK(fault_of(work_of({1, 1, 1.2}, 3, &seen), 4, chance) == "");
    CHECK(seen == std::vector<std::size_t>{0, 1, 2});
    CHECK(fault_of(work_of({1, 1, 9}, 3, &seen), 4, chance).starts_with("sample 2: "));
    seen.clear();
    CHECK(fault_of(work_of(std::vector<double>(100, 1), 100, &seen), 5, chance) == "");
    CHECK(seen.size() == 5);
    CHECK(seen[0] == 0);
    CHECK(seen[1] == 99);
  }

  TEST_CASE("bench check: an unwritten number is found, at the beginning and at the end") {
    if (!have_device()) return;
    Chance chance(2);
    std::vector<std::size_t> seen;
    PreparedWork work = work_of({1}, 1, &seen);
    const auto out = std::make_shared<DeviceNumbers>(NumberKind::bf16, 70);
    const DeviceNumbers numbers(NumberKind::bf16, 70, chance);
    work.outputs = {out};
    for (const std::size_t written : {std::size_t{0}, std::size_t{69}}) {
      work.run = [&](Stream& stream) { stream.copy(out->data(), numbers.data(), 2 * written); };
      CHECK(fault_of(work, 1, chance) == "number " + std::to_string(written) + " was not written");
    }
    work.run = [&](Stream& stream) { stream.copy(out->data(), numbers.data(), 140); };
    CHECK(fault_of(work, 1, chance) == "");
  }

  TEST_CASE(
      "bench cost: a floor is the longer of moving and computing per step; an expectation is never below "
      "it") {
    const std::vector<Cost> steps{{CostKind::memory, 10, 0},
                                  {CostKind::product, 10, 400},
                                  {CostKind::attention, 0, 100, [](const DataSheet&) { return 4.0; }}};
    const Ceilings ceilings{5, 100};
    CHECK(total_bytes(steps) == 20);
    CHECK(total_flops(steps) == 500);
    CHECK(floor_seconds(steps, ceilings) == 2 + 4 + 1);
    const Assumptions half{0.5, 0.5, 3};
    CHECK(expected_seconds(steps, 2, {"some GPU", ceilings}, half) == 2 * 3 + 4 + 8 + 4);
  }
}
