#pragma once
// How long things take, predicted: computing new tokens over reused ones on a device, and moving bytes over a
// link. Placement (HRCS), the planner and the simulator all ask this one model. A forward pass is its
// launches plus two phases, linear layers and attention, each bound by whichever is slower, arithmetic or
// memory (README.md has the formulas). For a fixed shape that is a polynomial in new and reused tokens on
// each side of the bound: the prefill-time regression of BAT §5.2, with its coefficients taken from the
// shape.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "placement/cost/host_work.h"
#include "placement/cost/work.h"

namespace troupe::placement {

enum class Precision : std::uint8_t { f32, bf16, int8 };  // of multiply-adds; bf16 stands for fp16 as well
inline constexpr std::array<std::string_view, 3> precision_names = {"f32", "bf16", "int8"};

// A decoder of the Qwen and Llama families, as far as time depends on it.
struct ModelShape {
  std::string name;
  std::uint32_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;
  std::uint32_t rows_read = 1;  // vocabulary rows that a readout scores
  double weight_bytes = 2;      // of one weight of a linear layer
  double kv_bytes = 2;          // of one number of a key or a value
  Precision linear = Precision::bf16, attention = Precision::bf16;

  double layer_parameters() const;  // of the linear layers: attention's four, the feed-forward's three
  double kv_token_bytes() const;    // keys and values of one token in all layers
  double attention_share() const;   // operations of one attended pair over those of one token's linear layers
};

// A device with the engine that runs on it. Peaks and bandwidth are what is published; `efficiency`, the one
// calibration factor, is the share of both that the engine reaches in large batches.
struct DeviceProfile {
  std::string name;
  std::array<double, precision_names.size()> peak_ops{};  // per second, by Precision; two per multiply-add
  double bandwidth = 0;                                   // of device memory, bytes per second
  double memory_bytes = 0;
  double efficiency = 1;  // above 0, at most 1
  double launch_us = 0;   // until a launched operation runs
  double launches_per_layer = 1;
  double half_tokens = 0;         // arithmetic runs at half its speed in batches of so many new tokens
  bool trims_last_layer = false;  // of the last layer, only tokens with a readout go past keys and values
  // Of a pass alone on a machine with idle cores, what they may take over; of one core. 0: passes are not
  // split.
  double split_share = 0;
  HostWork host = {};  // of the machine that it is in
};

struct LinkProfile {
  std::string name;
  double latency_us = 0;  // of a move of no bytes
  double bandwidth = 0;   // one way, bytes per second
  double efficiency = 1;  // above 0, at most 1: the share of bandwidth that large moves reach
};

// Empty if sound: counts and rates positive and finite, shares in (0, 1]. Otherwise what is wrong, where and
// what was expected, such as "device A100-40G: bandwidth is nan; expected a positive number of bytes a
// second".
std::string find_fault(const ModelShape& shape);
std::string find_fault(const DeviceProfile& device);
std::string find_fault(const LinkProfile& link);

struct PassTime {  // microseconds
  double launch = 0, linear = 0, attention = 0;

  double total() const { return launch + linear + attention; }
};

// One shape on one device, ready to be asked a million times.
class CostModel {
 public:
  CostModel(const DeviceProfile& device, const ModelShape& shape);  // throws std::invalid_argument of a fault

  PassTime pass_time(const Pass& pass) const;  // nothing for no new tokens
  double prefill_us(const Pass& pass) const { return pass_time(pass).total(); }
  double prefill_us(std::uint64_t new_tokens, std::uint64_t reused_tokens) const {
    return prefill_us(causal_pass(new_tokens, reused_tokens));
  }
  double kv_token_bytes() const { return kv_token_bytes_; }

 private:
  // Operations, bytes and their speeds as the formulas use them: per token, pair or pass.
  double launch_us_, half_tokens_, kv_token_bytes_;
  double key_value_ops_, rest_ops_, readout_ops_, pair_ops_,
      weight_bytes_;            // of one layer, but weight_bytes_
  double layers_, last_layer_;  // layers that all tokens go through; and the last if it is trimmed, else 0
  double linear_ops_us_, attention_ops_us_, bytes_us_;  // per microsecond
};

// How long the units of Work take there, each for itself: the pass does not wait for the slower of arithmetic
// and memory but for both, which whoever measures puts right. Throws as CostModel does.
Pace pace_of(const DeviceProfile& device, const ModelShape& shape);

// Throws std::invalid_argument of a fault in the link.
double move_us(const LinkProfile& link, double bytes);

}  // namespace troupe::placement
