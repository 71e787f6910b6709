// Predicts how long a forward pass takes on a device and how long a transfer takes on a link. The
// planner, the placement of items and the simulator all use these times.
#include "placement/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace troupe::placement {

namespace {

bool positive(double value) { return value > 0 && std::isfinite(value); }

struct Rule {
  std::string_view what;
  double value;
  bool valid;
  std::string_view expected;
};

std::string fault(std::string_view kind, const std::string& name, const Rule& rule) {
  char number[32];
  std::snprintf(number, sizeof number, "%.9g", rule.value);
  return std::string(kind) + " " + (name.empty() ? "without a name" : name) + ": " + std::string(rule.what) +
         " is " + number + "; expected " + std::string(rule.expected);
}

template <std::size_t N>
std::string first_violation(std::string_view kind, const std::string& name,
                            const std::array<Rule, N>& rules) {
  for (const Rule& rule : rules)
    if (!rule.valid) return fault(kind, name, rule);
  return "";
}

Rule count(std::string_view what, std::uint32_t value) {
  return {what, double(value), value > 0, "1 or more"};
}
Rule rate(std::string_view what, double value, std::string_view expected) {
  return {what, value, positive(value), expected};
}
Rule share(std::string_view what, double value) {
  return {what, value, value > 0 && value <= 1, "a share above 0 and at most 1"};
}
Rule amount(std::string_view what, double value, std::string_view expected) {
  return {what, value, value >= 0 && std::isfinite(value), expected};
}

void throw_if_invalid(const std::string& fault) {
  if (!fault.empty()) throw std::invalid_argument(fault);
}

double peak(const DeviceProfile& device, Precision precision) {
  return device.peak_ops[static_cast<std::size_t>(precision)];
}

double key_value_parameters(const ModelShape& s) { return 2.0 * s.hidden * s.kv_heads * s.head_dim; }

}  // namespace

double ModelShape::layer_parameters() const {
  return 2.0 * hidden * heads * head_dim + key_value_parameters(*this) + 3.0 * hidden * intermediate;
}

double ModelShape::kv_token_bytes() const { return 2.0 * layers * kv_heads * head_dim * kv_bytes; }

std::string validate(const ModelShape& s) {
  return first_violation(
      "model shape", s.name,
      std::array{count("layers", s.layers), count("hidden", s.hidden), count("heads", s.heads),
                 count("kv_heads", s.kv_heads), count("head_dim", s.head_dim),
                 count("intermediate", s.intermediate), count("rows_read", s.rows_read),
                 rate("weight_bytes", s.weight_bytes, "a positive number of bytes"),
                 rate("kv_bytes", s.kv_bytes, "a positive number of bytes")});
}

std::string validate(const DeviceProfile& d) {
  constexpr std::string_view ops = "a positive number of operations a second";
  if (const std::string fault = validate(d.host); !fault.empty()) return "device " + d.name + ": " + fault;
  return first_violation(
      "device", d.name,
      std::array{
          rate("peak_f32", d.peak_ops[0], ops), rate("peak_bf16", d.peak_ops[1], ops),
          rate("peak_int8", d.peak_ops[2], ops),
          rate("bandwidth", d.bandwidth, "a positive number of bytes a second"),
          rate("memory_bytes", d.memory_bytes, "a positive number of bytes"),
          share("efficiency", d.efficiency), amount("launch_us", d.launch_us, "0 us or more"),
          amount("launches_per_layer", d.launches_per_layer, "0 or more"),
          amount("half_tokens", d.half_tokens, "0 tokens or more"),
          Rule{"split_share", d.split_share, d.split_share >= 0 && d.split_share <= 1, "a share of a pass"}});
}

std::string validate(const LinkProfile& l) {
  return first_violation("link", l.name,
                         std::array{amount("latency_us", l.latency_us, "0 us or more"),
                                    rate("bandwidth", l.bandwidth, "a positive number of bytes a second"),
                                    share("efficiency", l.efficiency)});
}

CostModel::CostModel(const DeviceProfile& device, const ModelShape& shape) {
  throw_if_invalid(validate(device));
  throw_if_invalid(validate(shape));
  const double per_us = device.efficiency / 1e6;
  const double outputs = double(shape.hidden) * shape.rows_read;
  launch_us_ = device.launch_us * device.launches_per_layer * shape.layers;
  half_tokens_ = device.half_tokens;
  kv_token_bytes_ = shape.kv_token_bytes();
  key_value_ops_ = 2 * key_value_parameters(shape);
  rest_ops_ = 2 * shape.layer_parameters() - key_value_ops_;
  readout_ops_ = 2 * outputs;
  const UnitCosts units = unit_costs(shape);
  const double scan_ops_us = units.scan_operations / (peak(device, shape.linear) * per_us);
  scan_us_ = std::max(scan_ops_us, units.scan_bytes / (device.bandwidth * per_us));
  pair_ops_ = 4.0 * shape.heads * shape.head_dim;
  weight_bytes_ = (shape.layer_parameters() * shape.layers + outputs) * shape.weight_bytes;
  last_layer_ = device.trims_last_layer ? 1 : 0;
  layers_ = shape.layers - last_layer_;
  linear_ops_us_ = peak(device, shape.linear) * per_us;
  attention_ops_us_ = peak(device, shape.attention) * per_us;
  bytes_us_ = device.bandwidth * per_us;
}

PassTime CostModel::pass_time(const Pass& pass) const {
  if (pass.new_tokens == 0) return {};
  const auto tokens = static_cast<double>(pass.new_tokens), reads = static_cast<double>(pass.readouts);
  const auto pairs = static_cast<double>(pass.pairs), reused = static_cast<double>(pass.reused_tokens);
  // Each attends to about as many tokens as the others.
  const double last_tokens = last_layer_ * std::min(reads, tokens);
  const double linear_ops = (layers_ + last_layer_) * tokens * key_value_ops_ +
                            (layers_ * tokens + last_tokens) * rest_ops_ + reads * readout_ops_;
  const double attention_ops = (layers_ + last_tokens / tokens) * pairs * pair_ops_;
  const double unsaturated = (tokens + half_tokens_) / tokens;
  const double scans_us = static_cast<double>(pass.scans) * scan_us_;
  return {launch_us_,
          std::max(linear_ops * unsaturated / linear_ops_us_, weight_bytes_ / bytes_us_) + scans_us,
          std::max(attention_ops * unsaturated / attention_ops_us_,
                   (reused + tokens) * kv_token_bytes_ / bytes_us_)};
}

Pace pace_of(const DeviceProfile& device, const ModelShape& shape) {
  throw_if_invalid(validate(device));
  throw_if_invalid(validate(shape));
  const double per_us = device.efficiency / 1e6;
  const double us_per_operation = 1 / (peak(device, shape.linear) * per_us);
  const double unsaturated_us = device.half_tokens * unit_costs(shape).token_operations * us_per_operation;
  return {us_per_operation, 1 / (device.bandwidth * per_us),
          device.launch_us * device.launches_per_layer * shape.layers + unsaturated_us};
}

double move_us(const LinkProfile& link, double bytes) {
  throw_if_invalid(validate(link));
  throw_if_invalid(
      first_violation("link", link.name, std::array{amount("a move's size", bytes, "0 bytes or more")}));
  return link.latency_us + bytes / (link.bandwidth * link.efficiency) * 1e6;
}

}  // namespace troupe::placement
