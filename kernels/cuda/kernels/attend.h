#pragma once
// Computes span attention on the device: the contract of kernels/operations/attend.h over pages in
// device memory. Queries are bf16, or in the keys' format; outputs, keys and values are bf16 or
// f16. Products run on tensor cores with float32 sums; the softmax is float32; weights are rounded
// to the keys' format before they multiply values. A policy turns scores into weights
// (attend_score_policy_inl.h): a softmax, or HSTU's SiLU with a bias per pair.
//
// Keys and values of the format f32 are two f16 numbers each, the rounded number and the remainder,
// side by side in a vector ([all rounded][all remainders]); queries then are, too. Three products
// replace one, which gives about float32's accuracy. A token is the address of its first byte in
// its page (page + token_in_page * layout.vector_bytes()); a layer and a head add their offset
// (kv_layout.h).
//
// There are two kernels. Both walk the key tiles of an item (attend_plan.h). A tile of 64 keys is
// 256 * head_dim bytes, and 256 * head_dim operations per query vector.
//
// attend.cu uses mma.sync, for sm_80 and later. A block keeps its query tile in shared memory and
// gathers the keys and values of the next tile by 16-byte asynchronous copies while its tensor
// cores work on the current one.
//
// attend_hopper.cu uses wgmma, for sm_90a and head_dim 64 and 128. One warpgroup gathers; one or
// two others of 64 vectors each multiply and soften, with queries, sums and weights in registers.
// Its bounds for head_dim 128 and 128 vectors, in cycles of a multiprocessor per tile at published
// rates: products 1,024, at 2,048 multiply-adds a cycle; powers of two 512, at 16 a cycle; the
// softening's other arithmetic about 350. Both must run beside the products, so a group softens one
// tile while it multiplies the values of the tile before and while the other group multiplies. The
// L2 cache delivers 32 KiB, 32 bytes a cycle, which all multiprocessors together get only at up to
// about two thirds of the matrix rate. Shared memory uses 96 of 128 bytes a cycle, which leaves too
// little for queries.
//
// Tokens are gathered one by one with 16-byte copies, which write each piece where swizzled
// products expect it. Tokens may lie anywhere: in the arena, in a pass's scratch, in the middle of
// a page. A bulk tensor copy takes a box out of one allocation, here at most 2 KiB, and would need
// contiguous runs to be found in every pass; a plain bulk copy cannot swizzle. The copies cost a
// warp about 80 instructions per tile. Query vectors use bulk copies. With head_dim 32 the powers
// of two take twice as long as the products, so mma.sync is as fast.
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/half_format.h"
#include "kernels/cuda/kernels/attend_plan.h"
#include "kernels/operations/kv_layout.h"
#include "kernels/operations/silu_attend.h"

namespace troupe::kernels::cuda {

enum class ScorePolicy : std::uint8_t { softmax, silu };

// Returns an empty string if there is a kernel for these pages, else what is wrong and what was
// expected. `heads`: query heads.
std::string attend_fault(const KvLayout& layout, std::uint32_t heads);

// Selects the kernel, for tests and benchmarks. `hopper` needs a device of capability 90, or the
// emulator; head sizes without a Hopper version, and builds without sm_90a, use mma.sync.
enum class AttendPath : std::uint8_t { by_device, mma, hopper };

// Returns the machine for plans over these pages: the tiles that fit the device's shared memory.
// Throws DeviceError if no tile fits.
AttendMachine attend_machine(const KvLayout& layout, std::uint32_t heads, const DeviceProperties& device,
                             AttendPath path = AttendPath::by_device,
                             ScorePolicy softening = ScorePolicy::softmax);

// Inputs of SiLU's bias per pair, shared by all layers and heads.
struct AttendBias {
  const std::int32_t* key_positions = nullptr;  // parallel to the token addresses
  const std::int32_t* row_positions = nullptr;  // per query row
  const std::uint32_t* row_steps = nullptr;     // per query row: index of its first step
  // Steps over the group's keys, context first. After a row's last step comes one with key ~0.
  const BucketStep* steps = nullptr;
};

// Arguments of one pass, the same for all its layers. Device pointers.
struct AttendPass {
  const std::byte* const* addresses = nullptr;  // of tokens
  const AttendItem* items = nullptr;
  const KeyTile* key_tiles = nullptr;
  const AttendMerge* merges = nullptr;
  const std::uint32_t* visible_begin = nullptr;  // per query row
  const std::uint32_t* visible_end = nullptr;
  float* partials = nullptr;  // attend_partial_bytes; 16-byte aligned
  // Numbers of launched items and merges; some may be padding without vectors.
  std::uint32_t item_count = 0, merge_count = 0;
  std::uint32_t tile_vectors = 64;
  AttendPath path = AttendPath::by_device;
  // Maximum blocks of a kernel whose blocks compute several items; for tests.
  std::uint32_t blocks_max = ~0u;
  AttendBias bias;
};

// Arguments of one layer. Row r, head h of the queries is at queries + r*query_stride + h*head_dim,
// 16-byte aligned; outputs likewise.
struct AttendLayer {
  const std::uint16_t* queries = nullptr;
  std::uint16_t* out = nullptr;
  std::size_t query_stride = 0, out_stride = 0;  // numbers
  std::uint32_t layer = 0;
  std::uint32_t heads = 1;  // query heads that share a key-value head
  HalfFormat out_format = HalfFormat::bf16;
  float scale = 1;               // positive
  bool queries_as_keys = false;  // queries have the keys' format, not bf16; always so for f32
  float* out_f32 = nullptr;      // not null: receives the outputs, unrounded, instead of `out`
  // Not null: for row r and head h, receives the largest score and the factor that turns powers of
  // two into shares of the softmax, at stats + 2 * (r * kv_heads * heads + h).
  float* stats = nullptr;
  ScorePolicy softening = ScorePolicy::softmax;
  // For SiLU: factor of the sums; weights by key position minus row position, which may be
  // negative, and by time bucket. Null: no bias.
  float factor = 1;
  const float *by_distance = nullptr, *by_bucket = nullptr;
};

std::size_t attend_partial_bytes(const KvLayout& layout, std::uint32_t partials, std::uint32_t tile_vectors);

// Enqueues one layer. attend_fault must accept the layout.
void attend(const KvLayout& layout, const AttendPass& pass, const AttendLayer& layer, Stream& stream);

}  // namespace troupe::kernels::cuda
