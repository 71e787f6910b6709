#pragma once
// Implements the decoder family with CUDA. It takes the same plans as the CPU; all keys and values
// are in pages of device memory. Weights and activations have 16 bits, the residual stream is
// float32. A pass is one upload, then the launches of its shape, replayed from a recording if the
// shape was seen before, then a download of its logits. Each executor (`share`) has its own stream
// and buffers, allocated once from the bounds in the options. decoder_pass.h has the layer loop,
// pass_plan.h the upload.
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
  // Bounds of one pass: computed tokens; keys, summed over its groups of rows (decoder_batch.h);
  // logits; uploaded bytes. Scratch for keys and values that are not kept takes the layout's
  // token_bytes for each of rows_max.
  std::uint32_t rows_max = 8192;
  std::uint32_t keys_max = 1 << 18;
  std::uint32_t logits_max = 1 << 20;
  std::size_t plan_bytes_max = std::size_t{16} << 20;
  // Maximum tokens whose keys and values the beam searches of a batch keep in their own pages while
  // they run: of prompts for which the requests have no pages, and of paths. 0 = no searches.
  std::uint32_t search_tokens_max = 0;
  // Maximum logits of a search level on the device at once; at least the vocabulary's size. They
  // are not downloaded.
  std::uint32_t search_logits_max = 1 << 24;
  // Maximum number of pass shapes and level-readout shapes whose recordings are kept; the least
  // recently used is dropped. 0 = nothing is recorded.
  std::uint32_t graphs_max = 32;
};

// Returns the minimum of search_logits_max for such a model.
std::uint32_t search_logits_min(const DecoderConfig& config);

// Returns an empty string if there are kernels for the model, else what is wrong and what was
// expected.
std::string cuda_decoder_fault(const DecoderConfig& config, const CudaDecoderOptions& options);

// Requires a configuration and options without a fault. Pages of requests are device addresses.
// Measured times are device seconds, except for planning. A pass throws DeviceError on failure.
std::unique_ptr<Executor> make_cuda_decoder(DecoderModel model, const CudaDecoderOptions& options);

}  // namespace troupe::kernels::cuda
