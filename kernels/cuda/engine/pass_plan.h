#pragma once
// What a pass sends to the device: plain arrays made from a DecoderBatch, packed into one buffer that is
// uploaded once. Every token whose keys and values somebody reads has an address: in a cached page, in a page
// where its segment is kept, or in the executor's scratch pages.
//
// Passes of one shape run the same launches with the same arguments, so that one recording serves them all.
// So numbers of rows and blocks are rounded up, the rest filled with rows and blocks that do nothing, and
// arrays lie at offsets that follow from the shape. Arrays whose lengths no launch depends on lie behind
// them, in a heap, and are found by numbers that count from its start.
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

// What an executor has room for.
struct PassBounds {
  std::uint32_t rows = 0;
  std::uint32_t keys = 0;  // seen by groups of rows, summed over the groups
  std::uint32_t logits = 0;
  std::size_t plan_bytes = 0;
  std::uint32_t state = 0;  // numbers of a state; read ones take as much room as so many logits
};

// Where the paths of a group of beams lie (BatchPlanner::plan_beams).
struct GroupTail {
  std::vector<std::byte*> slots;          // of its rows' own tokens; null: of which no later level asks
  std::vector<const std::byte*> earlier;  // [row][token of its path before that one]
};

// Exact, before it is packed.
struct PassPlan {
  std::vector<std::byte*> slots;    // of rows
  std::vector<std::byte*> cleared;  // unfilled tokens of kept pages, which become zeros
  std::vector<std::byte*>
      turned;  // tokens whose keys turn before they are seen: from and to, in scratch pages
  std::vector<std::int32_t> turned_by;
  std::vector<const std::byte*> keys;  // of groups, one after the other: context, then their own rows
  AttendPlan attend, attend_read;      // all rows; those with a readout
  std::vector<ReadoutBlock> readouts;
  std::vector<std::uint32_t> lists;      // vocabulary rows and read rows of `readouts`
  std::vector<std::uint32_t> logits_at;  // of the batch's readouts: their first logit, or number of a state
  std::uint32_t logits = 0;              // numbers of states come behind them
};

// Slots of a kept segment's rows, from `slots` on, in its pages; and the places behind them, which become
// zeros.
void place_kept(const KvLayout& layout, const KeptSegment& kept, std::byte** slots,
                std::vector<std::byte*>& cleared);

// Reuses its memory from pass to pass.
class PassPlanner {
 public:
  // `scratch`: pages for as many tokens as there may be rows.
  PassPlanner(const KvLayout& layout, const AttendMachine& machine, const PassBounds& bounds,
              std::span<std::byte* const> scratch);

  // Empty, or what of the batch goes beyond the bounds; then there is no plan.
  // `tails`: of groups of beams, one each; none where the batch is of requests.
  std::string plan(const DecoderBatch& batch, std::span<const GroupTail> tails = {});
  const PassPlan& result() const { return plan_; }
  // Of the batch's groups: what their rows see.
  std::span<const AttendGroup> groups() const { return groups_; }

 private:
  std::string excess(const DecoderBatch& batch, std::span<const GroupTail> tails) const;
  void place_rows(const DecoderBatch& batch, std::span<const GroupTail> tails);
  std::byte* scratch_slot(std::uint32_t token) const;
  std::byte* turned(std::byte* from, std::uint32_t turn, const DecoderBatch& batch);
  std::string list_keys(const DecoderBatch& batch, std::span<const GroupTail> tails);
  void list_tail(const RowGroup& group, const GroupTail* tail);
  void plan_readouts(const DecoderBatch& batch);

  const KvLayout layout_;
  const AttendMachine machine_;
  const PassBounds bounds_;
  const std::vector<std::byte*> scratch_;
  PassPlan plan_;
  std::vector<AttendGroup> groups_, read_groups_;
  std::uint32_t scratch_used_ = 0;                                     // tokens
  std::map<std::pair<std::byte*, std::uint32_t>, std::byte*> turned_;  // of the batch: by place and turn
};

struct AttendShape {
  std::uint32_t items = 0, merges = 0, tile_vectors = 0;
  auto operator<=>(const AttendShape&) const = default;
};

// All that launches depend on.
struct PassShape {
  std::uint32_t rows = 0, read_rows = 0, readouts = 0;
  AttendShape attend, attend_read;
  bool turns = false;  // keys of some tokens
  auto operator<=>(const PassShape&) const = default;
};
PassShape shape_of(const DecoderBatch& batch, const PassPlan& plan);

// Rows are rounded up by at most an eighth of them (or to 16), which costs as much time; blocks that do
// nothing cost nearly none, so their numbers go up to powers of two.
std::uint32_t rounded_rows(std::uint32_t rows);
std::uint32_t rounded_blocks(std::uint32_t blocks);

// A packed pass, on the host or on the device.
struct PackedPass {
  std::uint32_t* cleared = nullptr;  // how many: the heap begins with their addresses
  std::uint32_t* turned = nullptr;   // TurnedTokens::lists
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
// Where the addresses of keys lie in the heap, in bytes.
std::size_t keys_in_heap(const PassPlan& plan);
// Writes packed_bytes to `at`.
void pack(const DecoderBatch& batch, const PassPlan& plan, const PassShape& shape, std::byte* at);

}  // namespace troupe::kernels::cuda
