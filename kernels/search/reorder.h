#pragma once
// The rows of a level's beams take the places of the next level's beams in one buffer (xGR §5.1): a path that
// is kept has its keys and values, or its tokens, where its row is, so what comes next reads neighbours and
// nothing is held twice.
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::kernels {

// Row r becomes what row parents[r] was, rows of `bytes` each one behind the other. A row may have several
// children, or none; the buffer has room for the rows before and after. `parents` must not descend.
//
// The paper's two passes (rows that come from a higher place, the lowest first; then those that come from a
// lower one, the highest first) never overwrite a row inside a pass that the pass still reads. But the first
// may overwrite what the second reads: with parents 1, 0 row 0 is gone before row 1 asks for it. The rule is
// right exactly if no row that takes another's place from above has a child below itself (parents[p] > p, and
// parents[r] = p with r > p). Where parents do not descend there is none: r > p would need parents[r] >=
// parents[p] > p. A search that keeps its rows in the order of their paths has such parents.
void reorder_rows(std::byte* rows, std::size_t bytes, std::span<const std::uint32_t> parents);

}  // namespace troupe::kernels
