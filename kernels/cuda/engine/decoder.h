#pragma once
// The CUDA backend of the decoder family: the same plans, with every key and value in pages of device memory,
// and weights and activations in 16 bits under a float32 residual stream. What a pass needs goes to the
// device in one upload; then the launches of its shape run, from a recording where the shape was seen before;
// then its logits come back. Each executor
// (`share`) has its own stream and buffers, allocated once from the bounds of the options. decoder_pass.h is
// the layer loop, pass_plan.h what is uploaded.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/device/half_format.h"
#include "kernels/decoder/decoder.h"

namespace troupe::kernels::cuda {

struct CudaDecoderOptions {
  int device = 0;
  std::uint32_t page_tokens = 16;
  KvFormat kv = KvFormat::bf16;
  HalfFormat weights = HalfFormat::bf16;
  // What one pass may have: computed tokens; keys, summed over its groups of rows (decoder_batch.h); logits;
  // bytes of what is uploaded for it. Keys and values that are not kept take token_bytes of the layout for
  // each of rows_max.
  std::uint32_t rows_max = 8192;
  std::uint32_t keys_max = 1 << 18;
  std::uint32_t logits_max = 1 << 20;
  std::size_t plan_bytes_max = std::size_t{16} << 20;
  // Tokens whose keys and values the beam searches of a batch keep in pages of their own while they run: of
  // prompts that the requests have no pages for, and of paths. 0: there are no searches.
  std::uint32_t search_tokens_max = 0;
  // Logits of a level of searches on the device at once, as many as the vocabulary has or more; they stay
  // there.
  std::uint32_t search_logits_max = 1 << 24;
  // Shapes of passes, and of readouts of levels, whose recordings are kept; the least recently used leaves.
  // 0: passes run without.
  std::uint32_t graphs_max = 32;
};

// The least that search_logits_max may be for such a model.
std::uint32_t search_logits_min(const DecoderConfig& config);

// Empty if there are kernels for such a model, else what is wrong and what was expected.
std::string cuda_decoder_fault(const DecoderConfig& config, const CudaDecoderOptions& options);

// The configuration and options are ones without a fault. Pages of requests are addresses of device memory;
// times that are measured are the device's, in seconds, but for planning. A pass throws DeviceError.
std::unique_ptr<Executor> make_cuda_decoder(DecoderModel model, const CudaDecoderOptions& options);

}  // namespace troupe::kernels::cuda
