#include "kernels/cuda/kernels/turn_tokens.h"

#include "kernels/base/check.h"
#include "kernels/cuda/simt/simt.h"

namespace troupe::kernels::cuda {
namespace {

using namespace simt;

constexpr unsigned threads = 256, blocks = 64;  // the count is known on the device only

struct TurnShape {
  std::uint32_t kv_heads, words;  // of half a key
  std::size_t layer_bytes;        // from a token's first key to its first of the layer
  std::size_t head_bytes;         // from a key to its value; two of them from head to head
};

template <class Half>
TROUPE_KERNEL(threads)
turn_tokens_kernel(TurnedTokens tokens, TurnShape shape) {
  const auto* const places = reinterpret_cast<std::byte* const*>(tokens.heap) + tokens.lists[1];
  const auto* const distances = reinterpret_cast<const std::int32_t*>(tokens.heap) + tokens.lists[2];
  const std::size_t of_token = std::size_t{shape.kv_heads} * shape.words, all = tokens.lists[0] * of_token;
  for (std::size_t n = block_x() * std::size_t{threads} + thread_x(); n < all;
       n += blocks_x() * std::size_t{threads}) {
    const std::size_t token = n / of_token;
    const auto head = static_cast<unsigned>(n % of_token / shape.words);
    const auto word = static_cast<unsigned>(n % shape.words);
    const std::size_t at = shape.layer_bytes + head * 2 * shape.head_bytes;
    const auto* const key = reinterpret_cast<const std::uint32_t*>(places[2 * token] + at);
    const auto* const value =
        reinterpret_cast<const std::uint32_t*>(places[2 * token] + at + shape.head_bytes);
    auto* const key_to = reinterpret_cast<std::uint32_t*>(places[2 * token + 1] + at);
    auto* const value_to = reinterpret_cast<std::uint32_t*>(places[2 * token + 1] + at + shape.head_bytes);
    const std::int32_t distance = distances[token];
    const std::size_t row = static_cast<std::size_t>(distance < 0 ? -distance : distance);
    const float* const angles = tokens.rotations + (row * shape.words + word) * 4;
    const float sign = distance < 0 ? -1.0f : 1.0f;
    const std::uint32_t first = key[word], second = key[shape.words + word];
    const float a = low_of<Half>(first), b = low_of<Half>(second);
    const float c = high_of<Half>(first), d = high_of<Half>(second);
    const float sine = sign * angles[1], next_sine = sign * angles[3];
    key_to[word] = pack<Half>(a * angles[0] - b * sine, c * angles[2] - d * next_sine);
    key_to[shape.words + word] = pack<Half>(b * angles[0] + a * sine, d * angles[2] + c * next_sine);
    value_to[word] = value[word];
    value_to[shape.words + word] = value[shape.words + word];
  }
}

}  // namespace

void turn_tokens(const KvLayout& layout, const TurnedTokens& tokens, Stream& stream) {
  TROUPE_CHECK(layout.format != KvFormat::f32 && layout.head_dim % 4 == 0, "no kernel to turn these keys");
  const TurnShape shape{layout.kv_heads, layout.head_dim / 4, layout.keys(tokens.layer, 0),
                        layout.head_bytes()};
  launch("turn_tokens", layout.format == KvFormat::bf16 ? turn_tokens_kernel<Bf16> : turn_tokens_kernel<F16>,
         {.blocks = blocks, .threads = threads}, stream, tokens, shape);
}

}  // namespace troupe::kernels::cuda
