#pragma once
// Benchmarks whole models: passes of a decoder with random weights, as a ranker and a prefill
// request them.
#include <filesystem>
#include <memory>

#include "kernels/cuda/bench/bench_timer.h"
#include "kernels/cuda/bench/bench_work.h"
#include "kernels/decoder/decoder.h"

namespace troupe::kernels::cuda {

// A pass. If `cached`, the first segment's keys and values are already in pages.
struct ModelPass {
  std::string text;
  Plan plan;
  bool cached = false;
};
std::vector<ModelPass> model_passes(const BenchShape& shape, Chance& chance);

// Returns the costs of a pass: products, attention and readouts, one entry per launch. Data passed
// from one launch to the next is assumed to stay in the cache.
std::vector<Cost> pass_costs(const DecoderConfig& config, const ModelPass& pass);
// Excludes launches of attention.
unsigned pass_launches(const DecoderConfig& config);

class ModelBench {
 public:
  // Draws the weights, rounded to bf16; writes them to `directory` in Hugging Face form unless that
  // is empty.
  ModelBench(const BenchShape& shape, std::uint64_t seed, const std::filesystem::path& directory);

  // Compares a small pass with the CPU's decoder. Returns an empty string, or what differs.
  std::string check(Chance& chance);
  struct Measured {
    Timing wall;      // of `run`: planning, upload, launches, download of logits
    PassTimes parts;  // device seconds of one pass; planning on the CPU
    std::vector<std::vector<float>> logits;
  };
  Measured measure(const ModelPass& pass, unsigned rounds);
  const DecoderConfig& config() const { return config_; }

 private:
  Request prepare(const ModelPass& pass);

  DecoderModel reference_;  // kept until it was checked
  DecoderConfig config_;
  std::unique_ptr<Executor> decoder_;
  DeviceMemory history_;
};

}  // namespace troupe::kernels::cuda
