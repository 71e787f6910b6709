#pragma once
// Keys and values of the paths of one beam search while it runs (xGR §5.1, the unshared cache),
// token by token. Each level's beams are side by side where they were computed (PathRows). Copied
// paths have pages of their own. A tree keeps all that was computed, and a mask says which of it a
// path sees.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/engine/decoder_buffer.h"
#include "kernels/cpu/engine/decoder_kv.h"
#include "kernels/decoder/decoder.h"
#include "kernels/decoder/search_progress.h"

namespace troupe::kernels {

class BeamTails {
 public:
  // Bytes of the mask of a tree, and of keys, values and mask together, for a search with so many
  // paths of so many tokens.
  static std::size_t mask_bytes(std::uint32_t width, std::uint32_t steps, BeamPaths paths);
  static std::size_t bytes(const KvLayout& model, std::uint32_t width, std::uint32_t steps,
                           BeamPaths paths = BeamPaths::together);

  void begin(const KvLayout& model, std::uint32_t width, std::uint32_t steps,
             BeamPaths paths = BeamPaths::together);
  // Advances to the next level, whose row r follows this level's row parents[r]. Not called for the
  // first level, whose parent is the prompt.
  void follow(std::span<const std::uint32_t> parents);
  // Number of tokens of a path that its newest one sees, itself included.
  std::uint32_t path() const { return rows_.path(); }

  // Trees only: adds the `rows` rows of the next pass and makes the mask of what they see. Returns
  // the tokens of the tree, these rows included.
  std::uint32_t grow(std::uint32_t rows);
  // Returns the mask of a row of this level; null if the paths are not a tree.
  const float* mask(std::uint32_t row) const;
  std::size_t mask_stride() const { return mask_stride_; }

  // Copies a layer of this level's rows [0, rows), which are rows [first_row, first_row + rows) of
  // the pass. Does nothing if no later level needs them.
  void keep(const LayerKv& pass, std::uint32_t first_row, std::uint32_t rows, std::uint32_t layer);
  // Sets `runs` to the paths of rows [row, row + rows), path after path: path() tokens each. The
  // newest token is in the pass, where row 0 is first_row. For a tree, sets `runs` to all its
  // tokens, whatever the row.
  void resolve(const LayerKv& pass, std::uint32_t first_row, std::uint32_t row, std::uint32_t rows,
               std::uint32_t layer, std::uint32_t head, std::vector<KvRun>& runs) const;

 private:
  std::byte* page_of(std::uint32_t row) const;  // of a copied path
  void resolve_tree(const LayerKv& pass, std::uint32_t first_row, std::uint32_t layer, std::uint32_t head,
                    std::vector<KvRun>& runs) const;

  BeamPaths paths_ = BeamPaths::together;
  KvLayout layout_;   // one page that holds all tokens; copied paths have one page each
  bool odd_ = false;  // which half of the copies belongs to this level
  std::uint32_t width_ = 0;
  PathRows rows_;
  FloatBuffer tokens_;  // [level][row], in layout_
  // Trees only.
  std::vector<std::uint32_t> level_rows_;  // [level], the current one included
  std::size_t mask_stride_ = 0;
  FloatBuffer mask_;  // [row of this level][token of the tree]
};

}  // namespace troupe::kernels
