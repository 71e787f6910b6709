#pragma once
// The settings of HLEM's experiments (§V-A): data sets, depths and regimes, with what the paper leaves open
// set once for all of them (tests/papers/hlem/README.md has the reasons).
#include <cstdint>
#include <span>
#include <string_view>

#include "sim/split/split_run.h"

namespace troupe::sim {

struct SplitData {
  std::string_view name;
  double users = 0;      // of all
  double hot_share = 0;  // Table II
};
std::span<const SplitData> split_data();

// Null where there is no such data set. Of `depth` layers; the users and the rate are of one device, which is
// a node here.
const SplitData* find_split_data(std::string_view name);
SplitRunOptions split_setting(const SplitData& data, std::uint32_t layers, Regime regime);

}  // namespace troupe::sim
