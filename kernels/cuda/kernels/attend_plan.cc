#include "kernels/cuda/kernels/attend_plan.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace troupe::kernels::cuda {
namespace {

constexpr std::uint32_t blocks_per_multiprocessor = 2;
constexpr std::uint32_t part_tiles_min = 4;  // a shorter part does not pay for its merge

std::uint32_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint32_t>((a + b - 1) / b);
}

// Keys of a group's run.
struct Interval {
  std::uint32_t begin = 0, end = 0;
};

// What the rows of one tile see.
class TileView {
 public:
  TileView(const AttendGroup& group, std::span<const std::uint32_t> begin, std::span<const std::uint32_t> end)
      : context_(group.context_tokens) {
    if (context_ > 0) seen_.push_back({0, context_});
    for (std::size_t row = 0; row < begin.size(); ++row) {
      TROUPE_CHECK(end[row] <= group.tail_tokens, "a row sees more than its tail");
      const bool none = begin[row] >= end[row];
      common_.begin = std::max(common_.begin, none ? ~0u : context_ + begin[row]);
      common_.end = std::min(common_.end, none ? 0u : context_ + end[row]);
      if (!none) seen_.push_back({context_ + begin[row], context_ + end[row]});
    }
    merge();
  }

  void cut(std::vector<KeyTile>& tiles) const {
    for (const Interval& run : seen_)
      for (std::uint32_t first = run.begin; first < run.end; first += attend_key_tile) {
        const std::uint32_t count = std::min(attend_key_tile, run.end - first);
        const bool masked = count < attend_key_tile || !all_see(first, first + count);
        tiles.push_back({first, count, masked});
      }
  }

 private:
  void merge() {
    std::sort(seen_.begin(), seen_.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
    std::size_t last = 0;
    for (const Interval& next : seen_)
      if (next.begin <= seen_[last].end)
        seen_[last].end = std::max(seen_[last].end, next.end);
      else
        seen_[++last] = next;
    if (!seen_.empty()) seen_.resize(last + 1);
  }
  bool all_see(std::uint32_t begin, std::uint32_t end) const {
    return end <= context_ || (std::max(begin, context_) >= common_.begin && end <= common_.end);
  }

  std::uint32_t context_;
  Interval common_{0, ~0u};  // of the tail: what every row sees
  std::vector<Interval> seen_;
};

std::uint32_t tile_count(const AttendItem& item) { return item.tile_end - item.tile_begin; }

std::uint64_t blocks_with(const AttendMachine& machine, std::span<const AttendGroup> groups,
                          std::uint32_t tile_vectors) {
  std::uint64_t tiles = 0;
  for (const AttendGroup& group : groups)
    tiles += ceil_div(std::uint64_t{group.row_end - group.row_begin} * machine.heads, tile_vectors);
  return tiles * machine.kv_heads;
}

void add_items(const AttendMachine& machine, const AttendGroup& group, std::span<const std::uint32_t> begin,
               std::span<const std::uint32_t> end, AttendPlan& plan) {
  TROUPE_CHECK(group.context_tokens + group.tail_tokens <= attend_keys_max, "a group of too many keys");
  const std::uint32_t vectors = (group.row_end - group.row_begin) * machine.heads;
  for (std::uint32_t first = 0; first < vectors; first += plan.tile_vectors) {
    const std::uint32_t count = std::min(plan.tile_vectors, vectors - first);
    const std::uint32_t row = group.row_begin + first / machine.heads;
    const std::uint32_t rows = (first + count - 1) / machine.heads - first / machine.heads + 1;
    const auto tile_begin = static_cast<std::uint32_t>(plan.key_tiles.size());
    TileView(group, begin.subspan(row, rows), end.subspan(row, rows)).cut(plan.key_tiles);
    plan.items.push_back({group.row_begin, first, count, group.key_begin, group.context_tokens, tile_begin,
                          static_cast<std::uint32_t>(plan.key_tiles.size())});
  }
}

// So that the parts together fill the machine, none much longer than the others.
void split_long_items(const AttendMachine& machine, AttendPlan& plan) {
  const std::uint64_t wanted = std::uint64_t{machine.multiprocessors} * blocks_per_multiprocessor;
  if (plan.items.size() * machine.kv_heads >= wanted) return;
  const std::uint32_t part =
      std::max(part_tiles_min, ceil_div(plan.key_tiles.size() * machine.kv_heads, wanted));
  const std::size_t whole = plan.items.size();
  for (std::size_t i = 0; i < whole; ++i) {
    const AttendItem item = plan.items[i];
    const std::uint32_t parts = ceil_div(tile_count(item), part);
    if (parts <= 1) continue;
    plan.merges.push_back(
        {item.row_begin, item.vector_begin, item.vectors, plan.partials, plan.partials + parts});
    for (std::uint32_t p = 0; p < parts; ++p) {
      AttendItem piece = item;
      piece.tile_begin = item.tile_begin + tile_count(item) * p / parts;
      piece.tile_end = item.tile_begin + tile_count(item) * (p + 1) / parts;
      piece.partial = plan.partials++;
      if (p == 0)
        plan.items[i] = piece;
      else
        plan.items.push_back(piece);
    }
  }
}

}  // namespace

// Fewer items than wanted are split, each into one part more than its share of the wanted ones at most.
std::uint32_t partials_max(const AttendMachine& machine) {
  return 2 * ceil_div(std::uint64_t{machine.multiprocessors} * blocks_per_multiprocessor, machine.kv_heads);
}

void plan_attention(const AttendMachine& machine, std::span<const AttendGroup> groups,
                    std::span<const std::uint32_t> visible_begin, std::span<const std::uint32_t> visible_end,
                    AttendPlan& plan) {
  plan.items.clear(), plan.key_tiles.clear(), plan.merges.clear();
  plan.partials = 0;
  const std::uint64_t wanted = std::uint64_t{machine.multiprocessors} * blocks_per_multiprocessor;
  const bool large = blocks_with(machine, groups, machine.large_tile) >= wanted;
  plan.tile_vectors = large ? machine.large_tile : machine.small_tile;
  for (const AttendGroup& group : groups) add_items(machine, group, visible_begin, visible_end, plan);
  split_long_items(machine, plan);
  std::stable_sort(plan.items.begin(), plan.items.end(),
                   [](auto& a, auto& b) { return tile_count(a) > tile_count(b); });
}

}  // namespace troupe::kernels::cuda
