#pragma once
// Converts a DecoderBatch to the plain arrays that a pass uploads, packed into one buffer. Every
// token whose keys and values are read has an address: in a cached page, in a page where its
// segment is kept, or in the executor's scratch pages.
//
// Passes of one shape run the same launches with the same arguments, so that one recording serves
// them all. Therefore numbers of rows and blocks are rounded up and padded with rows and blocks
// that do nothing, and array offsets depend only on the shape. Arrays whose lengths no launch
// depends on follow in a heap, and are found by indices counted from its start.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/kernels/attend_plan.h"
#include "kernels/cuda/kernels/decoder_kernels.h"
#include "kernels/decoder/decoder_batch.h"

namespace troupe::kernels::cuda {

// Maximum sizes of an executor's passes.
struct PassBounds {
  std::uint32_t rows = 0;
  std::uint32_t keys = 0;  // keys seen by groups of rows, summed over the groups
  std::uint32_t logits = 0;
  std::size_t plan_bytes = 0;
  std::uint32_t state = 0;  // numbers of a state; a read state takes as much space as that many logits
};

// Addresses of the paths of a group of beams (BatchPlanner::plan_beams).
struct GroupTail {
  std::vector<std::byte*> slots;          // of its rows' own tokens; null: no later level reads the token
  std::vector<const std::byte*> earlier;  // [row][earlier token of its path]
};

// The exact plan, before it is packed.
struct PassPlan {
  std::vector<std::byte*> slots;    // by row
  std::vector<std::byte*> cleared;  // unfilled tokens of kept pages, which are zeroed
  // Tokens whose keys are rotated before they are seen: source and destination, in scratch pages.
  std::vector<std::byte*> rotated;
  std::vector<std::int32_t> rotated_by;
  std::vector<const std::byte*> keys;  // of the groups, one after the other: context, then own rows
  AttendPlan attend, attend_read;      // all rows; rows with a readout
  std::vector<ReadoutBlock> readouts;
  std::vector<std::uint32_t> lists;  // vocabulary rows and read rows that `readouts` refers to
  // [readout of the batch] its first logit, or its first number of a state.
  std::vector<std::uint32_t> logits_at;
  std::uint32_t logits = 0;  // number of logits; numbers of states follow them
};

// Writes the slots of a kept segment's rows to `slots`, and appends the unused token slots of its
// pages to `cleared`, to be zeroed.
void place_kept(const KvLayout& layout, const KeptSegment& kept, std::byte** slots,
                std::vector<std::byte*>& cleared);

// Plans passes; reuses its memory from pass to pass.
class PassPlanner {
 public:
  // `scratch`: pages for as many tokens as there may be rows.
  PassPlanner(const KvLayout& layout, const AttendMachine& machine, const PassBounds& bounds,
              std::span<std::byte* const> scratch);

  // Plans the batch. Returns an empty string, or which bound the batch exceeds; then there is no
  // plan. `tails` has an entry per group of beams, and is empty for a batch of requests.
  std::string plan(const DecoderBatch& batch, std::span<const GroupTail> tails = {});
  const PassPlan& result() const { return plan_; }
  // Returns what the rows of the batch's groups see.
  std::span<const AttendGroup> groups() const { return groups_; }

 private:
  std::string excess(const DecoderBatch& batch, std::span<const GroupTail> tails) const;
  void place_rows(const DecoderBatch& batch, std::span<const GroupTail> tails);
  std::byte* scratch_slot(std::uint32_t token) const;
  std::byte* rotated(std::byte* from, std::uint32_t rotation, const DecoderBatch& batch);
  std::string list_keys(const DecoderBatch& batch, std::span<const GroupTail> tails);
  void list_tail(const RowGroup& group, const GroupTail* tail);
  void plan_readouts(const DecoderBatch& batch);

  const KvLayout layout_;
  const AttendMachine machine_;
  const PassBounds bounds_;
  const std::vector<std::byte*> scratch_;
  PassPlan plan_;
  std::vector<AttendGroup> groups_, read_groups_;
  std::uint32_t scratch_used_ = 0;                                      // tokens
  std::map<std::pair<std::byte*, std::uint32_t>, std::byte*> rotated_;  // by original slot and rotation
};

struct AttendShape {
  std::uint32_t items = 0, merges = 0, tile_vectors = 0;
  auto operator<=>(const AttendShape&) const = default;
};

// All numbers on which launches depend.
struct PassShape {
  std::uint32_t rows = 0, read_rows = 0, readouts = 0;
  AttendShape attend, attend_read;
  bool rotates_keys = false;  // true if keys of some tokens are rotated
  auto operator<=>(const PassShape&) const = default;
};
PassShape shape_of(const DecoderBatch& batch, const PassPlan& plan);

// Round sizes up. Rows grow by at most an eighth (or to 16), which costs time in proportion. Idle
// blocks cost almost nothing, so their number is rounded up to a power of two.
std::uint32_t rounded_rows(std::uint32_t rows);
std::uint32_t rounded_blocks(std::uint32_t blocks);

// Pointers into a packed pass, on the host or on the device.
struct PackedPass {
  std::uint32_t* cleared = nullptr;  // their number; the heap begins with their addresses
  std::uint32_t* rotated = nullptr;  // RotatedTokens::lists
  std::byte** slots = nullptr;
  std::uint32_t *tokens = nullptr, *positions = nullptr, *visible_begin = nullptr, *visible_end = nullptr;
  std::uint32_t *read_rows = nullptr, *read_begin = nullptr, *read_end = nullptr;
  AttendItem *items = nullptr, *read_items = nullptr;
  AttendMerge *merges = nullptr, *read_merges = nullptr;
  ReadoutBlock* readouts = nullptr;
  std::byte* heap = nullptr;
};
PackedPass packed_pass(const PassShape& shape, std::byte* at);
std::size_t packed_bytes(const PassShape& shape, const PassPlan& plan);
// Returns the byte offset of the key addresses in the heap.
std::size_t keys_in_heap(const PassPlan& plan);
// Writes packed_bytes bytes to `at`.
void pack(const DecoderBatch& batch, const PassPlan& plan, const PassShape& shape, std::byte* at);

}  // namespace troupe::kernels::cuda
