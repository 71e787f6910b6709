// Lists the data sets, depths and load patterns of HLEM's experiments, with values for what the
// paper leaves open.
#include "sim/split/split_settings.h"

#include <array>

namespace troupe::sim {
namespace {

constexpr double devices = 256;  // 32 nodes with eight devices each

constexpr std::array<SplitData, 3> all{
    {{"taobao", 0.98e6, 0.18}, {"games", 2.76e6, 0.24}, {"books", 10.3e6, 0.38}}};

}  // namespace

std::span<const SplitData> split_data() { return all; }

SplitRunOptions split_setting(const SplitData& data, std::uint32_t layers, Regime regime) {
  SplitRunOptions options;
  options.sizes.layers = layers;
  options.sizes.tables = 10;
  options.sizes.efficiency = 0.30;
  options.sizes.gather = 1.0 / 3;
  SplitWorkloadOptions& w = options.workload;
  w.regime = regime;
  w.users = static_cast<std::uint32_t>(data.users / devices);
  w.hot_share = data.hot_share;
  w.row_skew = 1.1;
  w.visit_requests = 10;
  w.return_s = 6;
  w.return_sigma = 0.3;
  w.per_second = 42;
  return options;
}

}  // namespace troupe::sim
