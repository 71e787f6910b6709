#include "kernels/cuda/attend.h"

#include "kernels/check.h"
#include "kernels/cuda/attend_tile_inl.h"

namespace troupe::kernels::cuda {
namespace {

// Where a layer's keys and values lie, from a token's address.
struct KvOffsets {
  std::uint32_t keys;         // of the layer's first head
  std::uint32_t head_stride;  // from head to head
  std::uint32_t values;       // from a key to its value
  std::uint32_t kv_heads;
};

// A partial result: per vector its sum of weighted values, largest score and total weight.
template <unsigned dim>
constexpr unsigned partial_stride = dim + 4;

struct alignas(16) Piece {
  std::uint32_t words[4];
};

// The first number of vector `vector` of an item, of queries or outputs.
template <unsigned dim, class Item>
TROUPE_DEVICE std::size_t vector_at(const Item& item, const AttendLayer& layer, std::size_t stride,
                                    unsigned kv_head, unsigned vector) {
  const unsigned number = item.vector_begin + vector;
  return (item.row_begin + number / layer.heads) * stride +
         std::size_t{kv_head * layer.heads + number % layer.heads} * dim;
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

template <class B>
TROUPE_DEVICE void note_sights(const AttendPass& pass, const AttendItem& item, unsigned heads) {
  static_assert(B::vectors <= B::threads);
  const auto sights = dynamic_shared<Sight>(B::sight_start, B::vectors);
  const unsigned vector = thread_x(), row = item.row_begin + (item.vector_begin + vector) / heads;
  if (vector >= B::vectors) return;
  const bool present = vector < item.vectors;
  sights[vector] = {present ? item.context_tokens + pass.visible_begin[row] : 0,
                    present ? item.context_tokens + pass.visible_end[row] : 0};
}

template <unsigned dim, unsigned fragments>
TROUPE_DEVICE void clear(Running<dim, fragments>& running) {
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f) {
    TROUPE_UNROLL
    for (unsigned j = 0; j < dim / 8; ++j) TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i) running.out[f][j][i] = 0;
    TROUPE_UNROLL
    for (unsigned half = 0; half < 2; ++half) {
      running.largest[f][half] = minus_infinity;
      running.total[f][half] = 0;
    }
  }
}

TROUPE_DEVICE float sum_of_four_lanes(float x) {
  x += shuffle_xor(x, 1);
  return x + shuffle_xor(x, 2);
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
          pack<Bf16>(running.out[f][j][2 * half] * inverse, running.out[f][j][2 * half + 1] * inverse);
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

template <class B, unsigned dim, unsigned fragments>
TROUPE_DEVICE void write_partial(const AttendItem& item, const AttendPass& pass, unsigned kv_heads,
                                 unsigned kv_head, const Running<dim, fragments>& running) {
  const std::size_t first = (std::size_t{item.partial} * kv_heads + kv_head) * B::vectors;
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f) TROUPE_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const float total = sum_of_four_lanes(running.total[f][half]);
    const unsigned vector = warp() * B::warp_vectors + 16 * f + 8 * half + lane() / 4;
    if (vector >= item.vectors) continue;
    float* const to = pass.partials + (first + vector) * partial_stride<dim>;
    TROUPE_UNROLL
    for (unsigned j = 0; j < dim / 8; ++j) TROUPE_UNROLL
    for (unsigned i = 0; i < 2; ++i) to[8 * j + 2 * (lane() % 4) + i] = running.out[f][j][2 * half + i];
    if (lane() % 4 == 0) to[dim] = running.largest[f][half], to[dim + 1] = total;
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
    if (some_spoilt) spoil_rows<B>(work, tile, running);
    Scores<fragments> scores;
    score<B, Half, dim>(t, scores);
    if (tile.masked)
      judge_masked<B>(work, tile, scores, running);
    else
      judge(scores, running);
    soften(work.scale, scores, running);
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
      to[lane() * mine + i] = static_cast<std::uint16_t>(pack<Bf16>(sum[i] * inverse, 0));
  }
}

template <class Half, unsigned dim, unsigned fragments>
void run(const AttendPass& pass, const AttendLayer& layer, const KvOffsets& kv, Stream& stream) {
  using B = Block<dim, fragments>;
  if (pass.item_count > 0)
    launch("attend", attend_kernel<Half, dim, fragments>,
           {.blocks = pass.item_count * kv.kv_heads, .threads = B::threads, .shared_bytes = B::shared_bytes},
           stream, pass, layer, kv);
  if (pass.merge_count > 0)
    launch("attend_merge", merge_kernel<dim>,
           {.blocks = pass.merge_count * kv.kv_heads,
            .blocks_y = B::vectors / merge_vectors,
            .threads = merge_warps * warp_threads},
           stream, pass, layer, kv.kv_heads);
}

struct Version {
  std::uint32_t head_dim;
  KvFormat format;
  std::uint32_t tile_vectors;
  void (*run)(const AttendPass&, const AttendLayer&, const KvOffsets&, Stream&);
};

template <unsigned dim, unsigned fragments>
constexpr Version versions_of(KvFormat format) {
  return {dim, format, Block<dim, fragments>::vectors,
          format == KvFormat::bf16 ? run<Bf16, dim, fragments> : run<F16, dim, fragments>};
}

// mma.sync, on sm_80 and later.
constexpr Version mma_versions[] = {versions_of<32, 1>(KvFormat::bf16),  versions_of<32, 2>(KvFormat::bf16),
                                    versions_of<64, 1>(KvFormat::bf16),  versions_of<64, 2>(KvFormat::bf16),
                                    versions_of<128, 1>(KvFormat::bf16), versions_of<128, 2>(KvFormat::bf16),
                                    versions_of<32, 1>(KvFormat::f16),   versions_of<32, 2>(KvFormat::f16),
                                    versions_of<64, 1>(KvFormat::f16),   versions_of<64, 2>(KvFormat::f16),
                                    versions_of<128, 1>(KvFormat::f16),  versions_of<128, 2>(KvFormat::f16)};

const Version* find_version(const KvLayout& layout, std::uint32_t tile_vectors) {
  for (const Version& version : mma_versions)
    if (version.head_dim == layout.head_dim && version.format == layout.format &&
        version.tile_vectors == tile_vectors)
      return &version;
  return nullptr;
}

}  // namespace

std::string attend_fault(const KvLayout& layout, std::uint32_t heads) {
  if (layout.kv_heads == 0 || heads % layout.kv_heads != 0)
    return std::to_string(heads) + " query heads on " + std::to_string(layout.kv_heads) +
           " key-value heads; expected a multiple";
  if (layout.format == KvFormat::f32) return "keys and values in f32; on a GPU expected bf16 or f16";
  if (find_version(layout, AttendMachine{}.small_tile) == nullptr)
    return "head_dim " + std::to_string(layout.head_dim) + "; on a GPU expected 32, 64 or 128";
  return "";
}

std::size_t attend_partial_bytes(const KvLayout& layout, std::uint32_t partials, std::uint32_t tile_vectors) {
  return std::size_t{partials} * layout.kv_heads * tile_vectors * (layout.head_dim + 4) * sizeof(float);
}

void attend(const KvLayout& layout, const AttendPass& pass, const AttendLayer& layer, Stream& stream) {
  const Version* const version = find_version(layout, pass.tile_vectors);
  TROUPE_CHECK(version != nullptr, "no attention kernel for these pages");
  TROUPE_CHECK(layer.query_stride % 8 == 0 && layer.out_stride % 8 == 0, "rows not aligned to 16 bytes");
  TROUPE_CHECK(layer.scale > 0, "a scale that is not positive");
  TROUPE_CHECK(layout.page_bytes() <= ~std::uint32_t{0}, "a page of more than 4 GiB");
  const auto u32 = [](std::size_t bytes) { return static_cast<std::uint32_t>(bytes); };
  version->run(pass, layer,
               {u32(layout.keys(layer.layer, 0)), u32(2 * layout.head_bytes()), u32(layout.head_bytes()),
                layout.kv_heads},
               stream);
}

}  // namespace troupe::kernels::cuda
