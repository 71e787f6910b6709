#include "actors/inference/batch_times.h"

#include <doctest/doctest.h>

#include "actors/testing/inference_bench.h"

namespace troupe::actors {
namespace batch_times_test {

placement::Pass tokens(std::uint64_t count) { return {.new_tokens = count}; }

TEST_CASE("batch times: nothing is known before a batch was measured, and every plan is in time") {
  const InferenceConfig config = inference_test::Bench::config(1);
  const BatchTimes times(config);
  CHECK(times.slot_us(tokens(1'000)) == 0);
  CHECK_FALSE(times.pace().known());
  CHECK(times.ends_in_time({0}, tokens(1'000), {1}));
  CHECK(times.saved_us(7, 0) == 7);  // at the nominal pace
}

TEST_CASE("batch times: the measured pace follows recent batches more than older ones") {
  const InferenceConfig config = inference_test::Bench::config(1);
  BatchTimes times(config);
  times.measure(tokens(10), 500);
  CHECK(times.slot_us(tokens(2)) == 100);
  CHECK(times.saved_us(7, 0) == 350);
  CHECK_FALSE(times.ends_in_time({0}, tokens(2), {100}));
  CHECK(times.ends_in_time({0}, tokens(2), {101}));
  times.measure(tokens(10), 1'000);
  CHECK(times.pace().us_per_operation == doctest::Approx((7 * 500 + 8 * 1'000) / 150.0));
  times.measure(tokens(0), 1'000);  // computed nothing
  CHECK(times.pace().us_per_operation == doctest::Approx((7 * 500 + 8 * 1'000) / 150.0));
}

TEST_CASE("batch times: waiting plans take as many passes as the bounds of a batch require") {
  InferenceConfig config = inference_test::Bench::config(1);  // batches of 10 tokens
  config.batch_requests_max = 2;
  config.costs.pass_bytes = 3;
  const BatchTimes times(config);
  WaitingPlans waiting;
  CHECK(times.work_of(waiting) == placement::Work{});
  waiting.add(tokens(8));
  CHECK(times.work_of(waiting).passes == 1);
  waiting.add(tokens(8));
  CHECK(times.work_of(waiting).passes == 2);  // by tokens
  waiting.remove(tokens(8));
  waiting.add(tokens(1));
  waiting.add(tokens(1));
  CHECK(times.work_of(waiting).passes == 2);  // by plans
  CHECK(times.fits_batch(tokens(10)));
  CHECK_FALSE(times.fits_batch(tokens(11)));
}

}  // namespace batch_times_test
}  // namespace troupe::actors
