#pragma once
// Profiles the engine: the forward pass alone, on the shapes and workloads that the peers of the CPU engine
// are compared on (Qwen2 family, random weights, random tokens). Each round has its process CPU time, its
// wall time, and the multiply-add rate sampled before and after it. The same samples give the time that a
// decoder could reach:
//   ideal seconds = (linear / L + attention / 0.80 + logits / 0.80) / multiply-add rate
// with the operations of `Flops`. L is 0.90 for float32 weights and 2.4 for int8 ones, which is 60 % of the
// four-fold rate of 8-bit dot products (VNNI) over float32.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu/products/fma_rate.h"
#include "kernels/decoder/decoder.h"

namespace troupe::deploy {

struct EngineShape {
  std::string_view name;
  std::uint32_t layers, hidden, heads, kv_heads, intermediate;
};
std::span<const EngineShape> engine_shapes();
const EngineShape& find_shape(std::string_view name);  // throws std::invalid_argument
// 32768 vocabulary rows, 8192 positions, 64 values a head, output projection tied to the embedding.
kernels::DecoderConfig shape_config(const EngineShape& shape, kernels::Family family);

inline constexpr std::uint32_t score_rows = 2;  // rows that a pointwise ranker reads: yes and no

enum class Workload : std::uint8_t {
  prefill_512,     // one segment; logits of all rows at its last token
  prefill_2048,    // likewise
  suffix,          // 1000 tokens on 1500 cached; logits of all rows at the last token
  rank,            // 100 segments of 10 tokens on 1500 cached; each reads 2 rows, as a pointwise ranker does
  rank_all_logits  // likewise, but each reads all vocabulary rows, as the peers do
};
std::string_view workload_name(Workload workload);

struct WorkloadPlan {
  kernels::Plan plan;
  bool cached = false;  // true if segment 0 is cached; all others are computed
};
WorkloadPlan make_workload(Workload workload, std::uint32_t vocabulary, std::uint64_t seed);

// Operations that a forward pass needs, two per multiply-add. Causal attention counts visible pairs only.
// Beyond its keys and values, the last layer counts only tokens with a readout, because no other token's
// output is used.
struct Flops {
  double linear = 0, attention = 0, logits = 0;
  double total() const { return linear + attention + logits; }
};
Flops useful_flops(const kernels::DecoderConfig& config, const WorkloadPlan& work);

// Formats of a run, and what computes them on this CPU.
struct EngineFormats {
  kernels::WeightFormat weights = kernels::WeightFormat::f32;
  kernels::KvFormat kv = kernels::KvFormat::f32;

  bool rounds_attention() const;  // attention multiplies bf16
  // Names of versions in the tables of kernels: "avx512_bf16"; instructions as widest_multiply_add().
  std::string linear_version() const, attention_version() const;
  std::string_view linear_instruction() const, attention_instruction() const;
  double linear_rate(const kernels::MultiplyAddRates& rates) const { return rates.of(weights); }
  double attention_rate(const kernels::MultiplyAddRates& rates) const;
  bool operator==(const EngineFormats&) const = default;
};
// The formats of `kv` "auto": bf16 with bf16 and int8 weights, else float32.
kernels::KvFormat kv_format_for(kernels::WeightFormat weights, std::string_view kv);
double ideal_seconds(const Flops& flops, const EngineFormats& formats,
                     const kernels::MultiplyAddRates& rates);

struct EngineSetup {
  std::uint32_t threads = 1;
  EngineFormats formats;
  std::uint32_t page_tokens = 4;
  std::uint64_t seed = 7;
};

struct EngineRound {
  double cpu_seconds = 0, wall_seconds = 0;
  kernels::MultiplyAddRates rates;  // of a thread: means of the samples before and after
  kernels::PassTimes times;
};

struct EngineMemory {
  std::uint64_t weight_bytes = 0;    // parameters × 4
  std::uint64_t resident_bytes = 0;  // growth of the process after the decoder was loaded and packed
};

// One decoder of one shape, and the cached history of its workloads.
class EngineBench {
 public:
  EngineBench(const EngineShape& shape, const EngineSetup& setup);
  ~EngineBench();

  // Runs one untimed pass at a workload's first call, then `rounds` timed ones.
  std::vector<EngineRound> measure(Workload workload, std::uint32_t rounds);
  const EngineMemory& memory() const { return memory_; }
  const kernels::DecoderConfig& config() const { return config_; }

 private:
  struct Pages;
  struct PreparedWorkload;
  PreparedWorkload& prepare(Workload workload);

  const EngineSetup setup_;
  const kernels::DecoderConfig config_;
  std::unique_ptr<kernels::Executor> decoder_;
  EngineMemory memory_;
  std::vector<std::unique_ptr<PreparedWorkload>> prepared_;
};

double median(std::vector<double> values);  // `values` must not be empty

// Number of cores that the calling thread may use; 0 if the system does not say.
std::uint32_t usable_cores();

// Pins the calling thread, and the threads and processes that it starts, to the last core that it may use,
// until the end of the scope. If pinning fails, nothing changes.
class CorePin {
 public:
  CorePin();
  ~CorePin();
  CorePin(const CorePin&) = delete;
  CorePin& operator=(const CorePin&) = delete;

 private:
  struct SavedAffinity;
  std::unique_ptr<SavedAffinity> before_;
};

}  // namespace troupe::deploy
