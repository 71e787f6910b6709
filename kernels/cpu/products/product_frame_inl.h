// The frame of a matrix product over packed panels, included once per target: blocks of rows, parts of
// the columns, tiles and what they prefetch. A step (product_tile_inl.h) is its arithmetic.
//
// The input is split into blocks of rows (and, for a long sum, into parts of the columns) that stay in
// the second-level cache. Per block the weight is read once, two panels at a time, and each tile of rows
// is multiplied with both before the next tile, so that an output row grows by whole cache lines. While
// the tiles of a block work on one pair of panels they prefetch the next pair, which hides the latency of
// the weight's memory once a block has about 60 rows. A handful of rows takes several panels in one tile
// instead: more sums keep the multipliers busy, and there are more streams for the memory.
#ifndef TROUPE_KERNELS_CPU_PRODUCTS_PRODUCT_FRAME_ONCE
#define TROUPE_KERNELS_CPU_PRODUCTS_PRODUCT_FRAME_ONCE
#include <cstddef>

namespace troupe::kernels {

inline constexpr std::size_t kBlockFloats = 128 * 1024;  // of input, stays in the second-level cache

// Returns this thread's memory for the rounded rows or the widened weights of one block: kBlockFloats
// (product.cc).
float* block_memory();

}  // namespace troupe::kernels
#endif

#if defined(TROUPE_KERNELS_CPU_PRODUCT_FRAME_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_PRODUCT_FRAME_INL_H
#undef TROUPE_KERNELS_CPU_PRODUCT_FRAME_INL_H
#else
#define TROUPE_KERNELS_CPU_PRODUCT_FRAME_INL_H
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/products/product.h"
#include "kernels/cpu/products/product_tile_inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

inline constexpr std::size_t kPartFloats = 1024;  // of a row, in a part, at most
// Tiles of a block for whose many rows the weights are widened once instead of in each tile.
inline constexpr std::size_t kTilesWorthWidening = 48 / kTileRows;
inline constexpr std::size_t kGroup = std::max<std::size_t>(1, 64 / kPanel);  // panels that are read together
static_assert(kGroup * kPanel * kPartFloats <= kBlockFloats, "a group's widened weights must fit");
inline constexpr std::size_t kFewRows = kManyRegisters ? 6 : 2;

// Panels of one tile for R rows, where the registers allow more than one.
template <std::size_t R>
inline constexpr std::size_t kWide = R > kFewRows               ? 1
                                     : R <= 2 && kManyRegisters ? 4
                                                                : 2;

struct TileOp {
  void (*run)(const Tile&);
  std::size_t panels;
};
template <class Step, std::size_t... I>
constexpr std::array<TileOp, sizeof...(I)> one_panel_ops(std::index_sequence<I...>) {
  return {{{&multiply_tile<Step, I + 1, 1>, 1}...}};
}
template <class Step, std::size_t... I>
constexpr std::array<TileOp, sizeof...(I)> wide_ops(std::index_sequence<I...>) {
  return {{{&multiply_tile<Step, I + 1, kWide<I + 1>>, kWide<I + 1>}...}};
}
// [rows - 1].
template <class Step>
inline constexpr auto kOnePanel = one_panel_ops<Step>(std::make_index_sequence<kTileRows>());
template <class Step>
inline constexpr auto kFew = wide_ops<Step>(std::make_index_sequence<kFewRows>());

constexpr std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

// Words from one rounded row to the next: an odd number of cache lines, so that a tile's rows are
// not all in one set of the cache.
constexpr std::size_t pair_stride(std::size_t words) {
  return (divide_up(words, kLineFloats) | 1) * kLineFloats;
}

// One call: a weight, the rows and the panels to multiply.
template <class Step>
class Multiplication {
 public:
  Multiplication(const PackedMatrix& weight, const ProductTask& task)
      : weight_(weight),
        task_(task),
        first_(task.panel_begin),
        end_(std::min(task.panel_end, weight.panels())),
        panel_floats_(weight.words() * kPanel) {}

  void run() {
    if (task_.rows == 0 || first_ >= end_) return;
    const bool fits = !kPairs || task_.rows * pair_stride(weight_.words()) <= kBlockFloats;
    if (task_.rows <= kFewRows && fits)
      run_few();
    else
      run_blocks();
  }

 private:
  static constexpr bool kPairs = std::is_same_v<Step, PairStep>;
  static constexpr bool kWidens = std::is_same_v<Step, WidenedStep>;
  static constexpr std::size_t kPartWords = kPartFloats / Step::kInputs;

  // Words of a row of the weight, [begin, end), and the columns in them.
  struct Part {
    std::size_t begin, end, columns;
  };
  static constexpr std::size_t nothing_follows = std::size_t(-1);

  // True if int32 sums become values as they are stored.
  bool makes_values() const { return kSumsIntegers<Step> && task_.row_scales != nullptr; }

  Part part_of(std::size_t begin, std::size_t end) const {
    const std::size_t width = weight_.word_columns();
    return {begin, end, std::min(weight_.columns(), width * end) - width * begin};
  }

  void run_few() {
    const TileOp& wide = kFew<Step>[task_.rows - 1];
    const std::size_t whole = std::min(end_, weight_.rows() / kPanel);  // panels without padding
    const Part all = part_of(0, weight_.words());
    prepare_rows(0, task_.rows, all);
    std::size_t panel = first_;
    for (; panel + wide.panels <= whole; panel += wide.panels) wide.run(tile(0, panel, all));
    for (; panel < end_; ++panel)
      run_one(kOnePanel<Step>[task_.rows - 1], tile(0, panel, all), task_.rows, panel);
  }

  void run_blocks() {
    // Values cannot be added to an output that has the sums of an earlier part.
    const std::size_t parts = task_.add && makes_values() ? 1 : divide_up(weight_.words(), kPartWords);
    const std::size_t part = divide_up(divide_up(weight_.words(), parts), kRound) * kRound;
    const std::size_t tiles = divide_up(task_.rows, kTileRows);
    const std::size_t row_floats = kPairs ? pair_stride(part) : part * Step::kInputs;
    const std::size_t block_tiles = std::max<std::size_t>(1, kBlockFloats / (kTileRows * row_floats));
    const std::size_t blocks = divide_up(tiles, block_tiles);
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t first_tile = tiles * block / blocks, end_tile = tiles * (block + 1) / blocks;
      for (std::size_t word = 0; word < weight_.words(); word += part) {
        const Part here = part_of(word, std::min(weight_.words(), word + part));
        const bool more = here.end < weight_.words();
        prepare_rows(first_row_of(first_tile), first_row_of(end_tile), here);
        pass(first_tile, end_tile, here, more ? here.end : block + 1 < blocks ? 0 : nothing_follows);
      }
    }
  }

  // Tiles are nearly equal: 13 rows are 6 and 7, not 12 and 1.
  std::size_t first_row_of(std::size_t tile) const {
    return task_.rows * tile / divide_up(task_.rows, kTileRows);
  }

  // Sets where the tiles' input is: rows from `row` on, and columns of a part.
  void prepare_rows(std::size_t row, std::size_t end_row, Part part) {
    first_row_ = row;
    in_ = task_.in + row * task_.in_stride + part.begin * Step::kInputs;
    in_stride_ = task_.in_stride;
#if TROUPE_PAIR_TARGET
    if constexpr (kPairs) {
      const float* from = task_.in + row * task_.in_stride + 2 * part.begin;
      in_stride_ = pair_stride(part.end - part.begin);
      float* const pairs = block_memory();
      for (in_ = pairs; row < end_row; ++row, from += task_.in_stride)
        round_to_pairs(from, part.columns, pairs + (row - first_row_) * in_stride_);
    }
#endif
    static_cast<void>(end_row);
  }

  // Multiplies a block of tiles with one part of every panel. The next pass begins with word
  // `following`.
  void pass(std::size_t first_tile, std::size_t end_tile, Part part, std::size_t following) const {
    const bool widen = kWidens && end_tile - first_tile >= kTilesWorthWidening;
    using WideStep = std::conditional_t<kWidens, FloatStep, Step>;
    const auto& ops = widen ? kOnePanel<WideStep> : kOnePanel<Step>;
    const std::size_t steps = widen ? part.columns : part.end - part.begin;
    const std::size_t lines = (part.end - part.begin) * kPanel / kLineFloats;
    const std::size_t rounds = std::max<std::size_t>(1, steps / kRound);
    const std::size_t per_round = divide_up(lines, rounds * (end_tile - first_tile));
    for (std::size_t group = first_; group < end_; group += kGroup) {
      const std::size_t group_end = std::min(end_, group + kGroup);
      const float* widened = nullptr;
      if constexpr (kWidens)
        if (widen) widened = widen_group(group, group_end, part);
      for (std::size_t t = first_tile; t < end_tile; ++t) {
        const std::size_t row = first_row_of(t);
        for (std::size_t panel = group; panel < group_end; ++panel) {
          Tile job = tile(row, panel, part);
          if (widened != nullptr) {
            job.weights = widened + (panel - group) * part.columns * kPanel;
            job.steps = part.columns, job.half = false;
          }
          const std::size_t done = (t - first_tile) * rounds * per_round;
          const float* const next = weights_after(panel, panel - group, part, following);
          if (next != nullptr && done < lines) {
            job.ahead = next + done * kLineFloats;
            job.ahead_lines = per_round;
          }
          const std::size_t rows = first_row_of(t + 1) - row;
          run_one(ops[rows - 1], job, rows, panel);
        }
      }
    }
  }

  // Widens a part of a group's panels: [panel][columns][kPanel].
  const float* widen_group(std::size_t group, std::size_t group_end, Part part) const {
    float* const widened = block_memory();
    for (std::size_t panel = group; panel < group_end; ++panel)
      widen_panel(weight_.panel(panel) + part.begin * kPanel, part.columns,
                  widened + (panel - group) * part.columns * kPanel);
    return widened;
  }

  // Returns the weights that a pass needs after this group, to prefetch them; null if there are
  // none.
  const float* weights_after(std::size_t panel, std::size_t place_in_group, Part part,
                             std::size_t following) const {
    if (panel + kGroup < end_) return weight_.panel(panel + kGroup) + part.begin * kPanel;
    if (following == nothing_follows || first_ + place_in_group >= end_) return nullptr;
    return weight_.panel(first_ + place_in_group) + following * kPanel;
  }

  Tile tile(std::size_t row, std::size_t panel, Part part) const {
    const bool half = kWidens && part.columns % 2 != 0;
    const bool scales = makes_values(), last = part.end == weight_.words();
    const std::size_t column = panel * kPanel;
    const ColumnScales& of = task_.column_scales;
    return {.in = in_ + (row - first_row_) * in_stride_,
            .in_stride = in_stride_,
            .weights = weight_.panel(panel) + part.begin * kPanel,
            .panel_floats = panel_floats_,
            .steps = part.end - part.begin - (half ? 1 : 0),
            .half = half,
            .ahead = nullptr,
            .ahead_lines = 0,
            .bias = part.begin == 0 ? weight_.bias(panel) : nullptr,
            .out = task_.out + row * task_.out_stride + column,
            .out_stride = task_.out_stride,
            .add = (task_.add && !scales) || part.begin > 0,
            .row_scales = scales && last ? task_.row_scales + row : nullptr,
            .columns = scales ? ColumnScales{of.scales + column, of.sums + column, of.bias + column} : of,
            .add_values = task_.add && scales};
  }

  // Multiplies a tile with one panel; only the columns that exist are read and written.
  void run_one(const TileOp& op, const Tile& job, std::size_t rows, std::size_t panel) const {
    const std::size_t columns = std::min(kPanel, weight_.rows() - panel * kPanel);
    if (columns == kPanel) return op.run(job);
    HWY_ALIGN float padded[kTileRows * kPanel] = {};
    if (job.add || job.add_values) copy_rows(job.out, job.out_stride, padded, kPanel, rows, columns);
    Tile inside = job;
    inside.out = padded;
    inside.out_stride = kPanel;
    op.run(inside);
    copy_rows(padded, kPanel, job.out, job.out_stride, rows, columns);
  }

  static void copy_rows(const float* from, std::size_t from_stride, float* to, std::size_t to_stride,
                        std::size_t rows, std::size_t columns) {
    for (std::size_t i = 0; i < rows; ++i)
      std::memcpy(to + i * to_stride, from + i * from_stride, columns * sizeof(float));
  }

  const PackedMatrix& weight_;
  const ProductTask& task_;
  std::size_t first_, end_;  // panels
  std::size_t panel_floats_;
  const float* in_ = nullptr;  // the prepared rows, from `first_row_` on
  std::size_t in_stride_ = 0, first_row_ = 0;
};

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
