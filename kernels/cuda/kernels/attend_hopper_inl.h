#pragma once
// Device code shared by the warpgroups of attend_hopper.cu, and the warpgroup that gathers.
#include "kernels/cuda/kernels/attend_block_inl.h"
#include "kernels/cuda/simt/simt_hopper.h"

namespace troupe::kernels::cuda {
namespace {

// An item that the producer passes to the consumers together with its queries. No vectors: there
// are no more items.
struct ItemHandoff {
  AttendItem item;
  std::uint32_t kv_head = 0;
};

// Sizes of a block with `groups` consumer groups. A block of one group leaves space for a second
// block on its multiprocessor and computes one item.
template <unsigned dim, unsigned groups>
struct HopperBlock {
  static constexpr unsigned consumer_warps = groups * group_warps, consumers = groups * group_threads;
  static constexpr unsigned threads = consumers + group_threads, resident = groups == 1 ? 2 : 1;
  static constexpr unsigned consumer_registers = groups == 1 ? 200 : 224, producer_registers = 56;
  static constexpr unsigned warp_vectors = 16, vectors = consumer_warps * warp_vectors;
  static constexpr unsigned keys = attend_key_tile;
  static constexpr bool one_item = groups == 1;

  static constexpr unsigned vector_bytes = dim * 2, tile_bytes = keys * vector_bytes;
  static constexpr unsigned stage_bytes = 2 * tile_bytes;  // keys, then values
  static constexpr unsigned column_bytes = keys * 128;     // 64 numbers of every key
  static constexpr unsigned stages = one_item ? 384 / dim : dim == 64 ? 8 : 5;
  static constexpr unsigned ahead = (stages - 1) / 2;  // tiles in flight behind the next announced

  // Query vectors are padded so that loads use different banks. A block with one item stores them
  // in the last stages until they are taken.
  static constexpr unsigned query_bytes = vector_bytes + 16, query_stages = 2;
  static constexpr unsigned query_start = (one_item ? stages - query_stages : stages) * stage_bytes;
  static_assert(vectors * query_bytes <= query_stages * stage_bytes);

  static constexpr unsigned full_start = stages * stage_bytes + (one_item ? 0 : vectors * query_bytes);
  static constexpr unsigned empty_start = full_start + stages * 8;  // mbarriers
  static constexpr unsigned queries_ready = empty_start + stages * 8, queries_taken = queries_ready + 8;
  static constexpr unsigned note_start = queries_taken + 8;
  static constexpr unsigned handed_start = note_start + stages * group_warps * 8;
  static constexpr unsigned sight_start = handed_start + (sizeof(ItemHandoff) + 7) / 8 * 8;
  static constexpr unsigned shared_bytes = sight_start + vectors * sizeof(VisibleRange);
  static_assert(resident * (shared_bytes + 1024) <= 228 * 1024);

  static constexpr unsigned pieces = dim / 8;                       // of 16 bytes, per vector
  static constexpr unsigned rows_at_once = warp_threads / pieces;   // by a producer warp
  static constexpr unsigned row_step = group_warps * rows_at_once;  // a multiple of eight
  static constexpr unsigned steps = keys / row_step;

  static TROUPE_DEVICE unsigned place(unsigned row, unsigned piece) {
    return piece / 8 * column_bytes + row * 128 + (piece % 8 ^ row % 8) * 16;
  }
  // Returns the key in a tile that a producer warp gathers as its i-th.
  static TROUPE_DEVICE unsigned gathered_key(unsigned producer, unsigned i) {
    return i / rows_at_once * row_step + producer * rows_at_once + i % rows_at_once;
  }
};

template <class B>
TROUPE_DEVICE SharedAddress address_of(unsigned byte) {
  return dynamic_shared<std::byte>(0, B::shared_bytes).address(byte);
}

// A stage of the ring, and the parity of its mbarriers' phase.
template <class B>
struct RingStage {
  unsigned stage = 0, parity = 0;

  TROUPE_DEVICE void move_on() {
    const bool last = ++stage == B::stages;
    stage = last ? 0 : stage;
    parity ^= last;
  }
  TROUPE_DEVICE SharedAddress full() const { return address_of<B>(B::full_start + stage * 8); }
  TROUPE_DEVICE SharedAddress empty() const { return address_of<B>(B::empty_start + stage * 8); }
  TROUPE_DEVICE SharedAddress keys() const { return address_of<B>(stage * B::stage_bytes); }
  TROUPE_DEVICE SharedAddress values() const { return address_of<B>(stage * B::stage_bytes + B::tile_bytes); }
  // Per producer warp: the keys whose values it removed from a masked tile.
  TROUPE_DEVICE Shared<std::uint64_t> notes() const {
    return dynamic_shared<std::uint64_t>(B::note_start + stage * group_warps * 8, group_warps);
  }
};

template <class B>
TROUPE_DEVICE void make_mbarriers() {
  if (thread_x() == 0) {
    for (unsigned s = 0; s < B::stages; ++s) {
      mbarrier_init(address_of<B>(B::full_start + s * 8), group_warps);
      mbarrier_init(address_of<B>(B::empty_start + s * 8), B::consumer_warps);
    }
    mbarrier_init(address_of<B>(B::queries_ready), group_threads);
    mbarrier_init(address_of<B>(B::queries_taken), B::consumer_warps);
    fence_async();
  }
  barrier();
}

// Arrives for the whole warp: its first lane arrives after all lanes are done.
TROUPE_DEVICE void arrive_as_warp(SharedAddress mbarrier) {
  warp_sync();
  if (lane() == 0) mbarrier_arrive(mbarrier);
}

// Passes an item to the consumers with its queries and what its rows see.
template <class B, unsigned dim>
TROUPE_DEVICE void publish_item(const AttendPass& pass, const AttendLayer& layer,
                                const ItemHandoff& handoff) {
  const AttendItem& item = handoff.item;
  const SharedAddress came = address_of<B>(B::queries_ready);
  const unsigned vector = thread_x() - B::consumers;
  if (vector == 0) dynamic_shared<ItemHandoff>(B::handed_start, 1)[0] = handoff;
  if (vector < B::vectors)
    dynamic_shared<VisibleRange>(B::sight_start, B::vectors)[vector] =
        visible_range_of(pass, item, layer.heads, vector);
  if (vector >= item.vectors) {
    mbarrier_arrive(came);
    return;
  }
  mbarrier_arrive_expecting(came, B::vector_bytes);
  copy_bulk(address_of<B>(B::query_start + vector * B::query_bytes),
            layer.queries + vector_at<dim>(item, layer, layer.query_stride, handoff.kv_head, vector),
            B::vector_bytes, came);
}

// Returns the token address of one of the warp's rows of a tile; lane i loads that of its i-th row.
template <class B>
TROUPE_DEVICE std::uintptr_t load_address(const BlockWork& work, const KeyTile& tile) {
  const unsigned producer = warp() - B::consumer_warps, row = B::gathered_key(producer, lane() % 16);
  if (tile.count == 0) return 0;
  return reinterpret_cast<std::uintptr_t>(
      work.addresses[tile.first + (row < tile.count ? row : tile.count - 1u)]);
}

template <class B>
TROUPE_DEVICE void gather(const BlockWork& work, const KeyTile& tile, std::uintptr_t address,
                          const RingStage<B>& ring_stage) {
  const unsigned producer = warp() - B::consumer_warps;
  const unsigned piece = lane() % B::pieces, row = B::gathered_key(producer, lane() / B::pieces);
  const unsigned to = B::place(row, piece);
  TROUPE_UNROLL
  for (unsigned i = 0; i < B::steps; ++i) {
    const auto* const from =
        reinterpret_cast<const std::byte*>(shuffle(address, i * B::rows_at_once + lane() / B::pieces)) +
        piece * 16;
    const bool present = row + i * B::row_step < tile.count;
    const unsigned at = to + i * B::row_step * 128;
    copy_async<16>(ring_stage.keys() + at, from + work.keys_at, present);
    copy_async<16>(ring_stage.values() + at, from + work.values_at, present);
  }
}

// Removes values that are not finite from a tile (see attend_tile_inl.h). Each thread checks what
// it copied.
template <class B, class Half>
TROUPE_DEVICE void remove_non_finite(const RingStage<B>& ring_stage) {
  const auto values =
      dynamic_shared<std::uint32_t>(ring_stage.stage * B::stage_bytes + B::tile_bytes, B::tile_bytes / 4);
  const unsigned producer = warp() - B::consumer_warps, piece = lane() % B::pieces;
  std::uint64_t noted = 0;
  for (unsigned i = 0; i < B::steps; ++i) {
    const unsigned key = B::gathered_key(producer, i * B::rows_at_once + lane() / B::pieces);
    const unsigned at = B::place(key, piece) / 4;
    bool bad = false;
    for (unsigned k = 0; k < 4; ++k) bad |= has_non_finite<Half>(values[at + k]);
    if (!bad) continue;
    noted |= std::uint64_t{1} << key;
    for (unsigned k = 0; k < 4; ++k) values[at + k] = 0;
  }
  if (any(noted != 0))
    for (unsigned mask = 1; mask < warp_threads; mask *= 2) noted |= shuffle_xor(noted, mask);
  if (lane() == 0) ring_stage.notes()[producer] = noted;
}

// Tiles being filled, and how many of them are not announced yet.
template <class B>
struct FillState {
  RingStage<B> fill, announce;
  unsigned pending = 0;
  std::uint32_t masked = 0;  // bit i: the tile filled i tiles ago is masked
};

template <class B, class Half>
TROUPE_DEVICE void announce_oldest(FillState<B>& ring) {
  --ring.pending;
  if ((ring.masked >> ring.pending & 1) != 0) remove_non_finite<B, Half>(ring.announce);
  fence_async();
  arrive_as_warp(ring.announce.full());
  ring.announce.move_on();
}

template <class B, class Half>
TROUPE_DEVICE void announce_all(FillState<B>& ring) {
  copy_async_wait<0>();
  while (ring.pending > 0) announce_oldest<B, Half>(ring);
}

// The next tile of an item, its token addresses, and the tile after it: read well before they are
// needed.
template <class B>
struct TilePrefetch {
  const KeyTile* list;
  unsigned count;
  KeyTile tile, after;
  std::uintptr_t address;

  TROUPE_DEVICE KeyTile load(unsigned t) const { return t < count ? list[t] : KeyTile{}; }
};

template <class B>
TROUPE_DEVICE TilePrefetch<B> first_tiles(const BlockWork& work, const KeyTile* list, unsigned count) {
  TilePrefetch<B> upcoming{list, count};
  upcoming.tile = upcoming.load(0);
  upcoming.after = upcoming.load(1);
  upcoming.address = load_address<B>(work, upcoming.tile);
  return upcoming;
}

// Fills an item's tiles. While a tile is announced, `ahead` more are in flight.
template <class B, class Half>
TROUPE_DEVICE void fill_tiles(const BlockWork& work, TilePrefetch<B>& upcoming, FillState<B>& ring) {
  for (unsigned t = 0; t < upcoming.count; ++t) {
    const std::uintptr_t next_address = load_address<B>(work, upcoming.after);
    if (B::one_item && t == B::stages - B::query_stages) mbarrier_wait(address_of<B>(B::queries_taken), 0);
    mbarrier_wait(ring.fill.empty(), ring.fill.parity ^ 1);
    gather(work, upcoming.tile, upcoming.address, ring.fill);
    copy_async_commit();
    ring.fill.move_on();
    ring.masked = ring.masked << 1 | upcoming.tile.masked;
    ++ring.pending;
    upcoming.tile = upcoming.after, upcoming.after = upcoming.load(t + 2), upcoming.address = next_address;
    if (ring.pending <= B::ahead) continue;
    copy_async_wait<B::ahead>();
    announce_oldest<B, Half>(ring);
  }
}

template <class B>
TROUPE_DEVICE BlockWork work_of(const AttendPass& pass, const AttendLayer& layer, const KvOffsets& kv,
                                const ItemHandoff& handoff) {
  const std::uint32_t keys_at = kv.keys + handoff.kv_head * kv.head_stride;
  return {pass.addresses + handoff.item.key_begin,
          keys_at,
          keys_at + kv.values,
          handoff.item.context_tokens,
          layer.scale * 1.44269504f,
          layer.scale};
}

// Returns the block's item of a round. Items are sorted longest first and dealt to the blocks in
// alternating order.
TROUPE_DEVICE ItemHandoff item_of_round(const AttendPass& pass, unsigned kv_heads, unsigned round) {
  const unsigned place = round % 2 == 0 ? block_x() : blocks_x() - 1 - block_x();
  const unsigned number = round * blocks_x() + place;
  if (number >= pass.item_count * kv_heads) return {};
  return {pass.items[number / kv_heads], number % kv_heads};
}

// Gathers for the consumers. An item is passed on only after they have taken the queries of the
// previous one, and so have finished all items before that. An item is read from memory while the
// previous one is gathered.
template <class B, class Half, unsigned dim>
TROUPE_DEVICE void produce(const AttendPass& pass, const AttendLayer& layer, const KvOffsets& kv) {
  FillState<B> ring;
  unsigned parity = 1;
  ItemHandoff next = item_of_round(pass, kv.kv_heads, 0);
  for (unsigned round = 0; round * blocks_x() < pass.item_count * kv.kv_heads; ++round) {
    const ItemHandoff handoff = next;
    next = item_of_round(pass, kv.kv_heads, round + 1);
    if (handoff.item.vectors == 0) continue;
    const BlockWork work = work_of<B>(pass, layer, kv, handoff);
    const unsigned tiles = handoff.item.tile_end - handoff.item.tile_begin;
    TilePrefetch<B> upcoming = first_tiles<B>(work, pass.key_tiles + handoff.item.tile_begin, tiles);
    mbarrier_wait(address_of<B>(B::queries_taken), parity);
    parity ^= 1;
    publish_item<B, dim>(pass, layer, handoff);
    fill_tiles<B, Half>(work, upcoming, ring);
    if (tiles < B::ahead) announce_all<B, Half>(ring);
  }
  announce_all<B, Half>(ring);
  mbarrier_wait(address_of<B>(B::queries_taken), parity);
  publish_item<B, dim>(pass, layer, {});
}

}  // namespace
}  // namespace troupe::kernels::cuda
