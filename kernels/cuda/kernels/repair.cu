// Device kernels for repairs (RcLLM §III-C). One compares the tokens' own keys and values with
// their block's. The other writes the block's, rotated and corrected, where tokens are no longer
// computed.
#include "kernels/cuda/kernels/repair.h"

#include "kernels/base/check.h"
#include "kernels/cuda/kernels/rotate_inl.h"
#include "kernels/cuda/kernels/sums_inl.h"

namespace troupe::kernels::cuda {
namespace {

using namespace simt;

constexpr unsigned threads = 128, warps = threads / warp_threads;

struct RepairShape {
  std::uint32_t kv_heads, words;  // words per half of a key
  std::size_t layer_bytes;        // from a token's first key to its first key of the layer
  std::size_t head_bytes;         // from a key to its value; twice this from head to head

  TROUPE_DEVICE std::size_t key_at(unsigned head) const { return layer_bytes + head * 2 * head_bytes; }
};

// A lane's part of a key and its value.
struct Numbers {
  TwoPairs key, value;
};

template <class Half>
TROUPE_DEVICE Numbers load_own(const RepairToken& token, const RepairShape& shape, unsigned head,
                               unsigned word) {
  const std::byte* const key = token.own + shape.key_at(head);
  return {load_pairs<Half>(key, shape.words, word),
          load_pairs<Half>(key + shape.head_bytes, shape.words, word)};
}

// Loads the block's key and value, with the key rotated to the token's position.
template <class Half>
TROUPE_DEVICE Numbers load_block(const RepairToken& token, const RepairShape& shape, const float* rotations,
                                 unsigned head, unsigned word) {
  const std::byte* const key = token.block + shape.key_at(head);
  return {rotated(load_pairs<Half>(key, shape.words, word), rotations, token.rotation, shape.words, word),
          load_pairs<Half>(key + shape.head_bytes, shape.words, word)};
}

TROUPE_DEVICE TwoPairs difference(const TwoPairs& a, const TwoPairs& b) {
  return {{a.first[0] - b.first[0], a.first[1] - b.first[1]},
          {a.second[0] - b.second[0], a.second[1] - b.second[1]}};
}
TROUPE_DEVICE void add_to(TwoPairs& a, const TwoPairs& b, float times) {
  TROUPE_UNROLL
  for (unsigned i = 0; i < 2; ++i)
    a.first[i] = multiply_add(b.first[i], times, a.first[i]),
    a.second[i] = multiply_add(b.second[i], times, a.second[i]);
}
TROUPE_DEVICE float squares(const TwoPairs& x) {
  return x.first[0] * x.first[0] + x.first[1] * x.first[1] + x.second[0] * x.second[0] +
         x.second[1] * x.second[1];
}

// Compares a token per warp.
template <class Half>
TROUPE_KERNEL(threads)
compare_tokens_kernel(RepairLayer task, RepairShape shape, std::uint32_t count, float* lengths) {
  const unsigned number = block_x() * warps + warp();
  if (number >= count) return;
  const RepairToken token = task.tokens[number];
  float sum = 0;
  for (unsigned head = 0; head < shape.kv_heads; ++head)
    for (unsigned word = lane(); word < shape.words; word += warp_threads) {
      const Numbers own = load_own<Half>(token, shape, head, word);
      const Numbers block = load_block<Half>(token, shape, task.rotations, head, word);
      sum += squares(difference(own.key, block.key)) + squares(difference(own.value, block.value));
    }
  sum = warp_sum(sum);
  if (lane() == 0) lengths[number] = sum == 0 ? 0.0f : sum * rsqrt_fast(sum);
}

// Returns the mean difference of the item's chosen tokens, with keys before their rotation, to all
// warps. A warp takes every fourth token, so that the order of sums is always the same.
template <class Half>
TROUPE_DEVICE Numbers mean_difference(const RepairLayer& task, const RepairShape& shape, const FillItem& item,
                                      const std::uint32_t* numbers, unsigned head, unsigned word, bool mine) {
  TROUPE_SHARED(Numbers, partial, threads);
  Numbers mean = {};
  for (unsigned i = item.chosen_begin + warp(); mine && i < item.chosen_end; i += warps) {
    const RepairToken token = task.tokens[numbers[i]];
    const Numbers own = load_own<Half>(token, shape, head, word);
    const Numbers block = load_block<Half>(token, shape, task.rotations, head, word);
    add_to(mean.key,
           rotated(difference(own.key, block.key), task.rotations, -static_cast<std::int32_t>(token.position),
                   shape.words, word),
           1);
    add_to(mean.value, difference(own.value, block.value), 1);
  }
  partial[thread_x()] = mean;
  barrier();
  mean = {};
  const float each = 1.0f / static_cast<float>(item.chosen_end - item.chosen_begin);
  for (unsigned w = 0; w < warps; ++w) {
    add_to(mean.key, partial[w * warp_threads + lane()].key, each);
    add_to(mean.value, partial[w * warp_threads + lane()].value, each);
  }
  return mean;
}

// Fills an item and head per block. A lane takes four numbers of a key and of its value, a warp
// every fourth token.
template <class Half>
TROUPE_KERNEL(threads)
fill_tokens_kernel(RepairLayer task, RepairShape shape, const FillItem* items, const std::uint32_t* numbers) {
  const FillItem item = items[block_x() / shape.kv_heads];
  const unsigned head = block_x() % shape.kv_heads, word = lane();
  const bool mine = word < shape.words, corrected = item.chosen_begin < item.chosen_end;
  Numbers mean = {};
  if (corrected) mean = mean_difference<Half>(task, shape, item, numbers, head, word, mine);
  if (!mine) return;
  for (unsigned i = item.fill_begin + warp(); i < item.fill_end; i += warps) {
    const RepairToken token = task.tokens[numbers[i]];
    Numbers filled = load_block<Half>(token, shape, task.rotations, head, word);
    if (corrected) {
      add_to(filled.key,
             rotated(mean.key, task.rotations, static_cast<std::int32_t>(token.position), shape.words, word),
             1);
      add_to(filled.value, mean.value, 1);
    }
    std::byte* const key = token.own + shape.key_at(head);
    store_pairs<Half>(filled.key, key, shape.words, word);
    store_pairs<Half>(filled.value, key + shape.head_bytes, shape.words, word);
  }
}

RepairShape shape_of(const KvLayout& layout, std::uint32_t layer) {
  TROUPE_CHECK(
      layout.format != KvFormat::f32 && layout.head_dim % 4 == 0 && layout.head_dim / 4 <= warp_threads,
      "there is a kernel to repair these keys");
  return {layout.kv_heads, layout.head_dim / 4, layout.keys(layer, 0), layout.head_bytes()};
}

}  // namespace

void compare_tokens(const KvLayout& layout, const RepairLayer& task, std::uint32_t count, float* lengths,
                    Stream& stream) {
  if (count == 0) return;
  launch("compare_tokens",
         layout.format == KvFormat::bf16 ? compare_tokens_kernel<Bf16> : compare_tokens_kernel<F16>,
         {.blocks = (count + warps - 1) / warps, .threads = threads}, stream, task,
         shape_of(layout, task.layer), count, lengths);
}

void fill_tokens(const KvLayout& layout, const RepairLayer& task, const FillItem* items, std::uint32_t count,
                 const std::uint32_t* numbers, Stream& stream) {
  if (count == 0) return;
  launch("fill_tokens", layout.format == KvFormat::bf16 ? fill_tokens_kernel<Bf16> : fill_tokens_kernel<F16>,
         {.blocks = count * layout.kv_heads, .threads = threads}, stream, task, shape_of(layout, task.layer),
         items, numbers);
}

}  // namespace troupe::kernels::cuda
