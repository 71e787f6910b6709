// Converts the tokens of a pass to Work: operations, bytes to read, and the pass itself. Workers'
// speeds and waiting requests are measured in this unit.
#include "placement/cost/work.h"

#include <algorithm>

#include "placement/cost/cost_model.h"

namespace troupe::placement {

Pass& Pass::operator+=(const Pass& other) {
  new_tokens += other.new_tokens;
  reused_tokens += other.reused_tokens;
  pairs += other.pairs;
  readouts += other.readouts;
  scans += other.scans;
  return *this;
}

Pass& Pass::operator-=(const Pass& other) {
  new_tokens -= other.new_tokens;
  reused_tokens -= other.reused_tokens;
  pairs -= other.pairs;
  readouts -= other.readouts;
  scans -= other.scans;
  return *this;
}

Pass operator+(Pass a, const Pass& b) { return a += b; }

Pass causal_pass(std::uint64_t new_tokens, std::uint64_t reused_tokens, std::uint64_t readouts) {
  const std::uint64_t pairs = new_tokens * reused_tokens + new_tokens * (new_tokens + 1) / 2;
  return {new_tokens, reused_tokens, pairs, readouts};
}

Work& Work::operator+=(const Work& other) {
  operations += other.operations;
  bytes += other.bytes;
  passes += other.passes;
  return *this;
}

Work& Work::operator-=(const Work& other) {
  operations = std::max(0.0, operations - other.operations);
  bytes = std::max(0.0, bytes - other.bytes);
  passes = std::max(0.0, passes - other.passes);
  return *this;
}

Work operator+(Work a, const Work& b) { return a += b; }

Work operator*(Work work, double times) {
  return {work.operations * times, work.bytes * times, work.passes * times};
}

Work UnitCosts::computed(double tokens, double seen) const {
  const double pairs = tokens * (seen + (tokens + 1) / 2);
  return {tokens * token_operations + pairs * pair_operations, 0, 0};
}

Work UnitCosts::of(const Pass& pass) const {
  if (pass.new_tokens == 0 && pass.reused_tokens == 0 && pass.scans == 0) return {};
  const double operations = static_cast<double>(pass.new_tokens) * token_operations +
                            static_cast<double>(pass.pairs) * pair_operations;
  return Work{operations, 0, 0} + readouts(static_cast<double>(pass.readouts)) +
         reused(static_cast<double>(pass.reused_tokens)) + scans(static_cast<double>(pass.scans)) + passes(1);
}

UnitCosts unit_costs(const ModelShape& shape) {
  const double outputs = double(shape.hidden) * shape.rows_read,
               table = double(shape.hidden) * shape.rows_searched;
  return {.token_operations = 2 * shape.layer_parameters() * shape.layers,
          .pair_operations = 4.0 * shape.heads * shape.head_dim * shape.layers,
          .readout_operations = 2 * outputs,
          .scan_operations = 2 * table,
          .scan_bytes = table * shape.weight_bytes,
          .token_bytes = shape.kv_token_bytes(),
          .pass_bytes = (shape.layer_parameters() * shape.layers + outputs) * shape.weight_bytes,
          .layers = shape.layers};
}

Pace operator*(Pace pace, double times) {
  return {pace.us_per_operation * times, pace.us_per_byte * times, pace.us_per_pass * times};
}

double Pace::us(const Work& work) const {
  return work.operations * us_per_operation + work.bytes * us_per_byte + work.passes * us_per_pass;
}

}  // namespace troupe::placement
