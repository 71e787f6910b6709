#pragma once
// Whole models: passes of a decoder with random weights, as a ranker and a prefill ask for them.
#include <filesystem>
#include <memory>

#include "kernels/cuda/bench/bench_timer.h"
#include "kernels/cuda/bench/bench_work.h"
#include "kernels/decoder/decoder.h"

namespace troupe::kernels::cuda {

// One pass. The first segment's keys and values are in pages where it is cached.
struct ModelPass {
  std::string text;
  Plan plan;
  bool cached = false;
};
std::vector<ModelPass> model_passes(const BenchShape& shape, Chance& chance);

// What the pass must compute and read: products, attention and readouts; each launch's part by itself. What
// passes from one launch to the next is taken to stay in the cache.
std::vector<Cost> pass_costs(const DecoderConfig& config, const ModelPass& pass);
// Without those of attention.
unsigned pass_launches(const DecoderConfig& config);

class ModelBench {
 public:
  // Draws the weights, rounded to bf16; writes them to `directory` in Hugging Face form unless that is empty.
  ModelBench(const BenchShape& shape, std::uint64_t seed, const std::filesystem::path& directory);

  // Empty where a small pass has the logits of the CPU's decoder, else what differs.
  std::string check(Chance& chance);
  struct Measured {
    Timing wall;         // of `forward`: planning, upload, launches, logits back
    ForwardTimes parts;  // device seconds of one pass, planning on the CPU
    std::vector<std::vector<float>> logits;
  };
  Measured measure(const ModelPass& pass, unsigned rounds);
  const DecoderConfig& config() const { return decoder_->config(); }

 private:
  Request prepare(const ModelPass& pass);

  DecoderModel reference_;  // until it was checked
  std::unique_ptr<Decoder> decoder_;
  DeviceMemory history_;
};

}  // namespace troupe::kernels::cuda
