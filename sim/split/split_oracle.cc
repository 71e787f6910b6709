// Finds alpha*, the split of the pool that would have been best in a window, by evaluating all
// hundredths at once.
#include "sim/split/split_oracle.h"

#include <algorithm>
#include <cmath>

#include "sim/base/quantile.h"

namespace troupe::sim {
namespace {

constexpr std::size_t cells = placement::split_cells;

std::size_t lowest(const std::array<double, alphas>& values) {
  return static_cast<std::size_t>(std::ranges::min_element(values) - values.begin());
}

}  // namespace

SplitOracle::SplitOracle(const SplitTimes& times, std::uint32_t nodes, double window_s, std::uint32_t draws,
                         std::uint64_t seed, double slo_us)
    : times_(times), window_us_(window_s * 1e6), slo_us_(slo_us), random_(seed, 3) {
  const SplitSizes& sizes = times.sizes();
  for (std::uint32_t n = 0; n < nodes; ++n)
    nodes_.push_back({placement::RecencyStack(sizes.pages),
                      placement::RecencyStack(sizes.pages * sizes.rows_per_page),
                      {},
                      {},
                      {},
                      std::vector<std::array<Stations, alphas>>(draws)});
}

void SplitOracle::serve(std::uint32_t node, const SplitRequest& request,
                        std::span<const std::uint32_t> rows) {
  Node& n = nodes_[node];
  const SplitSizes& sizes = times_.sizes();
  const std::uint32_t pages = times_.kv_pages(request.length), all_rows = sizes.pages * sizes.rows_per_page;
  const auto kv = n.kv.use(request.user, pages);
  std::array<std::uint32_t, alphas> found{};  // rows that need at least this capacity
  for (const std::uint32_t row : rows)
    if (const auto distance = n.rows.use(row, 1); distance && *distance <= all_rows)
      ++found[(*distance * cells + all_rows - 1) / all_rows];
  ServedRequest& served = n.served.emplace_back();
  served.at_us = request.at_us;
  served.compute_us = static_cast<float>(times_.computed_us(request.length));
  served.reuse_us = static_cast<float>(times_.reused_us(request.length));
  double missing = static_cast<double>(rows.size());
  n.window.requests += 1;
  n.window.hot += request.hot;
  n.window.events += request.length;
  n.window.rows += missing;
  const double all = missing;
  for (std::size_t a = 0; a < alphas; ++a) {
    missing -= found[a];
    const bool hit = kv && *kv * cells <= sizes.pages * (cells - a);
    if (hit) served.kv_alphas = a + 1;
    served.copy_us[a] = static_cast<float>(missing * times_.row_us());
    n.window.kv_hits[a] += hit;
    n.window.row_hits[a] += static_cast<float>(all - missing);
  }
}

// Plays one draw of arrival times; the first draw is the original. Requests keep their order, since the
// caches saw that order.
void SplitOracle::play(Node& node, std::uint32_t draw, std::array<double, alphas>& sums) {
  const std::size_t count = node.served.size();
  std::vector<double> at(count);
  for (std::size_t i = 0; i < count; ++i)
    at[i] = draw == 0 ? node.served[i].at_us
                      : begin_us_ + static_cast<double>(random_.next() >> 11) * 0x1p-53 * window_us_;
  std::ranges::sort(at);
  sorted_.resize(count);
  for (std::size_t a = 0; a < alphas; ++a) {
    Stations stations = node.stations[draw][a];
    for (std::size_t i = 0; i < count; ++i)
      sorted_[i] = static_cast<float>(stations.serve(at[i], node.served[i].at(a)) - at[i]);
    node.stations[draw][a] = stations;
    if (draw == 0) all_[a].insert(all_[a].end(), sorted_.begin(), sorted_.end());
    node.late[a] += static_cast<double>(
        std::ranges::count_if(sorted_, [this](float l) { return static_cast<double>(l) > slo_us_; }));
    const double p99 = quantile_in_place(sorted_, 0.99);
    sums[a] += p99;
    if (draw == 0) node.window.p99_us[a] = static_cast<float>(p99);
  }
}

SplitOracle::Window SplitOracle::end_window() {
  Window window;
  std::array<std::array<double, alphas>, 2> halves{};
  double plays = 0, served = 0;
  for (Node& node : nodes_) {
    if (node.served.empty()) continue;
    for (std::uint32_t draw = 0; draw < node.stations.size(); ++draw, ++plays)
      play(node, draw, halves[draw % 2]);
    served += static_cast<double>(node.served.size());
    for (std::size_t a = 0; a < alphas; ++a) {
      for (const ServedRequest& s : node.served) window.mean_us[a] += s.at(a).sum_us();
      window.late[a] += node.late[a] / static_cast<double>(node.stations.size());
      node.window.late[a] = static_cast<float>(node.late[a] / static_cast<double>(node.stations.size()));
    }
    window.nodes.push_back(node.window);
    node.window = {};
    node.late = {};
    node.served.clear();
  }
  for (std::size_t a = 0; a < alphas; ++a) {
    window.p99_us[a] = (halves[0][a] + halves[1][a]) / std::max(1.0, plays);
    window.mean_us[a] /= std::max(1.0, served);
    window.late[a] /= std::max(1.0, served);
  }
  window.best = static_cast<double>(lowest(window.p99_us)) / cells;
  window.half_apart =
      std::abs(static_cast<double>(lowest(halves[0])) - static_cast<double>(lowest(halves[1]))) / cells;
  begin_us_ += window_us_;
  return window;
}

}  // namespace troupe::sim
