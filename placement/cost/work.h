#pragma once
// Defines Work, what a pass asks of any device: operations, bytes to read (weights, and keys and
// values that it did not compute), and the pass itself. Work is the unit of workers' paces,
// admission, the choice of a worker, batch bounds and simulated devices. UnitCosts converts a
// model's tokens to Work; Pace is a device's time per unit. Without a model an operation is a newly
// computed token, and nothing else counts.
#include <cstdint>

namespace troupe::placement {

struct ModelShape;

// Counts of what a pass computes. A batch's Pass is the sum of its requests'; it reads the weights
// once.
struct Pass {
  std::uint64_t new_tokens = 0, reused_tokens = 0;
  std::uint64_t pairs = 0;     // tokens attended to, summed over all new tokens, each including itself
  std::uint64_t readouts = 0;  // tokens at which scores are read
  std::uint64_t scans = 0;     // searches of the whole item table

  Pass& operator+=(const Pass& other);
  Pass& operator-=(const Pass& other);  // requires that `other` was added before
};
Pass operator+(Pass a, const Pass& b);
// Returns one segment behind all reused tokens: each new token sees those and the new ones up to
// itself.
Pass causal_pass(std::uint64_t new_tokens, std::uint64_t reused_tokens, std::uint64_t readouts = 1);

struct Work {
  double operations = 0, bytes = 0, passes = 0;

  Work& operator+=(const Work& other);
  Work& operator-=(const Work& other);  // no component falls below 0
  bool operator==(const Work&) const = default;
};
Work operator+(Work a, const Work& b);
Work operator*(Work work, double times);

// Work per unit of one model.
struct UnitCosts {
  double token_operations = 1;  // of the linear layers
  double pair_operations = 0, readout_operations = 0;
  double scan_operations = 0, scan_bytes = 0;  // of the item table
  double token_bytes = 0;                      // bytes of a reused token's keys and values
  double pass_bytes = 0;                       // bytes of the weights
  std::uint32_t layers = 0;                    // 0 = unknown

  // Returns the work of new tokens of one segment that all see `seen` tokens before it, and each
  // other causally. Counts may be fractions, as expected values.
  Work computed(double tokens, double seen) const;
  Work reused(double tokens) const { return {0, tokens * token_bytes, 0}; }
  Work readouts(double count) const { return {count * readout_operations, 0, 0}; }
  Work scans(double count) const { return {count * scan_operations, count * scan_bytes, 0}; }
  Work passes(double count) const { return {0, count * pass_bytes, count}; }
  Work of(const Pass& pass) const;  // one pass; nothing for no tokens
};
UnitCosts unit_costs(const ModelShape& shape);

struct Pace {  // microseconds
  double us_per_operation = 0, us_per_byte = 0, us_per_pass = 0;

  double us(const Work& work) const;
  bool known() const { return us_per_operation > 0; }
  bool operator==(const Pace&) const = default;
};
Pace operator*(Pace pace, double times);

}  // namespace troupe::placement
