#include "placement/cost/work.h"

#include <doctest/doctest.h>

#include "placement/cost/cost_model.h"
#include "placement/cost/device_profiles.h"

namespace troupe::placement {
namespace {

TEST_CASE("work: without a model it counts the computed tokens") {
  const UnitCosts costs;
  CHECK(costs.computed(7, 1'000) == Work{7, 0, 0});
  CHECK(costs.of({.new_tokens = 7, .reused_tokens = 100, .pairs = 900, .readouts = 1}) == Work{7, 0, 1});
  CHECK(costs.of({}) == Work{});
}

TEST_CASE("work: a segment costs its tokens, what they see, and each other causally") {
  const UnitCosts costs{.token_operations = 10, .pair_operations = 2, .token_bytes = 3, .pass_bytes = 50};
  CHECK(costs.computed(4, 6) == Work{40 + 2 * (24 + 10), 0, 0});
  CHECK(costs.computed(4, 6) + costs.reused(6) + costs.passes(1) ==
        costs.of({.new_tokens = 4, .reused_tokens = 6, .pairs = 34}));
}

TEST_CASE("work: finished work is subtracted and never falls below 0") {
  Work sent = Work{10, 5, 1} + Work{1, 1, 1};
  sent -= {10, 5, 1};
  CHECK(sent == Work{1, 1, 1});
  sent -= {10, 5, 1};
  CHECK(sent == Work{});
  CHECK(Work{2, 4, 6} * 0.5 == Work{1, 2, 3});
}

TEST_CASE(
    "pace: it adds the units' times, and a large causal pass takes about as long as in the cost "
    "model") {
  CHECK(Pace{2, 3, 5}.us({10, 100, 1}) == 20 + 300 + 5);
  CHECK_FALSE(Pace{}.known());
  for (const DeviceProfile& device : known_devices())
    for (const ModelShape& shape : known_shapes()) {
      const Pass pass = causal_pass(2'000, 2'000);
      const double predicted = pace_of(device, shape).us(unit_costs(shape).of(pass));
      const double time = CostModel(device, shape).prefill_us(pass);
      CHECK(predicted > 0.9 * time);
      CHECK(predicted < 1.7 * time);
    }
}

TEST_CASE("pace: a device of many cores takes less time for the same work") {
  const DeviceProfile& core = find_device("cpu");
  const ModelShape& shape = find_shape("qwen2-1.5b");
  const Pace one = pace_of(core, shape), four = pace_of(times_cores(core, 4), shape);
  CHECK(four.us_per_operation == doctest::Approx(one.us_per_operation / 4));
  CHECK(four.us_per_byte == doctest::Approx(one.us_per_byte / 4));
}

}  // namespace
}  // namespace troupe::placement
