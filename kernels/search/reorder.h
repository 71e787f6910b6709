#pragma once
// Moves the rows of a level's beams to the rows of the next level's beams in one buffer (xGR §5.1).
// A kept path has its keys and values, or its tokens, in its row, so later reads are contiguous and
// nothing is stored twice.
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::kernels {

// Sets row r to the former row parents[r], for rows of `bytes` each, stored one after another. A
// row may have several children, or none; the buffer must hold the rows before and after. `parents`
// must not descend.
//
// The paper makes two passes: first rows that come from a higher row, the lowest first; then rows
// that come from a lower one, the highest first. A pass never overwrites a row that it still reads.
// But the first pass may overwrite what the second reads: with parents 1, 0 row 0 is lost before
// row 1 needs it. The passes are right exactly if no row that is taken from above has a child below
// itself (parents[p] > p, and parents[r] = p with r > p). Parents that do not descend exclude this
// case: r > p would need parents[r] >= parents[p] > p. A search that keeps its rows in the order of
// their paths has such parents.
void reorder_rows(std::byte* rows, std::size_t bytes, std::span<const std::uint32_t> parents);

}  // namespace troupe::kernels
