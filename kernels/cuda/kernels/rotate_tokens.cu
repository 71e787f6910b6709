// Copies the keys and values of single tokens to other slots on the device, with keys rotated to
// another position. A pass needs this for blocks used at another position than they were computed
// at.
#include "kernels/cuda/kernels/rotate_tokens.h"

#include "kernels/base/check.h"
#include "kernels/cuda/kernels/rotate_inl.h"

namespace troupe::kernels::cuda {
namespace {

using namespace simt;

constexpr unsigned threads = 256, blocks = 64;  // only the device knows the count

struct RotationShape {
  std::uint32_t kv_heads, words;  // words per half of a key
  std::size_t layer_bytes;        // from a token's first key to its first key of the layer
  std::size_t head_bytes;         // from a key to its value; twice this from head to head
};

template <class Half>
TROUPE_KERNEL(threads)
rotate_tokens_kernel(RotatedTokens tokens, RotationShape shape) {
  const auto* const places = reinterpret_cast<std::byte* const*>(tokens.heap) + tokens.lists[1];
  const auto* const distances = reinterpret_cast<const std::int32_t*>(tokens.heap) + tokens.lists[2];
  const std::size_t of_token = std::size_t{shape.kv_heads} * shape.words, all = tokens.lists[0] * of_token;
  for (std::size_t n = block_x() * std::size_t{threads} + thread_x(); n < all;
       n += blocks_x() * std::size_t{threads}) {
    const std::size_t token = n / of_token;
    const auto head = static_cast<unsigned>(n % of_token / shape.words);
    const auto word = static_cast<unsigned>(n % shape.words);
    const std::size_t at = shape.layer_bytes + head * 2 * shape.head_bytes;
    const std::byte* const key = places[2 * token] + at;
    const auto* const value =
        reinterpret_cast<const std::uint32_t*>(places[2 * token] + at + shape.head_bytes);
    std::byte* const key_to = places[2 * token + 1] + at;
    auto* const value_to = reinterpret_cast<std::uint32_t*>(places[2 * token + 1] + at + shape.head_bytes);
    store_pairs<Half>(rotated(load_pairs<Half>(key, shape.words, word), tokens.rotations, distances[token],
                              shape.words, word),
                      key_to, shape.words, word);
    value_to[word] = value[word];
    value_to[shape.words + word] = value[shape.words + word];
  }
}

}  // namespace

void rotate_tokens(const KvLayout& layout, const RotatedTokens& tokens, Stream& stream) {
  TROUPE_CHECK(layout.format != KvFormat::f32 && layout.head_dim % 4 == 0,
               "there is a kernel to rotate these keys");
  const RotationShape shape{layout.kv_heads, layout.head_dim / 4, layout.keys(tokens.layer, 0),
                            layout.head_bytes()};
  launch("turn_tokens",
         layout.format == KvFormat::bf16 ? rotate_tokens_kernel<Bf16> : rotate_tokens_kernel<F16>,
         {.blocks = blocks, .threads = threads}, stream, tokens, shape);
}

}  // namespace troupe::kernels::cuda
