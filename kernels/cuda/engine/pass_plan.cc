// Converts the plan of a decoder pass to plain arrays in one buffer for a single upload. Every
// token that attention reads gets its address in device memory. Sizes are rounded up, so that few
// shapes cover all passes.
#include "kernels/cuda/engine/pass_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/cuda/engine/packing.h"

namespace troupe::kernels::cuda {
namespace {

std::string beyond(const char* what, std::size_t found, std::size_t most) {
  return "a pass of " + std::to_string(found) + " " + what + "; expected at most " + std::to_string(most);
}

// Byte offsets of the heap's parts: addresses first, so that everything is aligned.
struct Heap {
  std::size_t rotated, keys, tiles, read_tiles, lists, rotated_by, end;

  explicit Heap(const PassPlan& plan)
      : rotated(bytes(plan.cleared)),
        keys(rotated + bytes(plan.rotated)),
        tiles(keys + bytes(plan.keys)),
        read_tiles(tiles + bytes(plan.attend.key_tiles)),
        lists(read_tiles + bytes(plan.attend_read.key_tiles)),
        rotated_by(lists + bytes(plan.lists)),
        end(rotated_by + bytes(plan.rotated_by)) {}

  template <class T>
  static std::size_t bytes(const std::vector<T>& all) {
    return all.size() * sizeof(T);
  }
};

// Returns the index of the heap's first T at that offset, counted from the start of the heap.
template <class T>
std::uint32_t number_at(std::size_t bytes) {
  return static_cast<std::uint32_t>(bytes / sizeof(T));
}

AttendShape shape_of(const AttendPlan& plan) {
  return {rounded_blocks(size32(plan.items)), rounded_blocks(size32(plan.merges)), plan.tile_vectors};
}

}  // namespace

PassPlanner::PassPlanner(const KvLayout& layout, const AttendMachine& machine, const PassBounds& bounds,
                         std::span<std::byte* const> scratch)
    : layout_(layout), machine_(machine), bounds_(bounds), scratch_(scratch.begin(), scratch.end()) {
  TROUPE_CHECK(scratch.size() == layout.pages_for(bounds.rows), "there are scratch pages for every row");
}

std::string PassPlanner::plan(const DecoderBatch& batch, std::span<const GroupTail> tails) {
  TROUPE_CHECK(tails.empty() || tails.size() == batch.groups.size(), "there is one tail per group of beams");
  if (std::string fault = excess(batch, tails); !fault.empty()) return fault;
  place_rows(batch, tails);
  if (std::string fault = list_keys(batch, tails); !fault.empty()) return fault;
  plan_attention(machine_, groups_, batch.visible_begin, batch.visible_end, plan_.attend);
  plan_attention(machine_, read_groups_, batch.read.begin, batch.read.end, plan_.attend_read);
  plan_readouts(batch);
  const std::size_t bytes = packed_bytes(cuda::shape_of(batch, plan_), plan_);
  return bytes > bounds_.plan_bytes ? beyond("bytes of plan", bytes, bounds_.plan_bytes) : "";
}

std::string PassPlanner::excess(const DecoderBatch& batch, std::span<const GroupTail> tails) const {
  if (batch.rows() > bounds_.rows) return beyond("rows", batch.rows(), bounds_.rows);
  std::size_t keys = batch.rows(), logits = 0;
  for (const ContextSpan& span : batch.spans) keys += span.tokens;
  for (const GroupTail& tail : tails) keys += tail.earlier.size();
  for (const BatchReadout& readout : batch.readouts)
    logits += readout.what == Readout::What::state ? bounds_.state : readout.vocabulary_rows.size();
  if (keys > bounds_.keys) return beyond("keys", keys, bounds_.keys);
  return logits > bounds_.logits ? beyond("logits", logits, bounds_.logits) : "";
}

// Assigns slots to rows: kept rows in their pages, other rows in scratch pages, one after the
// other.
void PassPlanner::place_rows(const DecoderBatch& batch, std::span<const GroupTail> tails) {
  plan_.slots.assign(batch.rows(), nullptr);
  plan_.cleared.clear();
  for (const KeptSegment& kept : batch.kept)
    place_kept(layout_, kept, plan_.slots.data() + kept.row, plan_.cleared);
  for (std::size_t g = 0; g < tails.size(); ++g)
    std::ranges::copy(tails[g].slots, plan_.slots.begin() + batch.groups[g].row_begin);
  scratch_used_ = 0;
  for (std::byte*& slot : plan_.slots)
    if (slot == nullptr) slot = scratch_slot(scratch_used_++);
}

std::byte* PassPlanner::scratch_slot(std::uint32_t token) const {
  return scratch_[token / layout_.page_tokens] + token % layout_.page_tokens * layout_.vector_bytes();
}

// Returns the slot of a rotated token's copy; null if scratch is full. A token is rotated once,
// however many groups see it.
std::byte* PassPlanner::rotated(std::byte* from, std::uint32_t rotation, const DecoderBatch& batch) {
  const auto [at, is_new] = rotated_.try_emplace({from, rotation}, nullptr);
  if (!is_new) return at->second;
  if (scratch_used_ == bounds_.rows) return nullptr;
  at->second = scratch_slot(scratch_used_++);
  plan_.rotated.insert(plan_.rotated.end(), {from, at->second});
  plan_.rotated_by.push_back(batch.rotation_distances[rotation - 1]);
  return at->second;
}

void place_kept(const KvLayout& layout, const KeptSegment& kept, std::byte** slots,
                std::vector<std::byte*>& cleared) {
  const std::uint32_t places = static_cast<std::uint32_t>(kept.pages.size()) * layout.page_tokens;
  for (std::uint32_t t = 0; t < places; ++t) {
    std::byte* const at = kept.pages[t / layout.page_tokens] + t % layout.page_tokens * layout.vector_bytes();
    if (t < kept.tokens)
      slots[t] = at;
    else
      cleared.push_back(at);
  }
}

std::string PassPlanner::list_keys(const DecoderBatch& batch, std::span<const GroupTail> tails) {
  plan_.keys.clear();
  plan_.rotated.clear();
  plan_.rotated_by.clear();
  rotated_.clear();
  groups_.clear();
  read_groups_.clear();
  for (std::size_t g = 0; g < batch.groups.size(); ++g) {
    const RowGroup& group = batch.groups[g];
    const std::uint32_t begin = size32(plan_.keys);
    for (std::uint32_t s = group.span_begin; s < group.span_end; ++s) {
      const ContextSpan& span = batch.spans[s];
      for (std::uint32_t t = 0; t < span.tokens; ++t) {
        const std::byte* key = span.page != nullptr ? span.page + (span.slot + t) * layout_.vector_bytes()
                                                    : plan_.slots[span.row + t];
        if (span.rotation != 0) key = rotated(const_cast<std::byte*>(key), span.rotation, batch);
        if (key == nullptr) return beyond("rows and rotated tokens", bounds_.rows + 1, bounds_.rows);
        plan_.keys.push_back(key);
      }
    }
    const std::uint32_t context = size32(plan_.keys) - begin;
    list_tail(group, tails.empty() ? nullptr : &tails[g]);
    const std::uint32_t tail = size32(plan_.keys) - begin - context;
    groups_.push_back({group.row_begin, group.row_end, begin, context, tail});
    const RowSet::Range read = batch.read.groups[g];
    if (read.begin < read.end) read_groups_.push_back({read.begin, read.end, begin, context, tail});
  }
  return "";
}

// Lists the keys of the group's rows; for beams, each row's path with its own token last.
void PassPlanner::list_tail(const RowGroup& group, const GroupTail* tail) {
  if (tail == nullptr) {
    plan_.keys.insert(plan_.keys.end(), plan_.slots.begin() + group.row_begin,
                      plan_.slots.begin() + group.row_end);
    return;
  }
  const std::size_t rows = group.row_end - group.row_begin, earlier = tail->earlier.size() / rows;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto first = tail->earlier.begin() + static_cast<std::ptrdiff_t>(r * earlier);
    plan_.keys.insert(plan_.keys.end(), first, first + static_cast<std::ptrdiff_t>(earlier));
    plan_.keys.push_back(plan_.slots[group.row_begin + r]);
  }
}

// Plans readouts; consecutive readouts of the same rows are computed together.
void PassPlanner::plan_readouts(const DecoderBatch& batch) {
  plan_.readouts.clear(), plan_.lists.clear(), plan_.logits_at.clear();
  plan_.logits = 0;
  const std::span<const BatchReadout> all = batch.readouts;
  for (std::size_t first = 0, end = 0; first < all.size(); first = end) {
    const std::span<const Token> rows = all[first].vocabulary_rows;
    const std::uint32_t row_list = size32(plan_.lists), count = static_cast<std::uint32_t>(rows.size());
    for (const Token row : rows) plan_.lists.push_back(static_cast<std::uint32_t>(row));
    const std::uint32_t state_list = size32(plan_.lists), out = plan_.logits;
    for (end = first; end < all.size() && std::ranges::equal(all[end].vocabulary_rows, rows); ++end) {
      plan_.lists.push_back(all[end].read_row);
      plan_.logits_at.push_back(plan_.logits);
      plan_.logits += count;
    }
    const auto states = static_cast<std::uint32_t>(end - first);
    for (std::uint32_t r = 0; r < count; r += readout_block_rows)
      for (std::uint32_t s = 0; s < states; s += readout_block_states)
        plan_.readouts.push_back({row_list + r, std::min(readout_block_rows, count - r), state_list + s,
                                  std::min(readout_block_states, states - s), out + s * count + r, count});
  }
  std::uint32_t states = plan_.logits;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].what == Readout::What::state)
      plan_.logits_at[i] = std::exchange(states, states + bounds_.state);
}

std::uint32_t rounded_rows(std::uint32_t rows) {
  if (rows == 0) return 0;
  const std::uint32_t step = std::max(16u, std::bit_floor(rows) / 8);
  return (rows + step - 1) / step * step;
}

std::uint32_t rounded_blocks(std::uint32_t blocks) {
  return blocks == 0 ? 0 : std::max(16u, std::bit_ceil(blocks));
}

PassShape shape_of(const DecoderBatch& batch, const PassPlan& plan) {
  return {rounded_rows(batch.rows()),
          rounded_rows(size32(batch.read.rows)),
          rounded_blocks(size32(plan.readouts)),
          shape_of(plan.attend),
          shape_of(plan.attend_read),
          !plan.rotated.empty()};
}

PackedPass packed_pass(const PassShape& shape, std::byte* at) {
  const auto take = [&]<class T>(T*& array, std::size_t count) { take_packed(array, count, at); };
  PackedPass pass;
  take(pass.cleared, 1);
  take(pass.rotated, 3);
  take(pass.slots, shape.rows);
  for (auto array :
       {&PackedPass::tokens, &PackedPass::positions, &PackedPass::visible_begin, &PackedPass::visible_end})
    take(pass.*array, shape.rows);
  for (auto array : {&PackedPass::read_rows, &PackedPass::read_begin, &PackedPass::read_end})
    take(pass.*array, shape.read_rows);
  take(pass.items, shape.attend.items);
  take(pass.merges, shape.attend.merges);
  take(pass.read_items, shape.attend_read.items);
  take(pass.read_merges, shape.attend_read.merges);
  take(pass.readouts, shape.readouts);
  pass.heap = at;
  return pass;
}

std::size_t packed_bytes(const PassShape& shape, const PassPlan& plan) {
  std::byte* const anywhere = reinterpret_cast<std::byte*>(packing_alignment);
  return static_cast<std::size_t>(packed_pass(shape, anywhere).heap - anywhere) + Heap(plan).end;
}

std::size_t keys_in_heap(const PassPlan& plan) { return Heap(plan).keys; }

namespace {

// Copies, and pads with entries that do nothing.
template <class From, class To>
void fill(To* to, const std::vector<From>& from, std::size_t count) {
  TROUPE_CHECK(from.size() <= count, "a shape is at least as large as its pass");
  std::fill(std::copy(from.begin(), from.end(), to), to + count, To{});
}

template <class T>
void put(std::byte* heap, std::size_t at, const std::vector<T>& from) {
  if (!from.empty()) std::memcpy(heap + at, from.data(), from.size() * sizeof(T));
}

void pack_attention(const AttendPlan& plan, const AttendShape& shape, std::size_t keys, std::size_t tiles,
                    AttendItem* items, AttendMerge* merges) {
  fill(items, plan.items, shape.items);
  for (AttendItem& item : std::span(items, plan.items.size())) {
    item.key_begin += number_at<std::byte*>(keys);
    item.tile_begin += number_at<KeyTile>(tiles);
    item.tile_end += number_at<KeyTile>(tiles);
  }
  fill(merges, plan.merges, shape.merges);
}

}  // namespace

void pack(const DecoderBatch& batch, const PassPlan& plan, const PassShape& shape, std::byte* at) {
  const PackedPass to = packed_pass(shape, at);
  const Heap heap(plan);
  *to.cleared = size32(plan.cleared);
  to.rotated[0] = size32(plan.rotated_by);
  to.rotated[1] = number_at<std::byte*>(heap.rotated);
  to.rotated[2] = number_at<std::int32_t>(heap.rotated_by);
  fill(to.slots, plan.slots, shape.rows);
  fill(to.tokens, batch.tokens, shape.rows);
  fill(to.positions, batch.positions, shape.rows);
  fill(to.visible_begin, batch.visible_begin, shape.rows);
  fill(to.visible_end, batch.visible_end, shape.rows);
  fill(to.read_rows, batch.read.rows, shape.read_rows);
  fill(to.read_begin, batch.read.begin, shape.read_rows);
  fill(to.read_end, batch.read.end, shape.read_rows);
  pack_attention(plan.attend, shape.attend, heap.keys, heap.tiles, to.items, to.merges);
  pack_attention(plan.attend_read, shape.attend_read, heap.keys, heap.read_tiles, to.read_items,
                 to.read_merges);
  fill(to.readouts, plan.readouts, shape.readouts);
  for (ReadoutBlock& block : std::span(to.readouts, plan.readouts.size())) {
    block.row_begin += number_at<std::uint32_t>(heap.lists);
    block.state_begin += number_at<std::uint32_t>(heap.lists);
  }
  put(to.heap, 0, plan.cleared);
  put(to.heap, heap.rotated, plan.rotated);
  put(to.heap, heap.keys, plan.keys);
  put(to.heap, heap.tiles, plan.attend.key_tiles);
  put(to.heap, heap.read_tiles, plan.attend_read.key_tiles);
  put(to.heap, heap.lists, plan.lists);
  put(to.heap, heap.rotated_by, plan.rotated_by);
}

}  // namespace troupe::kernels::cuda
