#pragma once
// Device code of a block of attend.cu for one tile of keys: gather, multiply, soften.
#include "kernels/cuda/kernels/attend.h"
#include "kernels/cuda/simt/simt.h"

namespace troupe::kernels::cuda {
namespace {

using namespace simt;

constexpr float minus_infinity = -__builtin_huge_valf();

// The keys of the tail that a query vector sees, as key indices of the group.
struct VisibleRange {
  std::uint32_t begin, end;
};

// How a number of this format is stored: `parts` 16-bit numbers of the format Half, in separate
// parts of a vector.
template <class Format>
struct KeyStorage {
  using Half = Format;
  static constexpr unsigned parts = 1;
};
template <>
struct KeyStorage<Split> {
  using Half = F16;
  static constexpr unsigned parts = 2;
};

// Sizes of a block. `dim`: 16-bit numbers per vector. `fragments`: groups of 16 query vectors per
// warp.
template <unsigned dim, unsigned fragments>
struct TileBlock {
  static constexpr unsigned warps = 4, threads = warps * warp_threads;
  static constexpr unsigned warp_vectors = 16 * fragments, vectors = warps * warp_vectors;
  static constexpr unsigned keys = attend_key_tile, stages = 2;
  static constexpr unsigned pieces = dim / 8;  // of 16 bytes, per vector
  static constexpr unsigned vector_bytes = dim * 2, tile_bytes = keys * vector_bytes;
  // Rows of a tile that one copy by all threads fills.
  static constexpr unsigned rows_at_once = threads / pieces;
  static constexpr unsigned stage_start = vectors * vector_bytes;
  static constexpr unsigned address_start = stage_start + stages * 2 * tile_bytes;
  static constexpr unsigned address_slots = 2 * stages;
  static constexpr unsigned sight_start = address_start + address_slots * keys * 8;
  static constexpr unsigned shared_bytes = sight_start + vectors * sizeof(VisibleRange);
  // Blocks that fit a multiprocessor's registers, with the counts that ptxas allocates.
  static constexpr unsigned registers = dim == 128  ? (fragments == 1 ? 168 : 256)
                                        : dim == 64 ? (fragments == 1 ? 128 : 224)
                                                    : (fragments == 1 ? 104 : 168);
  static constexpr unsigned resident = 65536 / (threads * registers);

  // Returns the offset of piece `piece` of vector `row` of a tile. The same pieces of eight rows
  // are in different banks.
  static TROUPE_DEVICE unsigned place(unsigned row, unsigned piece) {
    const unsigned swizzle = pieces >= 8 ? row % 8 : row / 2 % 4;
    return row * vector_bytes + (piece ^ swizzle) * 16;
  }
};

// A block of vectors with `dim` numbers in that format.
template <class Format, unsigned dim, unsigned fragments>
struct FormatBlock : TileBlock<dim * KeyStorage<Format>::parts, fragments> {};

// The block's view of its work.
struct BlockWork {
  const std::byte* const* addresses;  // of the group's keys
  std::uint32_t keys_at, values_at;   // offsets of this layer and head from a token's address
  std::uint32_t context_tokens;
  float scale;        // multiplied by log2(e), for powers of two
  float plain_scale;  // not multiplied
};

// Running sums of the rows of which this thread holds a part: rows lane/4 and lane/4 + 8 of each
// fragment.
template <unsigned dim, unsigned fragments>
struct RunningSums {
  float out[fragments][dim / 8][4];
  float largest[fragments][2];  // largest score
  // Sum of the weights of this thread's keys; NaN after a visible score that is not finite.
  float total[fragments][2];
};

template <unsigned fragments>
struct Scores {
  float of[fragments][attend_key_tile / 8][4];
};

// ---- Gathering ----

template <class B>
TROUPE_DEVICE void stage_addresses(const BlockWork& work, const KeyTile& tile, unsigned number) {
  if (thread_x() >= B::keys || tile.count == 0) return;
  const auto slot =
      dynamic_shared<const std::byte*>(B::address_start + number % B::address_slots * B::keys * 8, B::keys);
  const unsigned key = thread_x() < tile.count ? thread_x() : tile.count - 1u;
  copy_async<8>(slot.address(thread_x()), work.addresses + tile.first + key, true);
}

// Copies keys and values, or keys alone.
template <class B, bool values>
TROUPE_DEVICE void stage_tile(const BlockWork& work, const KeyTile& tile, unsigned number) {
  if (tile.count == 0) return;
  const auto slot =
      dynamic_shared<const std::byte*>(B::address_start + number % B::address_slots * B::keys * 8, B::keys);
  const auto stage =
      dynamic_shared<std::byte>(B::stage_start + number % B::stages * 2 * B::tile_bytes, 2 * B::tile_bytes);
  const unsigned piece = thread_x() % B::pieces;
  TROUPE_UNROLL
  for (unsigned first = 0; first < B::keys; first += B::rows_at_once) {
    const unsigned key = first + thread_x() / B::pieces;
    const std::byte* const from = slot[key] + piece * 16;
    const unsigned to = B::place(key, piece);
    copy_async<16>(stage.address(to), from + work.keys_at, key < tile.count);
    if constexpr (values)
      copy_async<16>(stage.address(B::tile_bytes + to), from + work.values_at, key < tile.count);
  }
}
template <class B>
TROUPE_DEVICE void stage_keys_values(const BlockWork& work, const KeyTile& tile, unsigned number) {
  stage_tile<B, true>(work, tile, number);
}
template <class B>
TROUPE_DEVICE void stage_keys(const BlockWork& work, const KeyTile& tile, unsigned number) {
  stage_tile<B, false>(work, tile, number);
}

// Returns whether one of the word's two numbers is not finite: all bits of its exponent are set.
template <class Half>
TROUPE_DEVICE bool has_non_finite(std::uint32_t two);
template <>
TROUPE_DEVICE bool has_non_finite<Bf16>(std::uint32_t two) {
  return (((two & 0x7f807f80u) + 0x00800080u) & 0x80008000u) != 0;
}
template <>
TROUPE_DEVICE bool has_non_finite<F16>(std::uint32_t two) {
  return (((two & 0x7c007c00u) + 0x04000400u) & 0x80008000u) != 0;
}

// A weight of zero times a value that is not finite would spoil rows that do not see the value. So
// such values are removed from masked tiles, and their keys are noted, one bit each, to spoil the
// rows that do see them. The notes reuse the memory of the tile's addresses, which are no longer
// read once its values arrived: a block of 128 vectors of 128 numbers takes all the shared memory
// that sm_86 gives to a block.
template <class B>
TROUPE_DEVICE Shared<std::uint32_t> non_finite_keys(unsigned number) {
  return dynamic_shared<std::uint32_t>(B::address_start + number % B::address_slots * B::keys * 8,
                                       B::keys / 32);
}

// Passes the barrier that publishes the tile. Before it, each thread checks what it copied itself.
// Returns whether keys were noted; the notes are valid until the next tile's barrier.
template <class B, class Half>
TROUPE_DEVICE bool barrier_and_remove_non_finite(unsigned number) {
  const auto values = dynamic_shared<std::uint32_t>(
      B::stage_start + (number % B::stages * 2 + 1) * B::tile_bytes, B::tile_bytes / 4);
  const unsigned piece = thread_x() % B::pieces;
  const auto spoilt = [&](unsigned key) {
    bool bad = false;
    TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i) bad |= has_non_finite<Half>(values[B::place(key, piece) / 4 + i]);
    return bad;
  };
  bool bad = false;
  TROUPE_UNROLL
  for (unsigned key = thread_x() / B::pieces; key < B::keys; key += B::rows_at_once) bad |= spoilt(key);
  if (!barrier_or(bad)) return false;
  const auto noted = non_finite_keys<B>(number);
  if (thread_x() < B::keys / 32) noted[thread_x()] = 0;
  barrier();
  for (unsigned key = thread_x() / B::pieces; key < B::keys; key += B::rows_at_once) {
    if (!spoilt(key)) continue;
    atomic_or(noted, key / 32, 1u << key % 32);
    for (unsigned i = 0; i < 4; ++i) values[B::place(key, piece) / 4 + i] = 0;
  }
  barrier();
  return true;
}

// ---- Multiplying ----
// Matrix m of a load comes from lanes 8m to 8m + 7. Pieces 2n and 2n + 1 of a vector differ from
// pieces 0 and 1 only in the bits of n, also after swizzling. So a lane's offset for them is its
// first offset xor 32n.

template <class B, unsigned fragments>
TROUPE_DEVICE void load_queries(unsigned step, std::uint32_t (&a)[fragments][4]) {
  const auto queries = dynamic_shared<std::byte>(0, B::vectors * B::vector_bytes);
  const unsigned row = warp() * B::warp_vectors + lane() % 16, piece = lane() / 16;
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f)
    load_matrices(a[f], queries.address((B::place(row, piece) ^ 32 * step) + f * 16 * B::vector_bytes));
}

// Computes scores. For numbers in two parts, the product of both remainders is left out: it is
// below the rounding of the result.
template <class B, class Format, unsigned dim, unsigned fragments>
TROUPE_DEVICE void score(unsigned number, Scores<fragments>& scores) {
  using Half = typename KeyStorage<Format>::Half;
  constexpr bool two_parts = KeyStorage<Format>::parts == 2;
  const auto keys =
      dynamic_shared<std::byte>(B::stage_start + number % B::stages * 2 * B::tile_bytes, B::tile_bytes);
  const unsigned first = B::place(lane() / 16 * 8 + lane() % 8, lane() / 8 % 2);
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f) TROUPE_UNROLL
  for (unsigned j = 0; j < B::keys / 8; ++j)
    for (unsigned i = 0; i < 4; ++i) scores.of[f][j][i] = 0;
  TROUPE_UNROLL
  for (unsigned step = 0; step < dim / 16; ++step) {
    std::uint32_t a[fragments][4], rest[two_parts ? fragments : 1][4];
    load_queries<B>(step, a);
    if constexpr (two_parts) load_queries<B>(step + dim / 16, rest);
    TROUPE_UNROLL
    for (unsigned pair = 0; pair < B::keys / 16; ++pair) {
      const auto add = [&](unsigned key_step, const std::uint32_t(&queries)[fragments][4], bool loaded,
                           std::uint32_t(&b)[4]) {
        if (!loaded) load_matrices(b, keys.address((first ^ 32 * key_step) + pair * 16 * B::vector_bytes));
        TROUPE_UNROLL
        for (unsigned f = 0; f < fragments; ++f) {
          multiply_add<Half>(scores.of[f][2 * pair], queries[f], b[0], b[1]);
          multiply_add<Half>(scores.of[f][2 * pair + 1], queries[f], b[2], b[3]);
        }
      };
      std::uint32_t b[4];
      add(step, a, false, b);
      if constexpr (two_parts) {
        add(step, rest, true, b);
        add(step + dim / 16, a, false, b);
      }
    }
  }
}

// From here on `scores` holds weights.
// Rounds the weights of keys 16*pair to 16*pair + 15, as the left side of a product with their
// values.
template <class Half, unsigned fragments>
TROUPE_DEVICE void round_weights(const Scores<fragments>& scores, unsigned f, unsigned pair,
                                 std::uint32_t (&a)[4]) {
  TROUPE_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    const float(&two)[4] = scores.of[f][2 * pair + i / 2];
    a[i] = pack<Half>(two[2 * (i % 2)], two[2 * (i % 2) + 1]);
  }
}

// Computes the remainders of rounded weights, likewise.
template <class Half, unsigned fragments>
TROUPE_DEVICE void round_rest(const Scores<fragments>& scores, unsigned f, unsigned pair,
                              const std::uint32_t (&a)[4], std::uint32_t (&rest)[4]) {
  TROUPE_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    const float(&two)[4] = scores.of[f][2 * pair + i / 2];
    rest[i] = pack<Half>(two[2 * (i % 2)] - low_of<Half>(a[i]), two[2 * (i % 2) + 1] - high_of<Half>(a[i]));
  }
}

template <class B, class Format, unsigned dim, unsigned fragments>
TROUPE_DEVICE void add_values(unsigned number, const Scores<fragments>& scores,
                              RunningSums<dim, fragments>& running) {
  using Half = typename KeyStorage<Format>::Half;
  constexpr bool two_parts = KeyStorage<Format>::parts == 2;
  const auto values =
      dynamic_shared<std::byte>(B::stage_start + (number % B::stages * 2 + 1) * B::tile_bytes, B::tile_bytes);
  const unsigned first = B::place(lane() % 16, lane() / 16);
  TROUPE_UNROLL
  for (unsigned pair = 0; pair < B::keys / 16; ++pair) {
    std::uint32_t a[fragments][4], rest[two_parts ? fragments : 1][4];
    TROUPE_UNROLL
    for (unsigned f = 0; f < fragments; ++f) {
      round_weights<Half>(scores, f, pair, a[f]);
      if constexpr (two_parts) round_rest<Half>(scores, f, pair, a[f], rest[f]);
    }
    TROUPE_UNROLL
    for (unsigned step = 0; step < dim / 16; ++step) {
      const auto add = [&](const std::uint32_t(&weights)[fragments][4], const std::uint32_t(&b)[4]) {
        TROUPE_UNROLL
        for (unsigned f = 0; f < fragments; ++f) {
          multiply_add<Half>(running.out[f][2 * step], weights[f], b[0], b[1]);
          multiply_add<Half>(running.out[f][2 * step + 1], weights[f], b[2], b[3]);
        }
      };
      std::uint32_t b[4];
      load_matrices_transposed(b, values.address((first ^ 32 * step) + pair * 16 * B::vector_bytes));
      add(a, b);
      if constexpr (two_parts) {
        add(rest, b);
        load_matrices_transposed(
            b, values.address((first ^ 32 * (step + dim / 16)) + pair * 16 * B::vector_bytes));
        add(a, b);
      }
    }
  }
}

// ---- Softening ----

template <class B>
TROUPE_DEVICE VisibleRange sight_of(unsigned fragment, unsigned half) {
  const auto visible_ranges = dynamic_shared<VisibleRange>(B::sight_start, B::vectors);
  return visible_ranges[warp() * B::warp_vectors + 16 * fragment + 8 * half + lane() / 4];
}
TROUPE_DEVICE std::uint64_t first_keys(std::int32_t count) {
  return count <= 0 ? 0 : ~std::uint64_t{0} >> (64 - (count < 64 ? count : 64));
}
// Returns the tile's keys that a row sees, one bit each.
TROUPE_DEVICE std::uint64_t seen_keys(const BlockWork& work, const KeyTile& tile, const VisibleRange& sight) {
  static_assert(attend_key_tile <= 64);
  const auto before = [&](std::uint32_t key) {
    return first_keys(static_cast<std::int32_t>(key) - static_cast<std::int32_t>(tile.first));
  };
  const std::uint64_t tail = before(sight.end) & ~before(sight.begin);
  return first_keys(static_cast<std::int32_t>(tile.count)) & (before(work.context_tokens) | tail);
}

// Masks scores. An invisible score gets the policy's value. A visible score that is not finite
// spoils its row; minus infinity counts as an overflow, too, not as an unimportant key.
// `sight_of_row(f, half)` returns what this thread's rows see.
template <class SightOf, unsigned dim, unsigned fragments>
TROUPE_DEVICE void judge_masked(const BlockWork& work, const KeyTile& tile, const SightOf& sight_of_row,
                                float invisible, Scores<fragments>& scores,
                                RunningSums<dim, fragments>& running) {
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f) TROUPE_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const std::uint64_t seen = seen_keys(work, tile, sight_of_row(f, half)) >> 2 * (lane() % 4);
    const std::uint32_t words[2] = {static_cast<std::uint32_t>(seen), static_cast<std::uint32_t>(seen >> 32)};
    float& total = running.total[f][half];
    TROUPE_UNROLL
    for (unsigned j = 0; j < attend_key_tile / 8; ++j) TROUPE_UNROLL
    for (unsigned i = 0; i < 2; ++i) {
      float& score = scores.of[f][j][2 * half + i];
      const bool visible = (words[j / 4] & 1u << (j % 4 * 8 + i)) != 0;
      total = multiply_add(visible ? score : 0.0f, 0.0f, total);
      score = visible ? score : invisible;
    }
  }
}

// Spoils the rows that see a key whose value was removed; `spoilt` has a bit per such key.
template <class SightOf, unsigned dim, unsigned fragments>
TROUPE_DEVICE void spoil_rows(const BlockWork& work, const KeyTile& tile, const SightOf& sight_of_row,
                              std::uint64_t spoilt, RunningSums<dim, fragments>& running) {
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f) TROUPE_UNROLL
  for (unsigned half = 0; half < 2; ++half)
    if ((seen_keys(work, tile, sight_of_row(f, half)) & spoilt) != 0)
      running.total[f][half] += minus_infinity * 0.0f;
}

template <unsigned dim, unsigned fragments>
TROUPE_DEVICE void shrink_sums(const float (&shrink)[fragments][2], RunningSums<dim, fragments>& running) {
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f) TROUPE_UNROLL
  for (unsigned j = 0; j < dim / 8; ++j) TROUPE_UNROLL
  for (unsigned i = 0; i < 4; ++i) running.out[f][j][i] *= shrink[f][i / 2];
}

}  // namespace
}  // namespace troupe::kernels::cuda
