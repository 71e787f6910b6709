#pragma once
// What one block of attend.cu does with a tile of keys: gathers it, multiplies, softens. Device code.
#include "kernels/cuda/attend.h"
#include "kernels/cuda/simt.h"

namespace troupe::kernels::cuda {
namespace {

using namespace simt;

constexpr float minus_infinity = -__builtin_huge_valf();

// Sizes of a block. `fragments`: 16 query vectors each, per warp.
template <unsigned dim, unsigned fragments>
struct Block {
  static constexpr unsigned warps = 4, threads = warps * warp_threads;
  static constexpr unsigned warp_vectors = 16 * fragments, vectors = warps * warp_vectors;
  static constexpr unsigned keys = attend_key_tile, stages = 2;
  static constexpr unsigned pieces = dim / 8;  // of 16 bytes, in a vector
  static constexpr unsigned vector_bytes = dim * 2, tile_bytes = keys * vector_bytes;
  static constexpr unsigned rows_at_once = threads / pieces;  // of a tile, that one copy of all threads fills
  static constexpr unsigned stage_start = vectors * vector_bytes;
  static constexpr unsigned address_start = stage_start + stages * 2 * tile_bytes;
  static constexpr unsigned address_slots = 2 * stages;
  static constexpr unsigned shared_bytes = address_start + address_slots * keys * 8;

  // Where piece `piece` of vector `row` of a tile lies: so that eight rows' equal pieces lie in different banks.
  static TROUPE_DEVICE unsigned place(unsigned row, unsigned piece) {
    const unsigned turn = pieces >= 8 ? row % 8 : row / 2 % 4;
    return row * vector_bytes + (piece ^ turn) * 16;
  }
};

// What a block knows of its work.
struct Work {
  AttendItem item;
  const std::byte* const* addresses;  // of the group's keys
  std::size_t keys_at, values_at;     // of this layer and head, from a token's address
  float scale;                        // with log2(e), for powers of two
};

// The keys that the two rows of a fragment see which this thread holds, as a run's key numbers.
template <unsigned fragments>
struct Sight {
  std::uint32_t begin[fragments][2], end[fragments][2];
};

// Streaming softmax of the rows that this thread holds a part of: rows lane/4 and lane/4 + 8 of each fragment.
template <unsigned dim, unsigned fragments>
struct Running {
  float out[fragments][dim / 8][4];
  float largest[fragments][2];  // score
  float total[fragments][2];    // of this thread's keys
  float spoilt[fragments][2];   // 0, or NaN when a visible score was not finite
};

template <unsigned fragments>
struct Scores {
  float of[fragments][attend_key_tile / 8][4];
};

// Gathering.

template <class B>
TROUPE_DEVICE void stage_addresses(const Work& work, const KeyTile& tile, unsigned number) {
  if (thread_x() >= B::keys || tile.count == 0) return;
  const auto slot = dynamic_shared<const std::byte*>(B::address_start + number % B::address_slots * B::keys * 8, B::keys);
  const unsigned key = thread_x() < tile.count ? thread_x() : tile.count - 1u;
  copy_async<8>(slot.address(thread_x()), work.addresses + tile.first + key, true);
}

template <class B>
TROUPE_DEVICE void stage_keys_values(const Work& work, const KeyTile& tile, unsigned number) {
  if (tile.count == 0) return;
  const auto slot = dynamic_shared<const std::byte*>(B::address_start + number % B::address_slots * B::keys * 8, B::keys);
  const auto stage =
      dynamic_shared<std::byte>(B::stage_start + number % B::stages * 2 * B::tile_bytes, 2 * B::tile_bytes);
  const unsigned piece = thread_x() % B::pieces;
  TROUPE_UNROLL
  for (unsigned first = 0; first < B::keys; first += B::rows_at_once) {
    const unsigned key = first + thread_x() / B::pieces;
    const std::byte* const from = slot[key] + piece * 16;
    const unsigned to = B::place(key, piece);
    copy_async<16>(stage.address(to), from + work.keys_at, key < tile.count);
    copy_async<16>(stage.address(B::tile_bytes + to), from + work.values_at, key < tile.count);
  }
}

// Not finite: all bits of some exponent set. In the two halves of a word at once.
template <class Half>
TROUPE_DEVICE bool has_not_finite(std::uint32_t two);
template <>
TROUPE_DEVICE bool has_not_finite<Bf16>(std::uint32_t two) {
  return (((two & 0x7f807f80u) + 0x00800080u) & 0x80008000u) != 0;
}
template <>
TROUPE_DEVICE bool has_not_finite<F16>(std::uint32_t two) {
  return (((two & 0x7c007c00u) + 0x04000400u) & 0x80008000u) != 0;
}

// A weight of zero times a value that is not finite would spoil rows that do not see the value. So these values are
// taken out of masked tiles, and the rows that do see them are spoilt by what is noted here: a bit for each key.
struct SpoiltKeys {
  std::uint32_t bits[attend_key_tile / 32] = {};
};

// Each thread looks at what it copied itself, before the barrier that shows it to the others, and which this passes.
template <class B, class Half>
TROUPE_DEVICE SpoiltKeys meet_and_take_out_not_finite(unsigned number) {
  TROUPE_SHARED(std::uint32_t, noted, B::keys / 32);
  const auto values = dynamic_shared<std::uint32_t>(
      B::stage_start + (number % B::stages * 2 + 1) * B::tile_bytes, B::tile_bytes / 4);
  const unsigned piece = thread_x() % B::pieces;
  const auto spoilt = [&](unsigned key) {
    bool bad = false;
    TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i) bad |= has_not_finite<Half>(values[B::place(key, piece) / 4 + i]);
    return bad;
  };
  bool bad = false;
  TROUPE_UNROLL
  for (unsigned key = thread_x() / B::pieces; key < B::keys; key += B::rows_at_once) bad |= spoilt(key);
  SpoiltKeys keys;
  if (!barrier_or(bad)) return keys;
  if (thread_x() < B::keys / 32) noted[thread_x()] = 0;
  barrier();
  for (unsigned key = thread_x() / B::pieces; key < B::keys; key += B::rows_at_once) {
    if (!spoilt(key)) continue;
    atomic_or(noted, key / 32, 1u << key % 32);
    for (unsigned i = 0; i < 4; ++i) values[B::place(key, piece) / 4 + i] = 0;
  }
  barrier();
  for (unsigned i = 0; i < B::keys / 32; ++i) keys.bits[i] = noted[i];
  barrier();
  return keys;
}

// Multiplying. Matrix m of a load is brought by lanes 8m to 8m + 7. Pieces 2n and 2n + 1 of a vector differ from pieces
// 0 and 1 in the bits of n alone, also when they are turned: so a lane's place for them is its first place xor 32n.

template <class B, unsigned fragments>
TROUPE_DEVICE void load_queries(unsigned step, std::uint32_t (&a)[fragments][4]) {
  const auto queries = dynamic_shared<std::byte>(0, B::vectors * B::vector_bytes);
  const unsigned row = warp() * B::warp_vectors + lane() % 16, piece = lane() / 16;
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f)
    load_matrices(a[f], queries.address((B::place(row, piece) ^ 32 * step) + f * 16 * B::vector_bytes));
}

template <class B, class Half, unsigned dim, unsigned fragments>
TROUPE_DEVICE void score(unsigned number, Scores<fragments>& scores) {
  const auto keys = dynamic_shared<std::byte>(B::stage_start + number % B::stages * 2 * B::tile_bytes, B::tile_bytes);
  const unsigned first = B::place(lane() / 16 * 8 + lane() % 8, lane() / 8 % 2);
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f)
    TROUPE_UNROLL
    for (unsigned j = 0; j < B::keys / 8; ++j)
      for (unsigned i = 0; i < 4; ++i) scores.of[f][j][i] = 0;
  TROUPE_UNROLL
  for (unsigned step = 0; step < dim / 16; ++step) {
    std::uint32_t a[fragments][4];
    load_queries<B>(step, a);
    TROUPE_UNROLL
    for (unsigned pair = 0; pair < B::keys / 16; ++pair) {
      std::uint32_t b[4];
      load_matrices(b, keys.address((first ^ 32 * step) + pair * 16 * B::vector_bytes));
      TROUPE_UNROLL
      for (unsigned f = 0; f < fragments; ++f) {
        multiply_add<Half>(scores.of[f][2 * pair], a[f], b[0], b[1]);
        multiply_add<Half>(scores.of[f][2 * pair + 1], a[f], b[2], b[3]);
      }
    }
  }
}

// `scores` are weights now.
template <class B, class Half, unsigned dim, unsigned fragments>
TROUPE_DEVICE void add_values(unsigned number, const Scores<fragments>& scores, Running<dim, fragments>& running) {
  const auto values =
      dynamic_shared<std::byte>(B::stage_start + (number % B::stages * 2 + 1) * B::tile_bytes, B::tile_bytes);
  const unsigned first = B::place(lane() % 16, lane() / 16);
  TROUPE_UNROLL
  for (unsigned pair = 0; pair < B::keys / 16; ++pair) {
    std::uint32_t a[fragments][4];
    TROUPE_UNROLL
    for (unsigned f = 0; f < fragments; ++f)
      TROUPE_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        const float(&two)[4] = scores.of[f][2 * pair + i / 2];
        a[f][i] = pack<Half>(two[2 * (i % 2)], two[2 * (i % 2) + 1]);
      }
    TROUPE_UNROLL
    for (unsigned step = 0; step < dim / 16; ++step) {
      std::uint32_t b[4];
      load_matrices_transposed(b, values.address((first ^ 32 * step) + pair * 16 * B::vector_bytes));
      TROUPE_UNROLL
      for (unsigned f = 0; f < fragments; ++f) {
        multiply_add<Half>(running.out[f][2 * step], a[f], b[0], b[1]);
        multiply_add<Half>(running.out[f][2 * step + 1], a[f], b[2], b[3]);
      }
    }
  }
}

// Softening.

// Invisible scores become minus infinity. A visible one that is not finite spoils its row: minus infinity too is an
// overflow then, not a key of no importance.
template <bool masked, unsigned dim, unsigned fragments>
TROUPE_DEVICE void judge(const Work& work, const KeyTile& tile, const SpoiltKeys& spoilt, const Sight<fragments>& sight,
                         Scores<fragments>& scores, Running<dim, fragments>& running) {
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f)
    TROUPE_UNROLL
    for (unsigned j = 0; j < attend_key_tile / 8; ++j)
      TROUPE_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        float& score = scores.of[f][j][i];
        float& row = running.spoilt[f][i / 2];
        if constexpr (masked) {
          const unsigned at = 8 * j + 2 * (lane() % 4) + i % 2, key = tile.first + at;
          const bool seen = at < tile.count && (key < work.item.context_tokens ||
                                                (key >= sight.begin[f][i / 2] && key < sight.end[f][i / 2]));
          const bool bad = (spoilt.bits[j / 4] >> at % 32 & 1) != 0;
          row = multiply_add(seen ? (bad ? minus_infinity : score) : 0.0f, 0.0f, row);
          score = seen ? score : minus_infinity;
        } else {
          row = multiply_add(score, 0.0f, row);
        }
      }
}

// Turns scores into weights, powers of two below the largest score so far, to which all of `running` is brought.
template <unsigned dim, unsigned fragments>
TROUPE_DEVICE void soften(float scale, Scores<fragments>& scores, Running<dim, fragments>& running) {
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f)
    TROUPE_UNROLL
    for (unsigned half = 0; half < 2; ++half) {
      float largest = running.largest[f][half];
      TROUPE_UNROLL
      for (unsigned j = 0; j < attend_key_tile / 8; ++j)
        largest = larger(largest, larger(scores.of[f][j][2 * half], scores.of[f][j][2 * half + 1]));
      largest = larger(largest, shuffle_xor(largest, 1));
      largest = larger(largest, shuffle_xor(largest, 2));
      const float top = largest == minus_infinity ? 0.0f : largest * scale;  // nothing seen yet: all weights are 0
      const float shrink = exp2_fast(multiply_add(running.largest[f][half], scale, -top));
      running.largest[f][half] = largest;
      float total = running.total[f][half] * shrink;
      TROUPE_UNROLL
      for (unsigned j = 0; j < attend_key_tile / 8; ++j)
        TROUPE_UNROLL
        for (unsigned i = 2 * half; i < 2 * half + 2; ++i) {
          scores.of[f][j][i] = exp2_fast(multiply_add(scores.of[f][j][i], scale, -top));
          total += scores.of[f][j][i];
        }
      running.total[f][half] = total;
      TROUPE_UNROLL
      for (unsigned j = 0; j < dim / 8; ++j)
        running.out[f][j][2 * half] *= shrink, running.out[f][j][2 * half + 1] *= shrink;
    }
}

}  // namespace
}  // namespace troupe::kernels::cuda
