#pragma once
// Keys and values of the paths of one beam search while it runs (xGR §5.1, the unshared cache), token by
// token: each level's beams lie side by side where they were computed (PathRows). Of copied paths each has
// pages of its own; of a tree all that was computed stays in sight, and a mask says which of it a path sees.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/engine/decoder_buffer.h"
#include "kernels/cpu/engine/decoder_kv.h"
#include "kernels/decoder/decoder.h"
#include "kernels/decoder/searching.h"

namespace troupe::kernels {

class BeamTails {
 public:
  // Of a search with so many paths of so many tokens: its keys and values, and the mask of a tree.
  static std::size_t mask_bytes(std::uint32_t width, std::uint32_t steps, BeamPaths paths);
  static std::size_t bytes(const KvLayout& model, std::uint32_t width, std::uint32_t steps,
                           BeamPaths paths = BeamPaths::together);

  void begin(const KvLayout& model, std::uint32_t width, std::uint32_t steps,
             BeamPaths paths = BeamPaths::together);
  // The next level's row r follows this level's row parents[r]. Not for the first level, whose parent is the
  // prompt.
  void follow(std::span<const std::uint32_t> parents);
  // Tokens of a path that its newest one sees, itself included.
  std::uint32_t path() const { return rows_.path(); }

  // Of a tree: the next pass has so many rows; makes the mask of what they see. Tokens of the tree, these
  // rows with it.
  std::uint32_t grow(std::uint32_t rows);
  // Of a row of this level; null where paths are no tree.
  const float* mask(std::uint32_t row) const;
  std::size_t mask_stride() const { return mask_stride_; }

  // Takes a layer of this level's rows [0, rows), which are first_row and so on of the pass, unless no later
  // level asks for it.
  void keep(const LayerKv& pass, std::uint32_t first_row, std::uint32_t rows, std::uint32_t layer);
  // Replaces `runs` by the paths of rows [row, row + rows), one after the other: path() tokens each, the
  // newest one in the pass, where row 0 is first_row. Of a tree: by all its tokens, whichever the row.
  void resolve(const LayerKv& pass, std::uint32_t first_row, std::uint32_t row, std::uint32_t rows,
               std::uint32_t layer, std::uint32_t head, std::vector<KvRun>& runs) const;

 private:
  std::byte* page_of(std::uint32_t row) const;  // of a path that is copied
  void resolve_tree(const LayerKv& pass, std::uint32_t first_row, std::uint32_t layer, std::uint32_t head,
                    std::vector<KvRun>& runs) const;

  BeamPaths paths_ = BeamPaths::together;
  KvLayout layout_;   // one page with room for all tokens; of copied paths each has one
  bool odd_ = false;  // which half of the copies is this level's
  std::uint32_t width_ = 0;
  PathRows rows_;
  FloatBuffer tokens_;  // [level][row], in layout_
  // Of a tree.
  std::vector<std::uint32_t> level_rows_;  // [level], the one at hand included
  std::size_t mask_stride_ = 0;
  FloatBuffer mask_;  // [row of this level][token of the tree]
};

}  // namespace troupe::kernels
