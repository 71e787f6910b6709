// Span attention on sm_90a. Warpgroups have roles: the last one gathers, the others multiply and
// soften, 64 query vectors each. A stage of the ring between them holds one tile's keys and values
// in the layout that products read (simt_hopper.h). Large blocks compute several items, so that the
// next one is gathered while one ends.
#include <algorithm>

#include "kernels/cuda/kernels/attend_hopper_inl.h"

namespace troupe::kernels::cuda {
namespace {

template <class Half>
TROUPE_DEVICE std::uint32_t in_key_format(std::uint32_t two) {
  return pack<Half>(low_of<Bf16>(two), high_of<Bf16>(two));
}
template <>
TROUPE_DEVICE std::uint32_t in_key_format<Bf16>(std::uint32_t two) {
  return two;
}

// Loads the warp's vectors as the left side of products with keys.
template <class B, class Half, unsigned dim>
TROUPE_DEVICE void take_queries(const AttendLayer& layer, std::uint32_t (&queries)[dim / 16][4]) {
  const unsigned vector = warp() * B::warp_vectors + lane() % 16;
  TROUPE_UNROLL
  for (unsigned step = 0; step < dim / 16; ++step) {
    load_matrices(queries[step],
                  address_of<B>(B::query_start + vector * B::query_bytes + (2 * step + lane() / 16) * 16));
    if (layer.queries_as_keys) continue;
    TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i) queries[step][i] = in_key_format<Half>(queries[step][i]);
  }
}

// State of a consumer from tile to tile.
template <class Soften, class B, unsigned dim>
struct Consumer {
  std::uint32_t queries[dim / 16][4];
  std::uint32_t weights[attend_key_tile / 16][4];  // of the previous tile, while its values are multiplied
  Scores<1> scores;
  RunningSums<dim, 1> running;
  VisibleRange visible_ranges[2];  // of this thread's rows
  typename Soften::template Rows<1> rows;
  RingStage<B> ring_stage;
};

template <class Half, class Soften, class B, unsigned dim>
TROUPE_DEVICE void start_scores(const RingStage<B>& ring_stage, Consumer<Soften, B, dim>& c) {
  const GroupMatrix keys = group_matrix(ring_stage.keys(), 0);
  TROUPE_UNROLL
  for (unsigned step = 0; step < dim / 16; ++step)
    multiply_add_group<Half, Rows::along_depth>(
        c.scores.of[0], c.queries[step], part_of(keys, step / 4 * B::column_bytes + step % 4 * 32), step > 0);
  group_commit();
}

template <class Half, class Soften, class B, unsigned dim>
TROUPE_DEVICE void start_values(const RingStage<B>& ring_stage, Consumer<Soften, B, dim>& c) {
  const GroupMatrix values = group_matrix(ring_stage.values(), B::column_bytes);
  TROUPE_UNROLL
  for (unsigned pair = 0; pair < B::keys / 16; ++pair)
    multiply_add_group<Half, Rows::along_columns>(c.running.out[0], c.weights[pair],
                                                  part_of(values, pair * 16 * 128), true);
  group_commit();
}

template <class Soften, class B, unsigned dim>
TROUPE_DEVICE void weigh_tile(const BlockWork& work, const KeyTile& tile, Consumer<Soften, B, dim>& c,
                              float (&shrink)[1][2]) {
  const auto sight = [&](unsigned, unsigned half) { return c.visible_ranges[half]; };
  if (tile.masked) {
    const auto notes = c.ring_stage.notes();
    const std::uint64_t spoilt = notes[0] | notes[1] | notes[2] | notes[3];
    if (spoilt != 0) spoil_rows(work, tile, sight, spoilt, c.running);
  }
  soften<Soften>(work, tile, sight, c.rows, c.scores, c.running, shrink);
}

template <class Half, class Soften, class B, unsigned dim>
TROUPE_DEVICE void round_all_weights(Consumer<Soften, B, dim>& c) {
  TROUPE_UNROLL
  for (unsigned pair = 0; pair < B::keys / 16; ++pair)
    round_weights<Half>(c.scores, 0, pair, c.weights[pair]);
}

// Makes two groups start their products alternately, so that one softens while the other
// multiplies. The second group's signal after its last tile has no waiter.
template <class B>
TROUPE_DEVICE void await_product_slot(unsigned group) {
  if constexpr (B::resident == 1) barrier_sync<B::consumers>(1 + group);
}
template <class B>
TROUPE_DEVICE void give_turn(unsigned group, bool last) {
  if constexpr (B::resident == 1)
    if (group == 0 || !last) barrier_arrive<B::consumers>(2 - group);
}

// Takes the next item; returns false if there is none.
template <class Half, class Soften, class B, unsigned dim>
TROUPE_DEVICE bool begin_item(const AttendPass& pass, const AttendLayer& layer, unsigned parity,
                              ItemHandoff& handoff, Consumer<Soften, B, dim>& c) {
  mbarrier_wait(address_of<B>(B::queries_ready), parity);
  handoff = dynamic_shared<ItemHandoff>(B::handed_start, 1)[0];
  if (handoff.item.vectors == 0) return false;
  take_queries<B, Half, dim>(layer, c.queries);
  TROUPE_UNROLL
  for (unsigned half = 0; half < 2; ++half) c.visible_ranges[half] = sight_of<B>(0, half);
  arrive_as_warp(address_of<B>(B::queries_taken));
  clear(c.running);
  Soften::template begin<B>(pass, layer, handoff.item, c.rows);
  return true;
}

// Walks the tiles. While the scores of tile t are softened, the values of tile t - 1 are
// multiplied.
template <class Half, class Soften, class B, unsigned dim>
TROUPE_DEVICE void walk(const BlockWork& work, const KeyTile* list, unsigned count, unsigned group,
                        Consumer<Soften, B, dim>& c) {
  if (count == 0) return;
  float shrink[1][2];
  if (group == 1) give_turn<B>(group, false);
  KeyTile tile = list[0];
  mbarrier_wait(c.ring_stage.full(), c.ring_stage.parity);
  await_product_slot<B>(group);
  group_fence();
  start_scores<Half>(c.ring_stage, c);
  give_turn<B>(group, count == 1);
  group_wait<0>();
  weigh_tile(work, tile, c, shrink);
  round_all_weights<Half>(c);
  for (unsigned t = 1; t < count; ++t) {
    const RingStage<B> before = c.ring_stage;
    c.ring_stage.move_on();
    tile = list[t];
    mbarrier_wait(c.ring_stage.full(), c.ring_stage.parity);
    await_product_slot<B>(group);
    group_fence();
    start_scores<Half>(c.ring_stage, c);
    start_values<Half>(before, c);
    give_turn<B>(group, t + 1 == count);
    group_wait<1>();
    weigh_tile(work, tile, c, shrink);
    hold_for(c.running.total[0][0] + c.running.total[0][1]);
    group_wait<0>();
    arrive_as_warp(before.empty());
    if constexpr (Soften::rescales)
      if (any(shrink[0][0] != 1 || shrink[0][1] != 1)) shrink_sums(shrink, c.running);
    round_all_weights<Half>(c);
  }
  group_fence();
  start_values<Half>(c.ring_stage, c);
  group_wait<0>();
  arrive_as_warp(c.ring_stage.empty());
  c.ring_stage.move_on();
}

// Writes results multiplied by their factor and rounded. Four lanes write 16 contiguous bytes.
template <class Soften, class B, unsigned dim>
TROUPE_DEVICE void write_result(const AttendItem& item, const AttendLayer& layer, unsigned kv_heads,
                                unsigned kv_head, const RunningSums<dim, 1>& running) {
  TROUPE_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const float factor = Soften::factor(layer, sum_of_four_lanes(running.total[0][half]));
    const unsigned vector = warp() * B::warp_vectors + 8 * half + lane() / 4;
    if (vector >= item.vectors) continue;
    const std::size_t at = vector_at<dim>(item, layer, layer.out_stride, kv_head, vector);
    TROUPE_UNROLL
    for (unsigned j = 0; j < dim / 8; ++j)
      write_two(layer, at, 4 * j + lane() % 4, running.out[0][j][2 * half] * factor,
                running.out[0][j][2 * half + 1] * factor);
    if (lane() % 4 == 0)
      write_stats(item, layer, kv_heads, kv_head, vector, running.largest[0][half], factor);
  }
}

template <class Soften, class B, class Half, unsigned dim>
TROUPE_DEVICE void consume(const AttendPass& pass, const AttendLayer& layer, const KvOffsets& kv,
                           unsigned group) {
  Consumer<Soften, B, dim> c;
  ItemHandoff handoff;
  for (unsigned parity = 0; begin_item<Half>(pass, layer, parity, handoff, c); parity ^= 1) {
    const AttendItem& item = handoff.item;
    walk<Half>(work_of<B>(pass, layer, kv, handoff), pass.key_tiles + item.tile_begin,
               item.tile_end - item.tile_begin, group, c);
    if (item.partial == whole_result)
      write_result<Soften, B, dim>(item, layer, kv.kv_heads, handoff.kv_head, c.running);
    else
      write_partial<B>(item, pass, kv.kv_heads, handoff.kv_head, c.running);
  }
}

template <class Soften, class Half, unsigned dim, unsigned groups>
TROUPE_KERNEL_RESIDENT((HopperBlock<dim, groups>::threads), (HopperBlock<dim, groups>::resident))
attend_hopper_kernel(AttendPass pass, AttendLayer layer, KvOffsets kv) {
  using B = HopperBlock<dim, groups>;
  const unsigned group = shuffle(warp() / group_warps, 0);
  make_mbarriers<B>();
  if (group == groups) {
    registers_give<B::producer_registers>();
    produce<B, Half, dim>(pass, layer, kv);
  } else {
    registers_take<B::consumer_registers>();
    consume<Soften, B, Half, dim>(pass, layer, kv, group);
  }
}

template <class Soften, class Half, unsigned dim, unsigned groups>
void run(const AttendPass& pass, const AttendLayer& layer, const KvOffsets& kv, Stream& stream) {
  using B = HopperBlock<dim, groups>;
  const unsigned count = pass.item_count * kv.kv_heads;
  launch("attend_hopper", attend_hopper_kernel<Soften, Half, dim, groups>,
         {.blocks = B::one_item ? count : std::min({count, device_multiprocessors(), pass.blocks_max}),
          .threads = B::threads,
          .shared_bytes = B::shared_bytes},
         stream, pass, layer, kv);
}

template <class Soften, unsigned dim, unsigned groups>
constexpr DeviceAttendVersion version_of(ScorePolicy softening, KvFormat format) {
  using B = HopperBlock<dim, groups>;
  return {softening,
          dim,
          format,
          B::vectors,
          B::shared_bytes,
          true,
          B::resident,
          format == KvFormat::bf16 ? run<Soften, Bf16, dim, groups> : run<Soften, F16, dim, groups>};
}

constexpr ScorePolicy softmax = ScorePolicy::softmax, silu = ScorePolicy::silu;
constexpr KvFormat bf16 = KvFormat::bf16, f16 = KvFormat::f16;
constexpr DeviceAttendVersion versions[] = {
    version_of<Softmax, 64, 1>(softmax, bf16),  version_of<Softmax, 64, 2>(softmax, bf16),
    version_of<Softmax, 128, 1>(softmax, bf16), version_of<Softmax, 128, 2>(softmax, bf16),
    version_of<Softmax, 64, 1>(softmax, f16),   version_of<Softmax, 64, 2>(softmax, f16),
    version_of<Softmax, 128, 1>(softmax, f16),  version_of<Softmax, 128, 2>(softmax, f16),
    version_of<Silu, 64, 1>(silu, bf16),        version_of<Silu, 64, 2>(silu, bf16),
    version_of<Silu, 128, 1>(silu, bf16),       version_of<Silu, 128, 2>(silu, bf16),
    version_of<Silu, 64, 1>(silu, f16),         version_of<Silu, 64, 2>(silu, f16),
    version_of<Silu, 128, 1>(silu, f16),        version_of<Silu, 128, 2>(silu, f16)};

// Code for sm_90a is a trap if the build leaves that architecture out.
#if defined(TROUPE_EMULATED) || defined(TROUPE_CUDA_HOPPER)
constexpr bool is_built = true;
#else
constexpr bool is_built = false;
#endif

}  // namespace

std::span<const DeviceAttendVersion> hopper_attend_versions() {
  return is_built ? std::span<const DeviceAttendVersion>(versions) : std::span<const DeviceAttendVersion>();
}

}  // namespace troupe::kernels::cuda
