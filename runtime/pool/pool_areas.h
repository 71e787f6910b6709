#pragma once
// Defines the areas of a node's page pool and the kinds of blocks in each. The table below is the
// only place to add an area: one line, plus a member of ConfiguredShares if its share of the pages is
// configurable. Lists of areas in messages and configurations follow the table's order and may be
// shorter: a pool has the first areas of the table. The last area has no blocks: its pages are lent
// to inference workers, for rows of embedding tables (row_slab.h). Only nodes with such tables have
// it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/actor/metrics.h"

namespace troupe {

using KindSet = std::uint32_t;
constexpr KindSet kinds(auto... kinds) { return (0U | ... | (1U << static_cast<unsigned>(kinds))); }

// Initial shares of the pages, as configured (pool.item_share, pool.row_share).
struct ConfiguredShares {
  double item = 0, row = 0;
};

// One line per area: name, kinds of blocks, its initial share of the pages (null: it gets the
// remainder), gauges of its size and its used pages, counters of its evictions and of what it
// saved, gauges of what one page more would save and one page less would cost.
#define TROUPE_FOR_EACH_AREA(X)                                                                        \
  X(item,                                                                                              \
    kinds(SegmentKind::system, SegmentKind::item, SegmentKind::instruction, SegmentKind::discriminant, \
          SegmentKind::beam),                                                                          \
    &ConfiguredShares::item, Metric::item_pages, Metric::item_pages_used, Metric::blocks_evicted_item, \
    Metric::item_saved, Metric::item_page_more, Metric::item_page_less)                                \
  X(user, kinds(SegmentKind::user), nullptr, Metric::user_pages, Metric::user_pages_used,              \
    Metric::blocks_evicted_user, Metric::user_saved, Metric::user_page_more, Metric::user_page_less)   \
  X(row, 0, &ConfiguredShares::row, Metric::row_pages, Metric::row_pages_used, Metric::rows_evicted,   \
    Metric::row_saved, Metric::row_page_more, Metric::row_page_less)

enum class PoolArea : std::uint8_t {
#define TROUPE_X(name, ...) name,
  TROUPE_FOR_EACH_AREA(TROUPE_X)
#undef TROUPE_X
};

struct AreaRow {
  std::string_view name;
  KindSet kinds;
  double ConfiguredShares::*share;
  Metric pages, pages_used, evicted, saved, page_more, page_less;
};
inline constexpr AreaRow area_table[] = {
#define TROUPE_X(name, ...) {#name, __VA_ARGS__},
    TROUPE_FOR_EACH_AREA(TROUPE_X)
#undef TROUPE_X
};

constexpr std::size_t index_of(PoolArea area) { return static_cast<std::size_t>(area); }
constexpr PoolArea area_of(SegmentKind kind) {
  std::size_t i = 0;
  while (i + 1 < std::size(area_table) && !(area_table[i].kinds & kinds(kind))) ++i;
  return static_cast<PoolArea>(i);
}

// Share of the area that gets the remaining pages; other shares are fractions of all pages.
inline constexpr double remaining_pages = -1;
// Returns the shares of the table's areas. Without `has_rows`, only those of areas with blocks.
inline std::vector<double> area_shares(const ConfiguredShares& configured, bool has_rows) {
  std::vector<double> shares;
  for (const AreaRow& row : area_table)
    if (row.kinds != 0 || has_rows) shares.push_back(row.share ? configured.*row.share : remaining_pages);
  return shares;
}
// Sizes areas in order, earlier ones first (BAT §5.1). All pages are assigned if one area gets the
// remainder.
std::vector<std::uint32_t> split_pages(std::uint32_t pages, std::span<const double> shares);

}  // namespace troupe
