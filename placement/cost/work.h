#pragma once
// Work is what a pass asks of a device, whatever the device: operations, bytes that it reads (weights, and
// keys and values that it did not compute), and that it is a pass at all. It is the currency of workers'
// paces, admission, the choice of a worker, the bounds of batches and simulated devices. UnitCosts says what
// a model's tokens come to, and Pace how long a device takes for a unit of each. Without a model an operation
// is a newly computed token, and nothing else counts.
#include <cstdint>

namespace troupe::placement {

struct ModelShape;

// What a pass computes, counted. A batch of requests is the sum of theirs: it reads the weights once.
struct Pass {
  std::uint64_t new_tokens = 0, reused_tokens = 0;
  std::uint64_t pairs = 0;     // over all new tokens: tokens that each attends to, itself among them
  std::uint64_t readouts = 0;  // tokens at which scores are read

  Pass& operator+=(const Pass& other);
  Pass& operator-=(const Pass& other);  // that was added before
};
Pass operator+(Pass a, const Pass& b);
// One segment behind everything that is reused: each new token sees all of that and the new ones up to
// itself.
Pass causal_pass(std::uint64_t new_tokens, std::uint64_t reused_tokens, std::uint64_t readouts = 1);

struct Work {
  double operations = 0, bytes = 0, passes = 0;

  Work& operator+=(const Work& other);
  Work& operator-=(const Work& other);  // never below nothing
  bool operator==(const Work&) const = default;
};
Work operator+(Work a, const Work& b);
Work operator*(Work work, double times);

// Of one model.
struct UnitCosts {
  double token_operations = 1;  // of its linear layers
  double pair_operations = 0, readout_operations = 0;
  double token_bytes = 0;    // of a reused token's keys and values
  double pass_bytes = 0;     // of the weights
  std::uint32_t layers = 0;  // 0: not known

  // New tokens of one segment that all see so many tokens before it, and each other causally. Counts may be
  // fractions: of what is expected.
  Work computed(double tokens, double seen) const;
  Work reused(double tokens) const { return {0, tokens * token_bytes, 0}; }
  Work readouts(double count) const { return {count * readout_operations, 0, 0}; }
  Work passes(double count) const { return {0, count * pass_bytes, count}; }
  Work of(const Pass& pass) const;  // one pass; nothing for no tokens
  // Of attended pairs, over those of a token.
  double attention_share() const { return pair_operations / token_operations; }
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
