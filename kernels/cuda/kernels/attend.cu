// Span attention on GPUs from sm_80 on, with mma.sync: queries attend to keys and values scattered
// over pages. Also merges the partial results of split lists, and chooses the version that runs.
#include "kernels/cuda/kernels/attend.h"

#include <algorithm>

#include "kernels/base/check.h"
#include "kernels/cuda/kernels/attend_block_inl.h"

namespace troupe::kernels::cuda {
namespace {

// Writes results multiplied by their factor and rounded. They pass through the warp's own query
// vectors in shared memory, so that a lane writes 16 bytes.
template <class B, unsigned dim, unsigned fragments>
TROUPE_DEVICE void write_rounded(const AttendItem& item, const AttendLayer& layer, unsigned kv_head,
                                 const float (&factors)[fragments][2],
                                 const RunningSums<dim, fragments>& running) {
  const auto words = dynamic_shared<std::uint32_t>(0, B::vectors * B::vector_bytes / 4);
  const unsigned first = warp() * B::warp_vectors;
  warp_sync();
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f) TROUPE_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const unsigned vector = first + 16 * f + 8 * half + lane() / 4;
    TROUPE_UNROLL
    for (unsigned j = 0; j < dim / 8; ++j)
      words[B::place(vector, j) / 4 + lane() % 4] =
          pack_out(layer, running.out[f][j][2 * half] * factors[f][half],
                   running.out[f][j][2 * half + 1] * factors[f][half]);
  }
  warp_sync();
  const auto pieces = dynamic_shared<Piece>(0, B::vectors * B::vector_bytes / 16);
  for (unsigned n = lane(); n < B::warp_vectors * (dim / 8); n += warp_threads) {
    const unsigned vector = first + n / (dim / 8), piece = n % (dim / 8);
    if (vector >= item.vectors) continue;
    std::uint16_t* const to =
        layer.out + vector_at<dim>(item, layer, layer.out_stride, kv_head, vector) + piece * 8;
    *reinterpret_cast<Piece*>(to) = pieces[B::place(vector, piece) / 16];
  }
}

template <class Soften, class B, unsigned dim, unsigned fragments>
TROUPE_DEVICE void write_whole(const AttendItem& item, const AttendLayer& layer, unsigned kv_heads,
                               unsigned kv_head, const RunningSums<dim, fragments>& running) {
  float factors[fragments][2];
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f) TROUPE_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    factors[f][half] = Soften::factor(layer, sum_of_four_lanes(running.total[f][half]));
    const unsigned vector = warp() * B::warp_vectors + 16 * f + 8 * half + lane() / 4;
    if (vector >= item.vectors) continue;
    if (lane() % 4 == 0)
      write_stats(item, layer, kv_heads, kv_head, vector, running.largest[f][half], factors[f][half]);
    if (layer.out_f32 == nullptr) continue;
    const std::size_t at = vector_at<dim>(item, layer, layer.out_stride, kv_head, vector);
    TROUPE_UNROLL
    for (unsigned j = 0; j < dim / 8; ++j)
      write_two(layer, at, 4 * j + lane() % 4, running.out[f][j][2 * half] * factors[f][half],
                running.out[f][j][2 * half + 1] * factors[f][half]);
  }
  if (layer.out_f32 == nullptr) write_rounded<B>(item, layer, kv_head, factors, running);
}

// The tiles of a block's list from number `at` on: as many as the pipeline prefetches, and one
// more.
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

// Walks the key tiles. While tile t is computed, the keys and values of tile t + stages - 1 and the
// addresses of as many tiles after it are in flight.
template <class Soften, class B, class Format, unsigned dim, unsigned fragments>
TROUPE_DEVICE void walk(const BlockWork& work, typename Soften::template Rows<fragments>& rows,
                        Window<B>& window, RunningSums<dim, fragments>& running) {
  using Half = typename KeyStorage<Format>::Half;
  for (unsigned t = 0; t < window.count; ++t) {
    const KeyTile tile = window.tiles[0];
    bool some_spoilt = false;
    copy_async_wait<B::stages - 2>();
    if (tile.masked)
      some_spoilt = barrier_and_remove_non_finite<B, Half>(t);
    else
      barrier();
    stage_keys_values<B>(work, window.tiles[B::stages - 1], t + B::stages - 1);
    stage_addresses<B>(work, window.tiles[2 * B::stages - 2], t + 2 * B::stages - 2);
    copy_async_commit();
    const auto sight = [](unsigned f, unsigned half) { return sight_of<B>(f, half); };
    if (some_spoilt) {
      const auto noted = non_finite_keys<B>(t);
      spoil_rows(work, tile, sight, noted[0] | std::uint64_t{noted[1]} << 32, running);
    }
    Scores<fragments> scores;
    score<B, Format, dim>(t, scores);
    float shrink[fragments][2];
    soften<Soften>(work, tile, sight, rows, scores, running, shrink);
    if constexpr (Soften::rescales) shrink_sums(shrink, running);
    add_values<B, Format>(t, scores, running);
    window.move_on(t);
  }
}

template <class Soften, class Format, unsigned dim, unsigned fragments>
TROUPE_KERNEL((FormatBlock<Format, dim, fragments>::threads))
attend_kernel(AttendPass pass, AttendLayer layer, KvOffsets kv) {
  using B = FormatBlock<Format, dim, fragments>;
  const unsigned kv_head = block_x() % kv.kv_heads;
  const AttendItem& where = pass.items[block_x() / kv.kv_heads];
  Window<B> window;
  BlockWork work;
  {
    const AttendItem item = where;
    if (item.vectors == 0) return;
    window = {{}, pass.key_tiles + item.tile_begin, item.tile_end - item.tile_begin};
    const std::uint32_t keys_at = kv.keys + kv_head * kv.head_stride;
    work = {pass.addresses + item.key_begin, keys_at,    keys_at + kv.values, item.context_tokens,
            layer.scale * 1.44269504f,       layer.scale};
    window.open();
    stage_queries<B, dim * KeyStorage<Format>::parts>(item, layer, kv_head);
    store_visible_ranges<B>(pass, item, layer.heads);
  }
  TROUPE_UNROLL
  for (unsigned i = 0; i < 2 * B::stages - 2; ++i) stage_addresses<B>(work, window.tiles[i], i);
  copy_async_commit();
  copy_async_wait<0>();
  to_key_format<B>(layer, Format{});
  barrier();
  TROUPE_UNROLL
  for (unsigned i = 0; i + 1 < B::stages; ++i) {
    stage_keys_values<B>(work, window.tiles[i], i);
    copy_async_commit();
  }
  RunningSums<dim, fragments> running;
  clear(running);
  {
    typename Soften::template Rows<fragments> rows;
    Soften::template begin<B>(pass, layer, where, rows);
    walk<Soften, B, Format>(work, rows, window, running);
  }
  const AttendItem item = where;  // read again, so that no registers hold it in between
  if (item.partial == whole_result)
    write_whole<Soften, B>(item, layer, kv.kv_heads, kv_head, running);
  else
    write_partial<B>(item, pass, kv.kv_heads, kv_head, running);
}

constexpr unsigned merge_warps = 4, merge_vectors = 16;  // per block

// Merges the partial results of a vector, one warp per vector. Reads each partial result once.
template <class Soften, unsigned dim>
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
      float shrink = 1, weight = 1;
      if constexpr (Soften::rescales) {
        const float now = larger(largest, from[dim]), top = now == minus_infinity ? 0.0f : now;
        shrink = exp2_fast((largest - top) * layer.scale * 1.44269504f);
        weight = exp2_fast((from[dim] - top) * layer.scale * 1.44269504f);
        largest = now;
      }
      for (unsigned i = 0; i < mine; ++i) sum[i] = sum[i] * shrink + from[lane() * mine + i] * weight;
      total = total * shrink + from[dim + 1] * weight;
    }
    const float factor = Soften::factor(layer, total);
    const std::size_t at = vector_at<dim>(merge, layer, layer.out_stride, kv_head, vector) + lane() * mine;
    for (unsigned i = 0; i < mine; ++i)
      if (layer.out_f32 != nullptr)
        layer.out_f32[at + i] = sum[i] * factor;
      else
        layer.out[at + i] = static_cast<std::uint16_t>(pack_out(layer, sum[i] * factor, 0));
    if (lane() == 0) write_stats(merge, layer, kv_heads, kv_head, vector, largest, factor);
  }
}

template <class Soften, class Format, unsigned dim, unsigned fragments>
void run(const AttendPass& pass, const AttendLayer& layer, const KvOffsets& kv, Stream& stream) {
  using B = FormatBlock<Format, dim, fragments>;
  launch("attend", attend_kernel<Soften, Format, dim, fragments>,
         {.blocks = pass.item_count * kv.kv_heads, .threads = B::threads, .shared_bytes = B::shared_bytes},
         stream, pass, layer, kv);
}

template <class Soften, unsigned dim>
void merge(const AttendPass& pass, const AttendLayer& layer, unsigned kv_heads, Stream& stream) {
  launch("attend_merge", merge_kernel<Soften, dim>,
         {.blocks = pass.merge_count * kv_heads,
          .blocks_y = pass.tile_vectors / merge_vectors,
          .threads = merge_warps * warp_threads},
         stream, pass, layer, kv_heads);
}
template <class Soften>
void merge(std::uint32_t dim, const AttendPass& pass, const AttendLayer& layer, unsigned kv_heads,
           Stream& stream) {
  (dim == 32   ? merge<Soften, 32>
   : dim == 64 ? merge<Soften, 64>
               : merge<Soften, 128>)(pass, layer, kv_heads, stream);
}

template <class Soften, class Format, unsigned dim, unsigned fragments>
constexpr DeviceAttendVersion version_of(ScorePolicy softening, KvFormat format) {
  using B = FormatBlock<Format, dim, fragments>;
  return {softening,       dim,   format,      B::vectors,
          B::shared_bytes, false, B::resident, run<Soften, Format, dim, fragments>};
}

// The mma.sync versions, for sm_80 and later.
constexpr ScorePolicy softmax = ScorePolicy::softmax, silu = ScorePolicy::silu;
constexpr KvFormat bf16 = KvFormat::bf16, f16 = KvFormat::f16, f32 = KvFormat::f32;
constexpr DeviceAttendVersion mma_versions[] = {
    version_of<Softmax, Bf16, 32, 1>(softmax, bf16),  version_of<Softmax, Bf16, 32, 2>(softmax, bf16),
    version_of<Softmax, Bf16, 64, 1>(softmax, bf16),  version_of<Softmax, Bf16, 64, 2>(softmax, bf16),
    version_of<Softmax, Bf16, 128, 1>(softmax, bf16), version_of<Softmax, Bf16, 128, 2>(softmax, bf16),
    version_of<Softmax, F16, 32, 1>(softmax, f16),    version_of<Softmax, F16, 32, 2>(softmax, f16),
    version_of<Softmax, F16, 64, 1>(softmax, f16),    version_of<Softmax, F16, 64, 2>(softmax, f16),
    version_of<Softmax, F16, 128, 1>(softmax, f16),   version_of<Softmax, F16, 128, 2>(softmax, f16),
    version_of<Softmax, Split, 32, 1>(softmax, f32),  version_of<Softmax, Split, 64, 1>(softmax, f32),
    version_of<Softmax, Split, 128, 1>(softmax, f32), version_of<Silu, Bf16, 32, 1>(silu, bf16),
    version_of<Silu, Bf16, 64, 1>(silu, bf16),        version_of<Silu, Bf16, 128, 1>(silu, bf16),
    version_of<Silu, F16, 32, 1>(silu, f16),          version_of<Silu, F16, 64, 1>(silu, f16),
    version_of<Silu, F16, 128, 1>(silu, f16),         version_of<Silu, Split, 32, 1>(silu, f32),
    version_of<Silu, Split, 64, 1>(silu, f32),        version_of<Silu, Split, 128, 1>(silu, f32)};

const DeviceAttendVersion* find_version(std::span<const DeviceAttendVersion> versions, const KvLayout& layout,
                                        ScorePolicy softening, std::uint32_t tile_vectors) {
  for (const DeviceAttendVersion& version : versions)
    if (version.softening == softening && version.head_dim == layout.head_dim &&
        version.format == layout.format && version.tile_vectors == tile_vectors)
      return &version;
  return nullptr;
}

constexpr std::uint32_t small_tile = 64, large_tile = 128;
constexpr unsigned hopper = 90;  // code compiled for sm_90a runs on no other device

const DeviceAttendVersion* choose_version(const KvLayout& layout, ScorePolicy softening,
                                          std::uint32_t tile_vectors, unsigned capability, AttendPath path) {
  const bool can = path != AttendPath::mma && capability == hopper;
  TROUPE_CHECK(can || path != AttendPath::hopper,
               "attention for sm_90a runs only on a device of capability 90");
  if (can)
    if (const auto* version = find_version(hopper_attend_versions(), layout, softening, tile_vectors))
      return version;
  return find_version(mma_versions, layout, softening, tile_vectors);
}

constexpr std::size_t reserved_bytes = 1024;  // of a multiprocessor's shared memory, per block

// Returns a tile without vectors if the device has too little shared memory for a block.
AttendTile tile_on(const DeviceProperties& device, const DeviceAttendVersion& version) {
  if (version.shared_bytes > device.block_shared_bytes_max) return {};
  const std::size_t fit = device.multiprocessor_shared_bytes / (version.shared_bytes + reserved_bytes);
  const auto resident = std::max<std::size_t>(1, std::min<std::size_t>(fit, version.resident));
  return attend_tile(device.capability, version.head_dim,
                     {version.tile_vectors, static_cast<std::uint32_t>(resident), version.wgmma,
                      version.softening == ScorePolicy::silu});
}

}  // namespace

std::string attend_fault(const KvLayout& layout, std::uint32_t heads) {
  if (layout.kv_heads == 0 || heads % layout.kv_heads != 0)
    return std::to_string(heads) + " query heads on " + std::to_string(layout.kv_heads) +
           " key-value heads; expected a multiple";
  if (find_version(mma_versions, layout, softmax, small_tile) == nullptr)
    return "head_dim " + std::to_string(layout.head_dim) + "; on a GPU expected 32, 64 or 128";
  return "";
}

AttendMachine attend_machine(const KvLayout& layout, std::uint32_t heads, const DeviceProperties& device,
                             AttendPath path, ScorePolicy softening) {
  AttendMachine machine{.multiprocessors = device.multiprocessors,
                        .kv_heads = layout.kv_heads,
                        .heads = heads / layout.kv_heads,
                        .head_dim = layout.head_dim,
                        .l2_bytes = l2_bytes_per_cycle(device.capability)};
  const auto tile = [&](std::uint32_t vectors) {
    const DeviceAttendVersion* const version =
        choose_version(layout, softening, vectors, device.capability, path);
    return version == nullptr ? AttendTile{} : tile_on(device, *version);
  };
  machine.small = tile(small_tile), machine.large = tile(large_tile);
  const DeviceAttendVersion* const least = find_version(mma_versions, layout, softening, small_tile);
  TROUPE_CHECK(least != nullptr, "there is an attention kernel for these pages");
  if (machine.small.vectors == 0)
    throw DeviceError("attend: " + device.name + " gives a block " +
                      std::to_string(device.block_shared_bytes_max) +
                      " bytes of shared memory; for head_dim " + std::to_string(layout.head_dim) +
                      " expected " + std::to_string(least->shared_bytes));
  return machine;
}

std::size_t attend_partial_bytes(const KvLayout& layout, std::uint32_t partials, std::uint32_t tile_vectors) {
  return std::size_t{partials} * layout.kv_heads * tile_vectors * (layout.head_dim + 4) * sizeof(float);
}

KvOffsets offsets_of(const KvLayout& layout, std::uint32_t layer) {
  const auto u32 = [](std::size_t bytes) { return static_cast<std::uint32_t>(bytes); };
  return {u32(layout.keys(layer, 0)), u32(2 * layout.head_bytes()), u32(layout.head_bytes()),
          layout.kv_heads};
}

void attend(const KvLayout& layout, const AttendPass& pass, const AttendLayer& layer, Stream& stream) {
  const DeviceAttendVersion* const version =
      choose_version(layout, layer.softening, pass.tile_vectors, device_capability(), pass.path);
  TROUPE_CHECK(version != nullptr, "there is an attention kernel for these pages");
  TROUPE_CHECK(layer.query_stride % 8 == 0 && layer.out_stride % 8 == 0, "rows are aligned to 16 bytes");
  TROUPE_CHECK(layer.scale > 0, "the scale is positive");
  TROUPE_CHECK(layout.page_bytes() <= ~std::uint32_t{0}, "a page has less than 4 GiB");
  if (pass.item_count > 0) version->run(pass, layer, offsets_of(layout, layer.layer), stream);
  if (pass.merge_count == 0) return;
  (layer.softening == silu ? merge<Silu> : merge<Softmax>)(layout.head_dim, pass, layer, layout.kv_heads,
                                                           stream);
}

}  // namespace troupe::kernels::cuda
