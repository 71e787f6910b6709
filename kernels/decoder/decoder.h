#pragma once
// The decoder architectures (Qwen, Llama) behind executor.h, on the CPU here and on devices in
// kernels/cuda. Pages hold keys and values (kv_layout.h).
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/base/number_formats.h"
#include "kernels/checkpoint/model.h"
#include "kernels/executor/executor.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::kernels {

// How the paths of beam searches are computed. `together` is the fast way; the others are baselines
// to measure it by (xGR §3, §9) with the same answers.
enum class BeamPaths : std::uint8_t {
  together,  // all paths of a search attend to its prompt at once and share its keys
  // each path attends to the prompt alone; its own tokens are in pages, which are copied when paths
  // part
  copied,
  tree  // all tokens of all paths, ended ones too, form one sequence with a mask of what each sees
};

struct DecoderOptions {
  std::uint32_t page_tokens = 4;
  KvFormat kv = KvFormat::f32;
  WeightFormat weights = WeightFormat::f32;
  // Cores that a decoder and those shared from it may use. A pass runs on the thread that calls
  // `run`, and is split among the cores that no other pass uses at the time.
  std::uint32_t cores = 1;
  // Number of executors: this decoder and those to be shared from it. If there are at least as many
  // as memory nodes, each executor stays on one node, with the threads that run its passes. A
  // thread that calls `run` is then bound to the node's CPUs.
  std::uint32_t executors = 1;
  // Working memory of passes on the CPU; 0 = no limit. A batch of up to `batch_tokens` computed
  // tokens must fit into it, whatever its plans are (cpu/engine/pass_memory.h).
  std::size_t memory_bytes = 0;
  std::uint32_t batch_tokens = 0;
  BeamPaths beams = BeamPaths::together;
  bool sort_all = false;  // sort all continuations of a level, not only those that may be kept (a baseline)
};

// Returns a suffix for the names of blocks that tells how this CPU computes with such weights. int8:
// 7 bits are used where its byte products are summed in 16 bits. bf16: where the CPU multiplies bf16
// numbers, activations are rounded to bf16 for weights in bf16, and queries for keys in bf16. Empty for
// float32.
std::string weight_variant(WeightFormat format, KvFormat kv);

// Maximum width of a beam search (the largest in xGR's evaluation). A larger one would only need
// more memory.
inline constexpr std::uint32_t search_width_max = 512;
PlanLimits plan_limits(const DecoderConfig& config);
PageLayout page_layout(const KvLayout& layout);
inline PageLayout page_layout(const DecoderConfig& config, const DecoderOptions& options) {
  return page_layout(kv_layout(config, options.page_tokens, options.kv));
}

// Makes the CPU backend. Takes the weights: packs them once and keeps no second copy.
std::unique_ptr<Executor> make_cpu_decoder(DecoderModel model, const DecoderOptions& options);

}  // namespace troupe::kernels
