#pragma once
// Span attention on the device: the contract of kernels/operations/attend.h over pages in device memory.
// Queries are bf16, or as the keys are; outputs, keys and values bf16 or f16; products on tensor cores with
// float32 sums, softmax in float32, weights rounded to the keys' format before they multiply values. How
// scores become weights is a policy (attend_soften_inl.h): a softmax, or HSTU's SiLU with a bias of every
// pair. Keys and values of the format f32 are two f16 each, a number rounded and what is left of it, side by
// side in a vector ([all numbers][all rests]); so are queries then; three products do what one does, to
// float32's accuracy or nearly. A token is the address of its first byte in its page (page + token_in_page *
// layout.vector_bytes()); a layer and head add their offset (kv_layout.h).
//
// There are two kernels. Both walk the key tiles of an item (attend_plan.h); a tile of 64 keys is 256 *
// head_dim bytes, and 256 * head_dim operations for every query vector.
//
// attend.cu, mma.sync, for sm_80 and later: a block keeps its query tile in shared memory and gathers the
// keys and values of the next tile by 16-byte asynchronous copies while its tensor cores work on this one.
//
// attend_hopper.cu, wgmma, for sm_90a and head_dim 64 and 128: a warpgroup gathers, one or two others of 64
// vectors each multiply and soften, queries, sums and weights in registers. What bounds it, for head_dim 128
// and 128 vectors, in cycles of a multiprocessor at its published rates: products 1,024 a tile, at 2,048
// multiply-adds a cycle; powers of two 512, at 16 a cycle; other arithmetic of softening about 350, so both
// must run beside the products: a group softens one tile while it multiplies the values of the tile before
// and while the other group multiplies. From the L2 cache come 32 KiB, 32 bytes a cycle, which all
// multiprocessors together get only where about two thirds of the matrix rate are reached. Shared memory
// takes 96 of 128 bytes a cycle; queries in shared memory would be too much.
//
// Tokens are gathered one by one, 16 bytes a copy, which puts each where swizzled products look for it. They
// lie anywhere: in the arena, in a pass's scratch, from the middle of a page on. A bulk tensor copy takes a
// box out of one allocation, here 2 KiB at most, and would need runs found in every pass; a plain bulk copy
// cannot swizzle. The copies take a warp about 80 instructions a tile. Query vectors come by bulk copies.
// With head_dim 32 the powers of two take twice as long as the products, so mma.sync serves it as well.
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/half_format.h"
#include "kernels/cuda/kernels/attend_plan.h"
#include "kernels/operations/kv_layout.h"
#include "kernels/operations/silu_attend.h"

namespace troupe::kernels::cuda {

enum class Softening : std::uint8_t { softmax, silu };

// Empty if there is a kernel for these pages, else what is wrong and what was expected. `heads`: query heads.
std::string attend_fault(const KvLayout& layout, std::uint32_t heads);

// Which kernel runs: for tests and benchmarks. `hopper` needs a device of capability 90, or the emulator;
// head sizes that it has no version of go the other way.
enum class AttendPath : std::uint8_t { by_device, mma, hopper };

// What plans for these pages are made for: the tiles that the device has shared memory for. DeviceError where
// it has too little for any.
AttendMachine attend_machine(const KvLayout& layout, std::uint32_t heads, const DeviceProperties& device,
                             AttendPath path = AttendPath::by_device,
                             Softening softening = Softening::softmax);

// What SiLU's bias of pairs is made of, once for all layers and heads.
struct AttendBias {
  const std::int32_t* key_positions = nullptr;  // beside the addresses of tokens
  const std::int32_t* row_positions = nullptr;  // per query row
  const std::uint32_t* row_steps = nullptr;     // per query row: the number of its first step
  // Of keys as the group has them, context first; behind a row's last one stands one whose key is ~0.
  const BucketStep* steps = nullptr;
};

// One pass, the same for all its layers. Device pointers.
struct AttendPass {
  const std::byte* const* addresses = nullptr;  // of tokens
  const AttendItem* items = nullptr;
  const KeyTile* key_tiles = nullptr;
  const AttendMerge* merges = nullptr;
  const std::uint32_t* visible_begin = nullptr;  // per query row
  const std::uint32_t* visible_end = nullptr;
  float* partials = nullptr;  // attend_partial_bytes; 16-byte aligned
  // Launched; there may be items and merges of no vectors among them.
  std::uint32_t item_count = 0, merge_count = 0;
  std::uint32_t tile_vectors = 64;
  AttendPath path = AttendPath::by_device;
  std::uint32_t blocks_max = ~0u;  // of a kernel whose blocks stay for several items: for tests
  AttendBias bias;
};

// Row r, head h of the queries at queries + r*query_stride + h*head_dim, 16-byte aligned; outputs likewise.
struct AttendLayer {
  const std::uint16_t* queries = nullptr;
  std::uint16_t* out = nullptr;
  std::size_t query_stride = 0, out_stride = 0;  // numbers
  std::uint32_t layer = 0;
  std::uint32_t heads = 1;  // query heads that share a key-value head
  HalfFormat out_format = HalfFormat::bf16;
  float scale = 1;               // positive
  bool queries_as_keys = false;  // queries have the keys' format, not bf16; f32: they always have
  float* out_f32 = nullptr;      // not null: outputs go there, unrounded, and not to `out`
  // Not null: of row r and head h the largest score and by what powers of two are multiplied to be its share
  // of the softmax, at stats + 2 * (r * kv_heads * heads + h).
  float* stats = nullptr;
  Softening softening = Softening::softmax;
  // Of SiLU: by what sums are multiplied; weights by key's minus row's position, also below 0, and by bucket.
  // Null: there is no bias.
  float factor = 1;
  const float *by_distance = nullptr, *by_bucket = nullptr;
};

std::size_t attend_partial_bytes(const KvLayout& layout, std::uint32_t partials, std::uint32_t tile_vectors);

// Enqueues one layer. The layout is one that attend_fault accepts.
void attend(const KvLayout& layout, const AttendPass& pass, const AttendLayer& layer, Stream& stream);

}  // namespace troupe::kernels::cuda
