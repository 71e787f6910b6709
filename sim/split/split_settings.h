#pragma once
// Settings of HLEM's experiments (§V-A): data sets, depths and regimes. Parameters that the paper leaves
// open have one value for all of them (tests/papers/hlem/README.md gives the reasons).
#include <cstdint>
#include <span>
#include <string_view>

#include "sim/split/split_run.h"

namespace troupe::sim {

struct SplitData {
  std::string_view name;
  double users = 0;      // total number
  double hot_share = 0;  // Table II
};
std::span<const SplitData> split_data();

// Returns the options for `layers` layers; users and rate are those of one device, which is a node here.
SplitRunOptions split_setting(const SplitData& data, std::uint32_t layers, Regime regime);

}  // namespace troupe::sim
