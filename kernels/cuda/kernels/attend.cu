#include "kernels/cuda/kernels/attend.h"

#include <algorithm>

#include "kernels/base/check.h"
#include "kernels/cuda/kernels/attend_block_inl.h"

namespace troupe::kernels::cuda {
namespace {

struct alignas(16) Piece {
  std::uint32_t words[4];
};

template <class B>
TROUPE_DEVICE void note_sights(const AttendPass& pass, const AttendItem& item, unsigned heads) {
  static_assert(B::vectors <= B::threads);
  if (thread_x() >= B::vectors) return;
  dynamic_shared<Sight>(B::sight_start, B::vectors)[thread_x()] = sight_from(pass, item, heads, thread_x());
}

template <class B, unsigned dim>
TROUPE_DEVICE void stage_queries(const AttendItem& item, const AttendLayer& layer, unsigned kv_head) {
  const auto queries = dynamic_shared<std::byte>(0, B::vectors * B::vector_bytes);
  const unsigned piece = thread_x() % B::pieces;
  for (unsigned vector = thread_x() / B::pieces; vector < B::vectors; vector += B::rows_at_once) {
    const bool present = vector < item.vectors;
    const std::size_t at =
        vector_at<dim>(item, layer, layer.query_stride, kv_head, present ? vector : 0) + piece * 8;
    copy_async<16>(queries.address(B::place(vector, piece)), layer.queries + at, present);
  }
}

// Products want queries and keys in one format. Each thread converts what it copied.
template <class B, class Half>
TROUPE_DEVICE void convert_queries() {
  const auto queries = dynamic_shared<std::uint32_t>(0, B::vectors * B::vector_bytes / 4);
  const unsigned piece = thread_x() % B::pieces;
  for (unsigned vector = thread_x() / B::pieces; vector < B::vectors; vector += B::rows_at_once)
    for (unsigned i = 0; i < 4; ++i) {
      std::uint32_t& two = queries[B::place(vector, piece) / 4 + i];
      two = pack<Half>(low_of<Bf16>(two), high_of<Bf16>(two));
    }
}
template <class B>
TROUPE_DEVICE void to_key_format(Bf16) {}
template <class B>
TROUPE_DEVICE void to_key_format(F16) {
  convert_queries<B, F16>();
}

// Divided and rounded, by way of the warp's own query vectors in shared memory, so that it is written 16
// bytes a lane.
template <class B, unsigned dim, unsigned fragments>
TROUPE_DEVICE void write_whole(const AttendItem& item, const AttendLayer& layer, unsigned kv_head,
                               const Running<dim, fragments>& running) {
  const auto words = dynamic_shared<std::uint32_t>(0, B::vectors * B::vector_bytes / 4);
  const unsigned first = warp() * B::warp_vectors;
  warp_sync();
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f) TROUPE_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const float total = sum_of_four_lanes(running.total[f][half]);
    const float inverse = total == 0 ? 0.0f : 1.0f / total;
    const unsigned vector = first + 16 * f + 8 * half + lane() / 4;
    TROUPE_UNROLL
    for (unsigned j = 0; j < dim / 8; ++j)
      words[B::place(vector, j) / 4 + lane() % 4] =
          pack_out(layer, running.out[f][j][2 * half] * inverse, running.out[f][j][2 * half + 1] * inverse);
  }
  warp_sync();
  const auto pieces = dynamic_shared<Piece>(0, B::vectors * B::vector_bytes / 16);
  for (unsigned n = lane(); n < B::warp_vectors * B::pieces; n += warp_threads) {
    const unsigned vector = first + n / B::pieces, piece = n % B::pieces;
    if (vector >= item.vectors) continue;
    std::uint16_t* const to =
        layer.out + vector_at<dim>(item, layer, layer.out_stride, kv_head, vector) + piece * 8;
    *reinterpret_cast<Piece*>(to) = pieces[B::place(vector, piece) / 16];
  }
}

// The tiles from number `at` of a block's list on, as far as the pipeline looks ahead, and one more.
template <class B>
struct Window {
  KeyTile tiles[2 * B::stages];
  const KeyTile* list;
  unsigned count;

  TROUPE_DEVICE KeyTile load(unsigned i) const { return i < count ? list[i] : KeyTile{}; }
  TROUPE_DEVICE void open() {
    TROUPE_UNROLL
    for (unsigned i = 0; i < 2 * B::stages; ++i) tiles[i] = load(i);
  }
  TROUPE_DEVICE void move_on(unsigned at) {
    TROUPE_UNROLL
    for (unsigned i = 0; i + 1 < 2 * B::stages; ++i) tiles[i] = tiles[i + 1];
    tiles[2 * B::stages - 1] = load(at + 2 * B::stages);
  }
};

// Walks the key tiles. While tile t is computed, keys and values of tile t + stages - 1 and the addresses of
// as many tiles after it are on their way.
template <class B, class Half, unsigned dim, unsigned fragments>
TROUPE_DEVICE void walk(const Work& work, Window<B>& window, Running<dim, fragments>& running) {
  for (unsigned t = 0; t < window.count; ++t) {
    const KeyTile tile = window.tiles[0];
    bool some_spoilt = false;
    copy_async_wait<B::stages - 2>();
    if (tile.masked)
      some_spoilt = meet_and_take_out_not_finite<B, Half>(t);
    else
      barrier();
    stage_keys_values<B>(work, window.tiles[B::stages - 1], t + B::stages - 1);
    stage_addresses<B>(work, window.tiles[2 * B::stages - 2], t + 2 * B::stages - 2);
    copy_async_commit();
    const auto sight = [](unsigned f, unsigned half) { return sight_of<B>(f, half); };
    if (some_spoilt) {
      const auto noted = spoilt_keys<B>(t);
      spoil_rows(work, tile, sight, noted[0] | std::uint64_t{noted[1]} << 32, running);
    }
    Scores<fragments> scores;
    score<B, Half, dim>(t, scores);
    if (tile.masked)
      judge_masked(work, tile, sight, scores, running);
    else
      judge(scores, running);
    float shrink[fragments][2];
    weigh(work.scale, scores, running, shrink);
    shrink_sums(shrink, running);
    add_values<B, Half>(t, scores, running);
    window.move_on(t);
  }
}

template <class Half, unsigned dim, unsigned fragments>
TROUPE_KERNEL((Block<dim, fragments>::threads))
attend_kernel(AttendPass pass, AttendLayer layer, KvOffsets kv) {
  using B = Block<dim, fragments>;
  const unsigned kv_head = block_x() % kv.kv_heads;
  const AttendItem& where = pass.items[block_x() / kv.kv_heads];
  Window<B> window;
  Work work;
  {
    const AttendItem item = where;
    if (item.vectors == 0) return;
    window = {{}, pass.key_tiles + item.tile_begin, item.tile_end - item.tile_begin};
    const std::uint32_t keys_at = kv.keys + kv_head * kv.head_stride;
    work = {pass.addresses + item.key_begin, keys_at, keys_at + kv.values, item.context_tokens,
            layer.scale * 1.44269504f};
    window.open();
    stage_queries<B, dim>(item, layer, kv_head);
    note_sights<B>(pass, item, layer.heads);
  }
  TROUPE_UNROLL
  for (unsigned i = 0; i < 2 * B::stages - 2; ++i) stage_addresses<B>(work, window.tiles[i], i);
  copy_async_commit();
  copy_async_wait<0>();
  to_key_format<B>(Half{});
  barrier();
  TROUPE_UNROLL
  for (unsigned i = 0; i + 1 < B::stages; ++i) {
    stage_keys_values<B>(work, window.tiles[i], i);
    copy_async_commit();
  }
  Running<dim, fragments> running;
  clear(running);
  walk<B, Half>(work, window, running);
  const AttendItem item = where;  // read again: no registers hold it meanwhile
  if (item.partial == whole_result)
    write_whole<B>(item, layer, kv_head, running);
  else
    write_partial<B>(item, pass, kv.kv_heads, kv_head, running);
}

constexpr unsigned merge_warps = 4, merge_vectors = 16;  // per block

// One warp a vector. Reads each partial result once.
template <unsigned dim>
TROUPE_KERNEL((merge_warps * warp_threads))
merge_kernel(AttendPass pass, AttendLayer layer, unsigned kv_heads) {
  constexpr unsigned mine = dim / warp_threads;
  const AttendMerge merge = pass.merges[block_x() / kv_heads];
  const unsigned kv_head = block_x() % kv_heads, first = block_y() * merge_vectors;
  for (unsigned vector = first + warp(); vector < first + merge_vectors; vector += merge_warps) {
    if (vector >= merge.vectors) return;
    float sum[mine] = {}, total = 0, largest = minus_infinity;
    for (unsigned p = merge.partial_begin; p < merge.partial_end; ++p) {
      const std::size_t number = (std::size_t{p} * kv_heads + kv_head) * pass.tile_vectors + vector;
      const float* const from = pass.partials + number * partial_stride<dim>;
      const float now = larger(largest, from[dim]), top = now == minus_infinity ? 0.0f : now;
      const float shrink = exp2_fast((largest - top) * layer.scale * 1.44269504f);
      const float weight = exp2_fast((from[dim] - top) * layer.scale * 1.44269504f);
      for (unsigned i = 0; i < mine; ++i) sum[i] = sum[i] * shrink + from[lane() * mine + i] * weight;
      total = total * shrink + from[dim + 1] * weight;
      largest = now;
    }
    const float inverse = total == 0 ? 0.0f : 1.0f / total;
    std::uint16_t* const to = layer.out + vector_at<dim>(merge, layer, layer.out_stride, kv_head, vector);
    for (unsigned i = 0; i < mine; ++i)
      to[lane() * mine + i] = static_cast<std::uint16_t>(pack_out(layer, sum[i] * inverse, 0));
  }
}

template <class Half, unsigned dim, unsigned fragments>
void run(const AttendPass& pass, const AttendLayer& layer, const KvOffsets& kv, Stream& stream) {
  using B = Block<dim, fragments>;
  launch("attend", attend_kernel<Half, dim, fragments>,
         {.blocks = pass.item_count * kv.kv_heads, .threads = B::threads, .shared_bytes = B::shared_bytes},
         stream, pass, layer, kv);
}

template <unsigned dim>
void merge(const AttendPass& pass, const AttendLayer& layer, unsigned kv_heads, Stream& stream) {
  launch("attend_merge", merge_kernel<dim>,
         {.blocks = pass.merge_count * kv_heads,
          .blocks_y = pass.tile_vectors / merge_vectors,
          .threads = merge_warps * warp_threads},
         stream, pass, layer, kv_heads);
}

template <unsigned dim, unsigned fragments>
constexpr AttendVersion versions_of(KvFormat format) {
  using B = Block<dim, fragments>;
  return {dim, format, B::vectors, B::shared_bytes, false, B::resident,
          format == KvFormat::bf16 ? run<Bf16, dim, fragments> : run<F16, dim, fragments>};
}

// mma.sync, on sm_80 and later.
constexpr AttendVersion mma_versions[] = {
    versions_of<32, 1>(KvFormat::bf16),  versions_of<32, 2>(KvFormat::bf16),
    versions_of<64, 1>(KvFormat::bf16),  versions_of<64, 2>(KvFormat::bf16),
    versions_of<128, 1>(KvFormat::bf16), versions_of<128, 2>(KvFormat::bf16),
    versions_of<32, 1>(KvFormat::f16),   versions_of<32, 2>(KvFormat::f16),
    versions_of<64, 1>(KvFormat::f16),   versions_of<64, 2>(KvFormat::f16),
    versions_of<128, 1>(KvFormat::f16),  versions_of<128, 2>(KvFormat::f16)};

const AttendVersion* find_version(std::span<const AttendVersion> versions, const KvLayout& layout,
                                  std::uint32_t tile_vectors) {
  for (const AttendVersion& version : versions)
    if (version.head_dim == layout.head_dim && version.format == layout.format &&
        version.tile_vectors == tile_vectors)
      return &version;
  return nullptr;
}

constexpr std::uint32_t small_tile = 64, large_tile = 128;
constexpr unsigned hopper = 90;  // no other device runs what is compiled for sm_90a

const AttendVersion* choose_version(const KvLayout& layout, std::uint32_t tile_vectors, unsigned capability,
                                    AttendPath path) {
  const bool can = path != AttendPath::mma && capability == hopper;
  TROUPE_CHECK(can || path != AttendPath::hopper, "the attention of sm_90a, on another device");
  if (can)
    if (const auto* version = find_version(hopper_attend_versions(), layout, tile_vectors)) return version;
  return find_version(mma_versions, layout, tile_vectors);
}

constexpr std::size_t reserved_bytes = 1024;  // of a multiprocessor's shared memory, for each block

// No vectors where the device has too little shared memory for a block.
AttendTile tile_on(const DeviceProperties& device, const AttendVersion& version) {
  if (version.shared_bytes > device.block_shared_bytes_max) return {};
  const std::size_t fit = device.multiprocessor_shared_bytes / (version.shared_bytes + reserved_bytes);
  const auto resident = std::max<std::size_t>(1, std::min<std::size_t>(fit, version.resident));
  return attend_tile(device.capability, version.head_dim,
                     {version.tile_vectors, static_cast<std::uint32_t>(resident), version.wgmma});
}

}  // namespace

std::string attend_fault(const KvLayout& layout, std::uint32_t heads) {
  if (layout.kv_heads == 0 || heads % layout.kv_heads != 0)
    return std::to_string(heads) + " query heads on " + std::to_string(layout.kv_heads) +
           " key-value heads; expected a multiple";
  if (layout.format == KvFormat::f32) return "keys and values in f32; on a GPU expected bf16 or f16";
  if (find_version(mma_versions, layout, small_tile) == nullptr)
    return "head_dim " + std::to_string(layout.head_dim) + "; on a GPU expected 32, 64 or 128";
  return "";
}

AttendMachine attend_machine(const KvLayout& layout, std::uint32_t heads, const DeviceProperties& device,
                             AttendPath path) {
  AttendMachine machine{.multiprocessors = device.multiprocessors,
                        .kv_heads = layout.kv_heads,
                        .heads = heads / layout.kv_heads,
                        .head_dim = layout.head_dim,
                        .l2_bytes = l2_bytes_per_cycle(device.capability)};
  const auto tile = [&](std::uint32_t vectors) {
    const AttendVersion* const version = choose_version(layout, vectors, device.capability, path);
    TROUPE_CHECK(version != nullptr, "no attention kernel for these pages");
    return tile_on(device, *version);
  };
  machine.small = tile(small_tile), machine.large = tile(large_tile);
  if (machine.small.vectors == 0)
    throw DeviceError("attend: " + device.name + " gives a block " +
                      std::to_string(device.block_shared_bytes_max) +
                      " bytes of shared memory; for head_dim " + std::to_string(layout.head_dim) + " expected " +
                      std::to_string(find_version(mma_versions, layout, small_tile)->shared_bytes));
  return machine;
}

std::size_t attend_partial_bytes(const KvLayout& layout, std::uint32_t partials, std::uint32_t tile_vectors) {
  return std::size_t{partials} * layout.kv_heads * tile_vectors * (layout.head_dim + 4) * sizeof(float);
}

void attend(const KvLayout& layout, const AttendPass& pass, const AttendLayer& layer, Stream& stream) {
  const AttendVersion* const version =
      choose_version(layout, pass.tile_vectors, device_capability(), pass.path);
  TROUPE_CHECK(version != nullptr, "no attention kernel for these pages");
  TROUPE_CHECK(layer.query_stride % 8 == 0 && layer.out_stride % 8 == 0, "rows not aligned to 16 bytes");
  TROUPE_CHECK(layer.scale > 0, "a scale that is not positive");
  TROUPE_CHECK(layout.page_bytes() <= ~std::uint32_t{0}, "a page of more than 4 GiB");
  const auto u32 = [](std::size_t bytes) { return static_cast<std::uint32_t>(bytes); };
  if (pass.item_count > 0)
    version->run(pass, layer,
                 {u32(layout.keys(layer.layer, 0)), u32(2 * layout.head_bytes()), u32(layout.head_bytes()),
                  layout.kv_heads},
                 stream);
  if (pass.merge_count == 0) return;
  const auto run_merge = layout.head_dim == 32 ? merge<32> : layout.head_dim == 64 ? merge<64> : merge<128>;
  run_merge(pass, layer, layout.kv_heads, stream);
}

}  // namespace troupe::kernels::cuda
