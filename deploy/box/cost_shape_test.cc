#include "deploy/box/cost_shape.h"

#include <doctest/doctest.h>

#include "placement/cost/device_profiles.h"

namespace troupe::deploy {
namespace {

TEST_CASE("a token more takes its share of a pass, without the launches and the first reading of weights") {
  const placement::DeviceProfile& device = placement::find_device("A100-40G");
  const placement::ModelShape& shape = placement::find_shape("qwen2-1.5b");
  const placement::CostModel cost(device, shape);
  const double token = us_per_token(device, shape);
  CHECK(token > 0);
  CHECK(token < cost.prefill_us(200, 0) / 200);
  CHECK(cost.prefill_us(1, 0) + 199 * token == doctest::Approx(cost.prefill_us(200, 0)));
}

TEST_CASE("a device of many cores takes less for a token") {
  placement::DeviceProfile core = placement::find_device("A100-40G");
  const placement::ModelShape& shape = placement::find_shape("qwen2-1.5b");
  const double one = us_per_token(core, shape);
  for (double& peak : core.peak_ops) peak *= 2;
  core.bandwidth *= 2;
  CHECK(us_per_token(core, shape) < one);
}

}  // namespace
}  // namespace troupe::deploy
