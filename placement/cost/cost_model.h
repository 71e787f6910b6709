#pragma once
// Predicts times: to compute new tokens over reused ones on a device, and to move bytes over a
// link. Placement (HRCS), the planner and the simulator all use this model. A forward pass is its
// launches plus two phases, linear layers and attention. Each phase takes the longer of its
// arithmetic and its memory time (README.md has the formulas). For a fixed shape and bound this is
// a polynomial in new and reused tokens: the prefill-time regression of BAT §5.2, with coefficients
// derived from the shape.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "placement/cost/host_work.h"
#include "placement/cost/work.h"

namespace troupe::placement {

enum class Precision : std::uint8_t { f32, bf16, int8 };  // of multiply-adds; bf16 stands for fp16 as well
inline constexpr std::array<std::string_view, 3> precision_names = {"f32", "bf16", "int8"};

// The properties of a Qwen or Llama decoder on which its time depends.
struct ModelShape {
  std::string name;
  std::uint32_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;
  std::uint32_t rows_read = 1;  // vocabulary rows that a readout scores
  double weight_bytes = 2;      // bytes of one weight of a linear layer
  double kv_bytes = 2;          // bytes of one number of a key or a value
  Precision linear = Precision::bf16, attention = Precision::bf16;
  std::uint32_t rows_searched = 0;  // rows of the item table that a search scans; 0 = there is no such search

  // Parameters of a layer's linear maps: four of attention, three of the feed-forward network.
  double layer_parameters() const;
  double kv_token_bytes() const;  // bytes of one token's keys and values in all layers
};

// A device with the engine that runs on it. Peaks and bandwidth are published figures.
// `efficiency`, the one calibration factor, is the share of both that the engine reaches in large
// batches.
struct DeviceProfile {
  std::string name;
  // Operations per second, by Precision; a multiply-add counts as two.
  std::array<double, precision_names.size()> peak_ops{};
  double bandwidth = 0;  // device memory, bytes per second
  double memory_bytes = 0;
  double efficiency = 1;  // above 0, at most 1
  double launch_us = 0;   // launch overhead of one operation
  double launches_per_layer = 1;
  double half_tokens = 0;         // new tokens per batch at which arithmetic runs at half its speed
  bool trims_last_layer = false;  // in the last layer, only tokens with a readout go past keys and values
  // Share of one core's work that idle cores may take over from a pass that runs alone; 0 = passes
  // are not split.
  double split_share = 0;
  HostWork host = {};  // CPU work of the machine outside passes
};

struct LinkProfile {
  std::string name;
  double latency_us = 0;  // microseconds of a move of no bytes
  double bandwidth = 0;   // one way, bytes per second
  double efficiency = 1;  // above 0, at most 1: the share of bandwidth that large moves reach
};

// Returns an empty string if the values are valid: counts and rates positive and finite, shares in
// (0, 1]. Otherwise says what is wrong, where, and what was expected, such as "device A100-40G:
// bandwidth is nan; expected a positive number of bytes a second".
std::string validate(const ModelShape& shape);
std::string validate(const DeviceProfile& device);
std::string validate(const LinkProfile& link);

struct PassTime {  // microseconds
  double launch = 0, linear = 0, attention = 0;

  double total() const { return launch + linear + attention; }
};

// Predicts pass times of one shape on one device; precomputes its coefficients, since it is called
// very often.
class CostModel {
 public:
  // Throws std::invalid_argument for invalid input.
  CostModel(const DeviceProfile& device, const ModelShape& shape);

  PassTime pass_time(const Pass& pass) const;  // 0 if there are no new tokens
  double prefill_us(const Pass& pass) const { return pass_time(pass).total(); }
  double prefill_us(std::uint64_t new_tokens, std::uint64_t reused_tokens) const {
    return prefill_us(causal_pass(new_tokens, reused_tokens));
  }
  double kv_token_bytes() const { return kv_token_bytes_; }

 private:
  // Operations, bytes and speeds of the formulas: per token, pair or pass.
  double launch_us_, half_tokens_, kv_token_bytes_;
  double key_value_ops_, rest_ops_, readout_ops_, pair_ops_,
      weight_bytes_;            // per layer, except weight_bytes_
  double layers_, last_layer_;  // layers that all tokens go through; 1 if the last layer is trimmed, else 0
  double linear_ops_us_, attention_ops_us_, bytes_us_;  // per microsecond
  double scan_us_;                                      // of a search of the item table
};

// Returns the time of one unit of each kind of Work. The units add up: a pass pays for arithmetic
// and for memory, not only for the slower one; measured paces correct this. Throws as CostModel
// does.
Pace pace_of(const DeviceProfile& device, const ModelShape& shape);

// Throws std::invalid_argument for an invalid link.
double move_us(const LinkProfile& link, double bytes);

}  // namespace troupe::placement
