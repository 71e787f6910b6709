// Plans which block of the attention kernel computes which queries over which keys. Among several
// tile sizes and splits it takes the one with the least predicted time.
#include "kernels/cuda/kernels/attend_plan.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace troupe::kernels::cuda {
namespace {

// Minimum key tiles of a part; a shorter one does not pay for its merge.
constexpr std::uint32_t part_tiles_min = 4;
constexpr std::uint32_t rounds_max = 3;  // of parts, per multiprocessor
constexpr std::uint32_t cuts_max = 4;    // of the longest item

std::uint32_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint32_t>((a + b - 1) / b);
}

// A range of a group's keys.
struct Interval {
  std::uint32_t begin = 0, end = 0;
};

// The keys that the rows of one query tile see.
class TileView {
 public:
  TileView(const AttendGroup& group, std::span<const std::uint32_t> begin, std::span<const std::uint32_t> end)
      : context_(group.context_tokens) {
    if (context_ > 0) seen_.push_back({0, context_});
    for (std::size_t row = 0; row < begin.size(); ++row) {
      TROUPE_CHECK(end[row] <= group.tail_tokens, "a row sees at most its tail");
      const bool none = begin[row] >= end[row];
      common_.begin = std::max(common_.begin, none ? ~0u : context_ + begin[row]);
      common_.end = std::min(common_.end, none ? 0u : context_ + end[row]);
      if (!none) seen_.push_back({context_ + begin[row], context_ + end[row]});
    }
    merge();
  }

  std::uint32_t tile_count() const {
    std::uint32_t tiles = 0;
    for (const Interval& run : seen_) tiles += ceil_div(run.end - run.begin, attend_key_tile);
    return tiles;
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

struct Visible {
  std::span<const std::uint32_t> begin, end;
};

// Calls `take` for every query tile with its item, still without key tiles, and what its rows see.
template <class Take>
void for_each_item(const AttendMachine& machine, std::uint32_t tile_vectors, const AttendGroup& group,
                   const Visible& visible, const Take& take) {
  TROUPE_CHECK(group.context_tokens + group.tail_tokens <= attend_keys_max,
               "a group has at most attend_keys_max keys");
  const std::uint32_t vectors = (group.row_end - group.row_begin) * machine.heads;
  for (std::uint32_t first = 0; first < vectors; first += tile_vectors) {
    const std::uint32_t count = std::min(tile_vectors, vectors - first);
    const std::uint32_t row = group.row_begin + first / machine.heads;
    const std::uint32_t rows = (first + count - 1) / machine.heads - first / machine.heads + 1;
    take(AttendItem{group.row_begin, first, count, group.key_begin, group.context_tokens},
         TileView(group, visible.begin.subspan(row, rows), visible.end.subspan(row, rows)));
  }
}

// Number of items by length, in key tiles.
class Lengths {
 public:
  void add(std::uint32_t length, std::uint32_t count = 1) {
    if (length >= of_.size()) of_.resize(length + 1);
    of_[length] += count;
  }
  // Splits into parts of nearly equal length, at most `most`; adds their number to `partials`.
  Lengths split(std::uint32_t most, std::uint32_t& partials) const {
    Lengths parts;
    for (std::uint32_t length = 0; length < of_.size(); ++length) {
      const std::uint32_t n = std::max(1u, ceil_div(length, most)), longer = length % n;
      if (of_[length] == 0) continue;
      if (longer > 0) parts.add(length / n + 1, longer * of_[length]);
      parts.add(length / n, (n - longer) * of_[length]);
      if (n > 1) partials += n * of_[length];
    }
    return parts;
  }
  std::uint32_t longest() const { return of_.empty() ? 0 : static_cast<std::uint32_t>(of_.size() - 1); }
  std::uint64_t tiles() const {
    std::uint64_t sum = 0;
    for (std::uint32_t length = 0; length < of_.size(); ++length) sum += std::uint64_t{length} * of_[length];
    return sum;
  }
  std::span<const std::uint32_t> of_length() const { return of_; }

 private:
  std::vector<std::uint32_t> of_;
};

std::uint32_t partial_vectors_max(const AttendMachine& machine) {
  return partials_max(machine) * std::max(machine.small.vectors, machine.large.vectors);
}

// Adds the choices: whole; split so that each multiprocessor has its share in one to three rounds;
// the longest cut into two to four.
void add_choices(const AttendMachine& machine, const AttendTile& tile, const Lengths& whole,
                 std::vector<AttendChoice>& choices) {
  choices.push_back({tile.vectors, whole_result, attend_cycles(machine, tile, whole.of_length(), 0)});
  const auto split = [&](std::uint32_t part) {
    part = std::max(part_tiles_min, part);
    if (part >= whole.longest() || part == choices.back().part_tiles) return;  // as whole, or as before
    std::uint32_t partials = 0;
    const Lengths parts = whole.split(part, partials);
    if (partials * tile.vectors <= partial_vectors_max(machine))
      choices.push_back({tile.vectors, part, attend_cycles(machine, tile, parts.of_length(), partials)});
  };
  const std::uint64_t tiles = whole.tiles() * machine.kv_heads;
  for (std::uint32_t rounds = 1; rounds <= rounds_max; ++rounds)
    split(ceil_div(tiles, std::uint64_t{machine.multiprocessors} * rounds));
  for (std::uint32_t cuts = 2; cuts <= cuts_max; ++cuts) split(ceil_div(whole.longest(), cuts));
}

std::vector<AttendChoice> choices_of(const AttendMachine& machine, std::span<const AttendGroup> groups,
                                     const Visible& visible) {
  std::vector<AttendChoice> choices;
  for (const AttendTile* tile : {&machine.large, &machine.small}) {
    if (tile->vectors == 0) continue;
    Lengths whole;
    for (const AttendGroup& group : groups)
      for_each_item(machine, tile->vectors, group, visible,
                    [&](const AttendItem&, const TileView& view) { whole.add(view.tile_count()); });
    add_choices(machine, *tile, whole, choices);
  }
  TROUPE_CHECK(!choices.empty(), "the machine has a query tile");
  return choices;
}

void split_item(std::uint32_t part_tiles, std::size_t number, AttendPlan& plan) {
  const AttendItem item = plan.items[number];
  const std::uint32_t parts = ceil_div(tile_count(item), part_tiles);
  if (parts <= 1) return;
  plan.merges.push_back(
      {item.row_begin, item.vector_begin, item.vectors, plan.partials, plan.partials + parts});
  for (std::uint32_t p = 0; p < parts; ++p) {
    AttendItem piece = item;
    piece.tile_begin = item.tile_begin + tile_count(item) * p / parts;
    piece.tile_end = item.tile_begin + tile_count(item) * (p + 1) / parts;
    piece.partial = plan.partials++;
    if (p == 0)
      plan.items[number] = piece;
    else
      plan.items.push_back(piece);
  }
}

}  // namespace

std::uint32_t partials_max(const AttendMachine& machine) {
  return 2 * ceil_div(std::uint64_t{machine.multiprocessors} * 2, machine.kv_heads);
}

std::vector<AttendChoice> attend_choices(const AttendMachine& machine, std::span<const AttendGroup> groups,
                                         std::span<const std::uint32_t> visible_begin,
                                         std::span<const std::uint32_t> visible_end) {
  return choices_of(machine, groups, {visible_begin, visible_end});
}

void plan_attention(const AttendMachine& machine, std::span<const AttendGroup> groups,
                    std::span<const std::uint32_t> visible_begin, std::span<const std::uint32_t> visible_end,
                    AttendPlan& plan) {
  const Visible visible{visible_begin, visible_end};
  const std::vector<AttendChoice> choices = choices_of(machine, groups, visible);
  const AttendChoice choice =
      *std::ranges::min_element(choices, {}, [](const AttendChoice& c) { return c.cycles; });
  plan.items.clear(), plan.key_tiles.clear(), plan.merges.clear();
  plan.partials = 0;
  plan.tile_vectors = choice.tile_vectors, plan.predicted_cycles = choice.cycles;
  for (const AttendGroup& group : groups)
    for_each_item(machine, plan.tile_vectors, group, visible, [&](AttendItem item, const TileView& view) {
      item.tile_begin = static_cast<std::uint32_t>(plan.key_tiles.size());
      view.cut(plan.key_tiles);
      item.tile_end = static_cast<std::uint32_t>(plan.key_tiles.size());
      plan.items.push_back(item);
    });
  for (std::size_t i = 0, whole = plan.items.size(); i < whole; ++i) split_item(choice.part_tiles, i, plan);
  std::stable_sort(plan.items.begin(), plan.items.end(),
                   [](auto& a, auto& b) { return tile_count(a) > tile_count(b); });
}

}  // namespace troupe::kernels::cuda
