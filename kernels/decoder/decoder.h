#pragma once
// The decoder family behind executor.h: transformers of the Qwen and Llama kind, on the CPU here and on
// devices in kernels/cuda. Pages hold keys and values (kv_layout.h).
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/base/number_formats.h"
#include "kernels/checkpoint/model.h"
#include "kernels/executor/executor.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::kernels {

// How beam searches run. The others are what the first is measured by (xGR §3, §9): never faster, same
// answers.
enum class BeamPaths : std::uint8_t {
  together,  // all paths of a search attend to its prompt at once, and share what they have in common
  copied,    // each path attends to the prompt by itself, and has its own tokens in pages, copied when paths
             // part
  tree  // all tokens of all paths, also of those that ended, are one sequence, of which a mask says who sees
        // what
};

struct DecoderOptions {
  std::uint32_t page_tokens = 4;
  KvFormat kv = KvFormat::f32;
  WeightFormat weights = WeightFormat::f32;
  // Cores that a decoder and those shared from it may use. A pass runs on the thread that calls `run`, and is
  // split among the cores that no other pass keeps busy at the time.
  std::uint32_t cores = 1;
  // Executors that there will be, this decoder and those shared from it. Where there are at least as many as
  // the machine has memory nodes, each stays on one, with the threads that run its passes: a thread that
  // calls `run` is kept on the node's CPUs from then on.
  std::uint32_t executors = 1;
  // Working memory of passes on the CPU, and computed tokens of a batch that fits whatever it is
  // (cpu/engine/pass_memory.h). 0: passes have no bound.
  std::size_t memory_bytes = 0;
  std::uint32_t batch_tokens = 0;
  BeamPaths beams = BeamPaths::together;
  bool sort_all = false;  // of a search's level all continuations are sorted, not only those that may be kept
};

// What else int8 weights mean on this CPU, for the names of blocks: they have 7 bits where its products of
// bytes are summed in 16 bits. Empty for float32.
std::string weight_variant(WeightFormat format);

// Paths of a beam search (xGR's widest); more would only need more memory.
inline constexpr std::uint32_t search_width_max = 512;
PlanLimits plan_limits(const DecoderConfig& config);
PageLayout page_layout(const KvLayout& layout);
inline PageLayout page_layout(const DecoderConfig& config, const DecoderOptions& options) {
  return page_layout(kv_layout(config, options.page_tokens, options.kv));
}

// CPU backend. Takes the weights (packs them once, keeps no second copy).
std::unique_ptr<Executor> make_cpu_decoder(DecoderModel model, const DecoderOptions& options);

}  // namespace troupe::kernels
