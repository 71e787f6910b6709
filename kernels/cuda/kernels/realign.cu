// Rotates the cached keys of whole pages on the device, so that their blocks can be used at another
// position of a prompt.
#include "kernels/cuda/kernels/realign.h"

#include "kernels/base/check.h"
#include "kernels/cuda/simt/simt.h"

namespace troupe::kernels::cuda {
namespace {

using namespace simt;

constexpr unsigned threads = 256;
constexpr unsigned pieces_per_thread = 4;  // at least: a thread reads its angles once for all of them

// The unit that a thread moves at once, as numbers.
struct alignas(16) Floats {
  float at[4];
};
struct alignas(16) Words {
  std::uint32_t at[4];
};
template <class Half>
struct Halves {
  using Piece = Words;
  static constexpr unsigned numbers = 8;
  TROUPE_DEVICE static float get(const Piece& piece, unsigned i) {
    return i % 2 == 0 ? low_of<Half>(piece.at[i / 2]) : high_of<Half>(piece.at[i / 2]);
  }
  TROUPE_DEVICE static Piece packed(const float (&from)[numbers]) {
    Piece piece;
    TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i) piece.at[i] = pack<Half>(from[2 * i], from[2 * i + 1]);
    return piece;
  }
};
struct Singles {
  using Piece = Floats;
  static constexpr unsigned numbers = 4;
  TROUPE_DEVICE static float get(const Piece& piece, unsigned i) { return piece.at[i]; }
  TROUPE_DEVICE static Piece packed(const float (&from)[numbers]) {
    return {from[0], from[1], from[2], from[3]};
  }
};

// The angles of a piece's pairs for its page's distance.
template <class Numbers>
struct Angles {
  float cosines[Numbers::numbers], sines[Numbers::numbers];

  // `row`: rotations of the absolute distance.
  TROUPE_DEVICE void load(const float* row, bool backwards) {
    TROUPE_UNROLL
    for (unsigned i = 0; i < Numbers::numbers; i += 2) {
      const Floats two = *reinterpret_cast<const Floats*>(row + 2 * i);
      cosines[i] = two.at[0], cosines[i + 1] = two.at[2];
      sines[i] = backwards ? -two.at[1] : two.at[1], sines[i + 1] = backwards ? -two.at[3] : two.at[3];
    }
  }
  TROUPE_DEVICE void rotate(typename Numbers::Piece& first, typename Numbers::Piece& second) const {
    float x[Numbers::numbers], y[Numbers::numbers];
    TROUPE_UNROLL
    for (unsigned i = 0; i < Numbers::numbers; ++i) {
      const float a = Numbers::get(first, i), b = Numbers::get(second, i), c = cosines[i], s = sines[i];
      x[i] = multiply_add(-b, s, a * c), y[i] = multiply_add(a, s, b * c);
    }
    first = Numbers::packed(x), second = Numbers::packed(y);
  }
};

// Dimensions of pages as the kernel walks them: pieces of the first halves of all keys, in address
// order.
struct PageShape {
  std::uint32_t half_pieces;  // per half of a key
  std::uint32_t run_pieces;   // per head's keys: page_tokens * half_pieces
  std::uint32_t pieces;       // per page
  std::uint32_t splits;       // blocks that share a page
  std::size_t head_bytes;     // from a key to its value; twice this from head to head
};

// Rotates pages. Neighbouring threads take neighbouring pieces. The number of threads is a multiple
// of half_pieces, so that all pieces of a thread have the same angles.
template <class Numbers>
TROUPE_KERNEL(threads)
realign_kernel(const RealignPage* pages, const float* rotations, PageShape shape) {
  using Piece = typename Numbers::Piece;
  const RealignPage page = pages[block_x() / shape.splits];
  const bool moves = page.from != page.to, turns = page.distance != 0;
  if (!moves && !turns) return;
  const unsigned first = block_x() % shape.splits * threads + thread_x(), of_half = first % shape.half_pieces;
  const std::size_t half_bytes = shape.half_pieces * sizeof(Piece);
  Angles<Numbers> angles;
  if (turns) {
    const bool backwards = page.distance < 0;
    const auto row = static_cast<std::uint32_t>(backwards ? -page.distance : page.distance);
    angles.load(rotations + (std::size_t{row} * shape.half_pieces + of_half) * Numbers::numbers * 2,
                backwards);
  }
  for (unsigned n = first; n < shape.pieces; n += shape.splits * threads) {
    const unsigned head = n / shape.run_pieces, token = n % shape.run_pieces / shape.half_pieces;
    const std::size_t at = head * 2 * shape.head_bytes + token * 2 * half_bytes + of_half * sizeof(Piece);
    const bool filled = token < page.tokens;
    if (!filled && !moves) continue;
    Piece keys[2] = {}, values[2] = {};
    if (filled) {
      keys[0] = *reinterpret_cast<const Piece*>(page.from + at);
      keys[1] = *reinterpret_cast<const Piece*>(page.from + at + half_bytes);
      if (moves) {
        values[0] = *reinterpret_cast<const Piece*>(page.from + at + shape.head_bytes);
        values[1] = *reinterpret_cast<const Piece*>(page.from + at + shape.head_bytes + half_bytes);
      }
      if (turns) angles.rotate(keys[0], keys[1]);
    }
    *reinterpret_cast<Piece*>(page.to + at) = keys[0];
    *reinterpret_cast<Piece*>(page.to + at + half_bytes) = keys[1];
    if (!moves) continue;
    *reinterpret_cast<Piece*>(page.to + at + shape.head_bytes) = values[0];
    *reinterpret_cast<Piece*>(page.to + at + shape.head_bytes + half_bytes) = values[1];
  }
}

// Returns 0 if halves of keys are not whole pieces.
std::uint32_t half_pieces_of(const KvLayout& layout) {
  return layout.vector_bytes() % 32 == 0 ? static_cast<std::uint32_t>(layout.vector_bytes() / 32) : 0;
}

}  // namespace

std::string realign_fault(const KvLayout& layout) {
  const std::uint32_t pieces = half_pieces_of(layout);
  if (pieces != 0 && threads % pieces == 0) return "";
  return "head_dim " + std::to_string(layout.head_dim) +
         "; to realign on a GPU expected a power of two from " +
         std::to_string(32 / value_bytes(layout.format));
}

void realign(const KvLayout& layout, const RealignPage* pages, std::uint32_t count, const float* rotations,
             Stream& stream) {
  TROUPE_CHECK(realign_fault(layout).empty(), "there is a kernel to realign these pages");
  const std::size_t pieces = layout.page_bytes() / 64;
  TROUPE_CHECK(pieces <= ~std::uint32_t{0} / 2, "a page has at most 128 GiB");
  if (count == 0 || pieces == 0) return;
  const auto per_block = std::size_t{threads} * pieces_per_thread;
  const auto splits = static_cast<std::uint32_t>((pieces + per_block - 1) / per_block);
  const std::uint32_t half = half_pieces_of(layout);
  const PageShape shape{half, layout.page_tokens * half, static_cast<std::uint32_t>(pieces), splits,
                        layout.head_bytes()};
  TROUPE_CHECK(std::uint64_t{count} * splits < 1u << 31, "one launch has enough blocks");
  const auto kernel = layout.format == KvFormat::f32    ? realign_kernel<Singles>
                      : layout.format == KvFormat::bf16 ? realign_kernel<Halves<Bf16>>
                                                        : realign_kernel<Halves<F16>>;
  launch("realign", kernel, {.blocks = count * splits, .threads = threads}, stream, pages, rotations, shape);
}

}  // namespace troupe::kernels::cuda
