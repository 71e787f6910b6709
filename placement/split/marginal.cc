// Splits the pool between its areas such that the estimated savings of all areas together are
// largest, by searching all splits in hundredths.
#include "placement/split/marginal.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/check.h"

namespace troupe::placement {
namespace {

constexpr std::size_t areas_max = 8;
constexpr double never = -std::numeric_limits<double>::infinity();

// Maximum savings of the first areas for each number of cells, and the cells of the last of these
// areas.
struct BestSplit {
  Savings saved;
  std::array<std::uint8_t, split_cells + 1> last;
};

void add_area(const BestSplit& before, const Savings& area, std::size_t least, std::size_t from,
              BestSplit& best) {
  for (std::size_t all = from; all <= split_cells; ++all) {
    double most = never;
    std::size_t most_at = 0;
    for (std::size_t area_cells = least; area_cells <= all; ++area_cells) {
      const double saved = before.saved[all - area_cells] + area[area_cells];
      if (!(saved > most)) continue;
      most = saved;
      most_at = area_cells;
    }
    best.saved[all] = most;
    best.last[all] = static_cast<std::uint8_t>(most_at);
  }
}

std::size_t cell_of(double share) {
  return static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * split_cells));
}

}  // namespace

void best_cells(std::span<const Savings> savings, std::size_t least, std::span<std::size_t> cells) {
  TROUPE_CHECK(!savings.empty() && savings.size() == cells.size() && savings.size() <= areas_max &&
                   least * savings.size() <= split_cells,
               "each area has a curve and can keep its minimum");
  std::array<BestSplit, areas_max> best;
  for (std::size_t cell = 0; cell <= split_cells; ++cell)
    best[0].saved[cell] = cell < least ? never : savings[0][cell];
  for (std::size_t area = 1; area < savings.size(); ++area)
    add_area(best[area - 1], savings[area], least, area + 1 == savings.size() ? split_cells : 0, best[area]);
  std::size_t left = split_cells;
  for (std::size_t area = savings.size() - 1; area > 0; --area) left -= cells[area] = best[area].last[left];
  cells[0] = left;
}

void MarginalSplit::decide(const SplitView& view, std::span<double> shares) {
  if (view.savings.size() != shares.size() || shares.empty()) return;  // nothing is known: keep the split
  std::array<std::size_t, areas_max> cells{};
  const auto least = static_cast<std::size_t>(std::ceil(options_.least * split_cells));
  best_cells(view.savings, least, std::span(cells).first(shares.size()));
  double now = 0, then = 0;
  for (std::size_t area = 0; area < shares.size(); ++area) {
    now += view.savings[area][cell_of(shares[area])];
    then += view.savings[area][cells[area]];
  }
  if (then <= now * (1 + options_.better)) return;
  for (std::size_t area = 0; area < shares.size(); ++area)
    shares[area] = static_cast<double>(cells[area]) / split_cells;
}

}  // namespace troupe::placement
