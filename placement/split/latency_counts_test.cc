#include "placement/split/latency_counts.h"

#include <doctest/doctest.h>

#include <vector>

namespace troupe::placement {
namespace latency_counts_test {

TEST_CASE("latency counts: a latency belongs to the first step that ends at or after it") {
  CHECK(latency_step(-5) == 0);
  CHECK(latency_step(64) == 0);
  for (const std::int64_t us : {65, 100, 1'000, 123'456, 9'999'999}) {
    CAPTURE(us);
    const std::size_t step = latency_step(us);
    CHECK(step_ends_us(step) >= static_cast<double>(us) * 0.999'999);
    CHECK(step_ends_us(step - 1) < static_cast<double>(us));
  }
  CHECK(latency_step(3'600'000'000) == latency_steps - 1);
}

TEST_CASE("latency counts: a P99 is within one step (9 %), and 0 without requests") {
  std::vector<std::uint64_t> counts(latency_steps);
  CHECK(latency_quantile(counts, 0.99) == 0);
  CHECK(share_beyond(counts, 1'000) == 0);
  for (std::int64_t i = 1; i <= 1'000; ++i) ++counts[latency_step(i * 100)];
  const double p99 = latency_quantile(counts, 0.99);
  CHECK(p99 >= 99'000);
  CHECK(p99 < 99'000 * 1.1);
  CHECK(share_beyond(counts, 50'000) == doctest::Approx(0.5).epsilon(0.1));
  CHECK(share_beyond(counts, 1e9) == 0);
}

}  // namespace latency_counts_test
}  // namespace troupe::placement
