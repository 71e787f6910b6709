#include "placement/cost/cost_model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

#include "placement/cost/device_profiles.h"

namespace troupe::placement {
namespace {

// Multiply-adds of one token in one layer: 2·256·128 = 65,536 for keys and values, 917,504 for all
// others; 512 for a visible pair. A token's keys and values take 4·2·2·64·2 = 2,048 bytes.
const ModelShape tiny{"tiny", 4, 256, 4, 2, 64, 1024, 2, 2, 2, Precision::bf16, Precision::f32};

// Runs one operation per microsecond in f32 and four in bf16; its memory is so fast that it never
// counts.
DeviceProfile slow() {
  return {.name = "slow", .peak_ops = {1e6, 4e6, 8e6}, .bandwidth = 1e18, .memory_bytes = 1e9};
}

constexpr double token_ops = 2.0 * 4 * (65'536 + 917'504), readout_ops = 2.0 * 256 * 2;

TEST_CASE("cost model: arithmetic equals a hand count, each phase at the peak of its precision") {
  const PassTime time = CostModel(slow(), tiny).pass_time(causal_pass(10, 100));
  CHECK(time.linear == doctest::Approx((10 * token_ops + readout_ops) / 4));
  CHECK(time.attention == doctest::Approx(2.0 * 512 * 4 * (10 * 100 + 55)));
  CHECK(time.launch == 0);
  CHECK(time.total() == time.linear + time.attention);
}

TEST_CASE("cost model: a trimmed last layer computes only tokens with a readout past keys and values") {
  DeviceProfile device = slow();
  device.trims_last_layer = true;
  const PassTime time = CostModel(device, tiny).pass_time({10, 100, 1055, 2});
  const double linear = 2.0 * (4 * 10 * 65'536 + (3 * 10 + 2) * 917'504) + 2 * readout_ops;
  CHECK(time.linear == doctest::Approx(linear / 4));
  CHECK(time.attention == doctest::Approx(2.0 * 512 * (3 + 0.2) * 1055));
}

TEST_CASE("cost model: when memory is slower than arithmetic, weights and keys and values are read once") {
  DeviceProfile device = slow();
  device.peak_ops = {1e30, 1e30, 1e30};
  device.bandwidth = 1e6;
  device.efficiency = 0.5;
  const CostModel model(device, tiny);
  const PassTime time = model.pass_time(causal_pass(10, 100));
  CHECK(time.linear == doctest::Approx(2 * 2.0 * (4 * (65'536 + 917'504) + 2 * 256)));
  CHECK(time.attention == doctest::Approx(2 * 2048.0 * 110));
  CHECK(model.kv_token_bytes() == 2048);
}

TEST_CASE("cost model: launches are paid per layer and pass, and a pass without new tokens pays none") {
  DeviceProfile device = slow();
  device.launch_us = 3;
  device.launches_per_layer = 10;
  const CostModel model(device, tiny);
  CHECK(model.pass_time(causal_pass(1, 0)).launch == 120);
  CHECK(model.prefill_us(0, 500) == 0);
}

TEST_CASE("cost model: at half saturation arithmetic takes twice as long") {
  DeviceProfile device = slow();
  const double full = CostModel(device, tiny).prefill_us(16, 0);
  device.half_tokens = 16;
  CHECK(CostModel(device, tiny).prefill_us(16, 0) == doctest::Approx(2 * full));
  CHECK(CostModel(device, tiny).prefill_us(1 << 20, 0) ==
        doctest::Approx(CostModel(slow(), tiny).prefill_us(1 << 20, 0)).epsilon(1e-4));
}

TEST_CASE("cost model: a batch adds up its work and shares launches, weights and saturation") {
  const CostModel model(find_device("A100-40G"), find_shape("qwen2-1.5b"));
  Pass batch;
  for (int i = 0; i < 8; ++i) batch += causal_pass(20, 1000);
  CHECK(batch.new_tokens == 160);
  CHECK(batch.reused_tokens == 8000);
  CHECK(batch.readouts == 8);
  CHECK(batch.pairs == 8 * (20 * 1000 + 210));
  CHECK(model.prefill_us(batch) < 3 * model.prefill_us(20, 1000));
}

TEST_CASE("cost model: a prefill on an A100 takes the time that peak and efficiency give") {
  // 1.31e9 parameters · 2 · 4096 tokens and 4·1536·28·4096²/2 of attention, at 55 % of 312e12, plus
  // 3 % for saturation. BAT's Figure 2a shows about 100 ms, its limit.
  const double ms = CostModel(find_device("A100-40G"), find_shape("qwen2-1.5b")).prefill_us(4096, 0) / 1e3;
  CHECK(ms == doctest::Approx((10.73e12 + 1.44e12) / (0.55 * 312e12) * (4096 + 128) / 4096 * 1e3 + 0.84)
                  .epsilon(0.01));
}

TEST_CASE("cost model: a move takes the link's latency plus its bytes") {
  const LinkProfile link{"wire", 5, 1e9, 0.5};
  CHECK(move_us(link, 0) == 5);
  CHECK(move_us(link, 1e6) == doctest::Approx(5 + 2000));
}

TEST_CASE("cost model: invalid input is refused with what, where and what was expected") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  DeviceProfile device = slow();
  device.peak_ops[1] = 0;
  CHECK(validate(device) == "device slow: peak_bf16 is 0; expected a positive number of operations a second");
  CHECK_THROWS_AS(CostModel(device, tiny), std::invalid_argument);
  device = slow();
  device.bandwidth = nan;
  CHECK(validate(device) == "device slow: bandwidth is nan; expected a positive number of bytes a second");
  for (const double wrong : {0.0, 1.01, -1.0, nan}) {
    device = slow();
    device.efficiency = wrong;
    CHECK(validate(device).find("expected a share above 0 and at most 1") != std::string::npos);
  }
  ModelShape shape = tiny;
  shape.kv_heads = 0;
  CHECK_THROWS_WITH_AS(CostModel(slow(), shape), "model shape tiny: kv_heads is 0; expected 1 or more",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(move_us({"wire", 5, 0, 1}, 1),
                       "link wire: bandwidth is 0; expected a positive number of bytes a second",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(move_us({"", 5, 1, 1}, -1),
                       "link without a name: a move's size is -1; expected 0 bytes or more",
                       std::invalid_argument);
}

TEST_CASE("cost model: more work never takes less time, and reuse never takes longer than computing") {
  const unsigned seed = 20260102;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 3000; ++i) {
    const DeviceProfile& device = known_devices()[random() % known_devices().size()];
    const ModelShape& shape = known_shapes()[random() % known_shapes().size()];
    CAPTURE(device.name);
    CAPTURE(shape.name);
    const CostModel model(device, shape);
    const std::uint64_t fresh = 1 + random() % 4000, reused = random() % 8000, more = 1 + random() % 500;
    const double us = model.prefill_us(fresh, reused);
    CHECK(std::isfinite(us));
    CHECK(us > 0);
    CHECK(model.prefill_us(fresh + more, reused) >= us);
    CHECK(model.prefill_us(fresh, reused + more) >= us);
    CHECK(model.prefill_us(fresh + more, reused) >= model.prefill_us(fresh, reused + more));
  }
}

}  // namespace
}  // namespace troupe::placement
