// Vector versions of the matrix product. The input is split into blocks of rows (and, for a long
// sum, into parts of the columns) that stay in the second-level cache. Per block the weight is read
// once, two panels at a time, and each tile of rows is multiplied with both before the next tile,
// so that an output row grows by whole cache lines. While the tiles of a block work on one pair of
// panels they prefetch the next pair, which hides the latency of the weight's memory once a block
// has about 60 rows. A handful of rows takes several panels in one tile instead: more sums keep the
// multipliers busy, and there are more streams for the memory. Operations: 2 per row and weight.
// Bytes: the weight once per block of rows; the input once per block from memory and once per pair
// of panels from the cache; the output once.
#include "kernels/cpu/versions/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/products/product.cc"
#include "hwy/foreach_target.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/cpu/products/product.h"
#include "kernels/cpu/products/product_tile_inl.h"
#include "kernels/operations/versions.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

inline constexpr std::size_t kBlockBytes = 512 * 1024;  // of input, stays in the second-level cache
inline constexpr std::size_t kPartColumns = 1024;       // of a part, at most
inline constexpr std::size_t kGroup = std::max<std::size_t>(1, 64 / kPanel);  // panels that are read together
inline constexpr std::size_t kFewRows = kManyRegisters ? 6 : 2;

// Panels of one tile for R rows, where the registers allow more than one.
template <std::size_t R>
inline constexpr std::size_t kWide = R > kFewRows               ? 1
                                     : R <= 2 && kManyRegisters ? 4
                                                                : 2;

struct TileOp {
  decltype(&multiply_tile<1, 1>) run;
  std::size_t panels;
};
template <std::size_t... I>
constexpr std::array<TileOp, sizeof...(I)> one_panel_ops(std::index_sequence<I...>) {
  return {{{&multiply_tile<I + 1, 1>, 1}...}};
}
template <std::size_t... I>
constexpr std::array<TileOp, sizeof...(I)> wide_ops(std::index_sequence<I...>) {
  return {{{&multiply_tile<I + 1, kWide<I + 1>>, kWide<I + 1>}...}};
}
// [rows - 1].
inline constexpr auto kOnePanel = one_panel_ops(std::make_index_sequence<kTileRows>());
inline constexpr auto kFew = wide_ops(std::make_index_sequence<kFewRows>());

constexpr std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

// One call: a weight, the rows and the panels to multiply.
class Multiplication {
 public:
  Multiplication(const PackedMatrix& weight, const ProductTask& task)
      : weight_(weight),
        task_(task),
        first_(task.panel_begin),
        end_(std::min(task.panel_end, weight.panels())),
        panel_floats_(weight.columns() * kPanel) {}

  void run() const {
    if (task_.rows == 0 || first_ >= end_) return;
    if (task_.rows <= kFewRows)
      run_few();
    else
      run_blocks();
  }

 private:
  // Columns of the weight, [begin, end).
  struct Part {
    std::size_t begin, end;
  };
  static constexpr std::size_t nothing_follows = std::size_t(-1);

  void run_few() const {
    const TileOp& wide = kFew[task_.rows - 1];
    const std::size_t whole = std::min(end_, weight_.rows() / kPanel);  // panels without padding
    std::size_t panel = first_;
    for (; panel + wide.panels <= whole; panel += wide.panels)
      wide.run(tile(0, panel, {0, weight_.columns()}));
    for (; panel < end_; ++panel) run_one(tile(0, panel, {0, weight_.columns()}), task_.rows, panel);
  }

  void run_blocks() const {
    const std::size_t parts = divide_up(weight_.columns(), kPartColumns);
    const std::size_t part = divide_up(divide_up(weight_.columns(), parts), kRound) * kRound;
    const std::size_t tiles = divide_up(task_.rows, kTileRows);
    const std::size_t block_tiles =
        std::max<std::size_t>(1, kBlockBytes / (kTileRows * part * sizeof(float)));
    const std::size_t blocks = divide_up(tiles, block_tiles);
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t first_tile = tiles * block / blocks, end_tile = tiles * (block + 1) / blocks;
      for (std::size_t column = 0; column < weight_.columns(); column += part) {
        const Part here = {column, std::min(weight_.columns(), column + part)};
        const bool more = here.end < weight_.columns();
        pass(first_tile, end_tile, here, more ? here.end : block + 1 < blocks ? 0 : nothing_follows);
      }
    }
  }

  // Multiplies a block of tiles with one part of every panel. The next pass begins with column
  // `following`.
  void pass(std::size_t first_tile, std::size_t end_tile, Part part, std::size_t following) const {
    const std::size_t tiles = divide_up(task_.rows, kTileRows);
    const std::size_t lines = (part.end - part.begin) * kPanel / kLineFloats;
    const std::size_t rounds = std::max<std::size_t>(1, (part.end - part.begin) / kRound);
    const std::size_t per_round = divide_up(lines, rounds * (end_tile - first_tile));
    for (std::size_t group = first_; group < end_; group += kGroup) {
      const std::size_t group_end = std::min(end_, group + kGroup);
      for (std::size_t t = first_tile; t < end_tile; ++t) {
        // Tiles are nearly equal: 13 rows are 6 and 7, not 12 and 1.
        const std::size_t row = task_.rows * t / tiles, row_end = task_.rows * (t + 1) / tiles;
        for (std::size_t panel = group; panel < group_end; ++panel) {
          Tile job = tile(row, panel, part);
          const std::size_t done = (t - first_tile) * rounds * per_round;
          const float* const next = weights_after(panel, panel - group, part, following);
          if (next != nullptr && done < lines) {
            job.ahead = next + done * kLineFloats;
            job.ahead_lines = per_round;
          }
          run_one(job, row_end - row, panel);
        }
      }
    }
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
    return {.in = task_.in + row * task_.in_stride + part.begin,
            .in_stride = task_.in_stride,
            .weights = weight_.panel(panel) + part.begin * kPanel,
            .panel_floats = panel_floats_,
            .columns = part.end - part.begin,
            .ahead = nullptr,
            .ahead_lines = 0,
            .bias = part.begin == 0 ? weight_.bias(panel) : nullptr,
            .out = task_.out + row * task_.out_stride + panel * kPanel,
            .out_stride = task_.out_stride,
            .add = task_.add || part.begin > 0};
  }

  // Multiplies a tile with one panel; only the columns that exist are read and written.
  void run_one(const Tile& job, std::size_t rows, std::size_t panel) const {
    const auto run = kOnePanel[rows - 1].run;
    const std::size_t columns = std::min(kPanel, weight_.rows() - panel * kPanel);
    if (columns == kPanel) return run(job);
    HWY_ALIGN float padded[kTileRows * kPanel] = {};
    if (job.add) copy_rows(job.out, job.out_stride, padded, kPanel, rows, columns);
    Tile inside = job;
    inside.out = padded;
    inside.out_stride = kPanel;
    run(inside);
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
};

void product(const PackedMatrix& weight, const ProductTask& task) {
  TROUPE_CHECK(weight.panel_width() == kPanel,
               "product: the weight must be packed for the version that runs");
  Multiplication(weight, task).run();
}

std::size_t panel_width() { return kPanel; }

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

std::span<const ProductVersion> product_versions() {
  static const std::int64_t here = HWY_SUPPORTED_TARGETS;
  constexpr std::size_t reference_panel = 8;  // the reference accepts any width
#define TROUPE_ENTRY(name, space, target) \
  {name, space::panel_width(), &space::product, (here & (target)) != 0},
  static const ProductVersion versions[] = {
      TROUPE_TARGETS(TROUPE_ENTRY){"reference", reference_panel, &product_reference, true}};
#undef TROUPE_ENTRY
  return versions;
}

const ProductVersion& product_version() {
  static const ProductVersion& chosen = first_usable(product_versions());
  return chosen;
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
