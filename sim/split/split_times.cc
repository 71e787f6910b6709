// Computes times and sizes for pool-split experiments from the cost model, such as the time of a
// history of a given length.
#include "sim/split/split_times.h"

#include <cmath>

#include "placement/cost/device_profiles.h"

namespace troupe::sim {
namespace {

// Models HSTU's two products per layer (width × 4 width and width × width) as a decoder whose feed-forward
// is so narrow that it has the same number of parameters. Attention has the decoder's number of operations.
placement::ModelShape shape_of(const SplitSizes& sizes) {
  placement::ModelShape shape;
  shape.name = "hstu-" + std::to_string(sizes.layers);
  shape.layers = sizes.layers;
  shape.hidden = sizes.width;
  shape.heads = shape.kv_heads = sizes.heads;
  shape.head_dim = sizes.width / sizes.heads;
  shape.intermediate = sizes.width / 3;
  return shape;
}

placement::DeviceProfile device_of(const SplitSizes& sizes) {
  placement::DeviceProfile device = placement::find_device(sizes.device);
  if (sizes.efficiency > 0) device.efficiency = sizes.efficiency;
  return device;
}

}  // namespace

SplitTimes::SplitTimes(const SplitSizes& sizes) : sizes_(sizes), cost_(device_of(sizes), shape_of(sizes)) {
  page_bytes_ = sizes.memory_gb * 1e9 / sizes.pages;
  row_scale_ = page_bytes_ / sizes.row_bytes / sizes.rows_per_page;
  rows_per_event_ = sizes.tables / row_scale_;
  row_us_ = placement::move_us(placement::find_link(sizes.host_link), 1e3 * scaled_row_bytes()) / 1e3 /
            sizes.gather;
}

double SplitTimes::computed_us(std::uint32_t length) const {
  const std::uint64_t history = length, candidates = sizes_.candidates;
  return cost_.prefill_us({.new_tokens = history + candidates,
                           .pairs = history * (history + 1) / 2 + candidates * (history + 1),
                           .readouts = candidates});
}

double SplitTimes::reused_us(std::uint32_t length) const {
  const std::uint64_t history = length, candidates = sizes_.candidates, fresh = sizes_.new_events;
  return cost_.prefill_us({.new_tokens = fresh + candidates,
                           .reused_tokens = history,
                           .pairs = (fresh + candidates) * (history + fresh),
                           .readouts = candidates});
}

std::uint32_t SplitTimes::kv_pages(std::uint32_t length) const {
  return static_cast<std::uint32_t>(std::ceil(length * cost_.kv_token_bytes() / page_bytes_));
}

}  // namespace troupe::sim
