// Computes on the device how much attention single keys receive, summed over rows and heads. A
// repair (RcLLM §III-C) chooses by it which tokens to compute again.
#include "kernels/cuda/kernels/attend_mass.h"

#include "kernels/base/check.h"
#include "kernels/cuda/kernels/attend_block_inl.h"

namespace troupe::kernels::cuda {
namespace {

// Attention that this thread's rows give to the keys 8 * j + 2 * (lane % 4) + i.
struct ReceivedAttention {
  float of[attend_key_tile / 8][2];
};

template <class B>
TROUPE_DEVICE void add_shares(const BlockWork& work, const KeyTile& tile, const AttendItem& item,
                              const AttendLayer& layer, unsigned kv_heads, unsigned kv_head,
                              const Scores<1>& scores, ReceivedAttention& received) {
  TROUPE_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const unsigned vector = warp() * B::warp_vectors + 8 * half + lane() / 4;
    if (vector >= item.vectors) continue;
    const float* const stats =
        layer.stats + 2 * vector_at<1>(item, layer, kv_heads * layer.heads, kv_head, vector);
    const float largest = stats[0], factor = stats[1];
    const std::uint64_t seen = seen_keys(work, tile, sight_of<B>(0, half)) >> 2 * (lane() % 4);
    TROUPE_UNROLL
    for (unsigned j = 0; j < attend_key_tile / 8; ++j) TROUPE_UNROLL
    for (unsigned i = 0; i < 2; ++i)
      if ((seen >> (8 * j + i) & 1) != 0)
        received.of[j][i] += exp2_fast((scores.of[0][j][2 * half + i] - largest) * work.scale) * factor;
  }
}

// Sums over all rows of the block. The sums reuse the memory of its queries, which were all read.
template <class B>
TROUPE_DEVICE void write_mass(const ReceivedAttention& received, float* mass) {
  const auto sums = dynamic_shared<float>(0, B::warps * attend_key_tile);
  barrier();
  TROUPE_UNROLL
  for (unsigned j = 0; j < attend_key_tile / 8; ++j) TROUPE_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    float sum = received.of[j][i];
    TROUPE_UNROLL
    for (unsigned mask = 4; mask < warp_threads; mask *= 2) sum += shuffle_xor(sum, mask);
    if (lane() < 4) sums[warp() * attend_key_tile + 8 * j + 2 * lane() + i] = sum;
  }
  barrier();
  if (thread_x() >= attend_key_tile) return;
  float sum = 0;
  for (unsigned w = 0; w < B::warps; ++w) sum += sums[w * attend_key_tile + thread_x()];
  mass[block_x() * std::size_t{attend_key_tile} + thread_x()] = sum;
}

template <class Half, unsigned dim>
TROUPE_KERNEL((TileBlock<dim, 1>::threads))
attend_mass_kernel(AttendPass pass, AttendLayer layer, const MassTile* tiles, float* mass, KvOffsets kv) {
  using B = TileBlock<dim, 1>;
  const unsigned kv_head = block_x() % kv.kv_heads;
  const MassTile where = tiles[block_x() / kv.kv_heads];
  const KeyTile tile{where.first, where.count, 1};
  const std::uint32_t keys_at = kv.keys + kv_head * kv.head_stride;
  const BlockWork work{
      pass.addresses + where.key_begin, keys_at,    keys_at + kv.values, where.context_tokens,
      layer.scale * 1.44269504f,        layer.scale};
  stage_addresses<B>(work, tile, 0);
  copy_async_commit();
  copy_async_wait<0>();
  barrier();
  stage_keys<B>(work, tile, 0);
  const std::uint32_t vectors = (where.row_end - where.row_begin) * layer.heads;
  ReceivedAttention received = {};
  for (std::uint32_t first = 0; first < vectors; first += B::vectors) {
    const std::uint32_t left = vectors - first;
    const AttendItem item{where.row_begin, first, left < B::vectors ? left : B::vectors, where.key_begin,
                          where.context_tokens};
    barrier();  // the previous queries were read
    stage_queries<B, dim>(item, layer, kv_head);
    store_visible_ranges<B>(pass, item, layer.heads);
    copy_async_commit();
    copy_async_wait<0>();
    to_key_format<B>(layer, Half{});
    barrier();
    Scores<1> scores;
    score<B, Half, dim>(0, scores);
    add_shares<B>(work, tile, item, layer, kv.kv_heads, kv_head, scores, received);
  }
  write_mass<B>(received, mass);
}

template <class Half>
auto kernel_of(std::uint32_t dim) {
  return dim == 32   ? attend_mass_kernel<Half, 32>
         : dim == 64 ? attend_mass_kernel<Half, 64>
                     : attend_mass_kernel<Half, 128>;
}

}  // namespace

void attend_mass(const KvLayout& layout, const AttendPass& pass, const AttendLayer& layer,
                 const MassTile* tiles, std::uint32_t count, float* mass, Stream& stream) {
  if (count == 0) return;
  TROUPE_CHECK(attend_fault(layout, layout.kv_heads).empty() && layout.format != KvFormat::f32,
               "there is a kernel for these pages");
  TROUPE_CHECK(layer.stats != nullptr, "AttendLayer::stats is set");
  const std::uint32_t dim = layout.head_dim;
  const std::size_t shared = dim == 32   ? TileBlock<32, 1>::shared_bytes
                             : dim == 64 ? TileBlock<64, 1>::shared_bytes
                                         : TileBlock<128, 1>::shared_bytes;
  launch("attend_mass", layout.format == KvFormat::bf16 ? kernel_of<Bf16>(dim) : kernel_of<F16>(dim),
         {.blocks = count * layout.kv_heads, .threads = TileBlock<32, 1>::threads, .shared_bytes = shared},
         stream, pass, layer, tiles, mass, offsets_of(layout, layer.layer));
}

}  // namespace troupe::kernels::cuda
