// Times the forward pass alone, with random weights and tokens, and samples the machine's
// multiply-add rate beside it. Also computes the time that an ideal decoder would take.
#include "deploy/lab/bench/bench_engine.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <stdexcept>

#include "deploy/lab/bench/resident_memory.h"
#include "kernels/base/check.h"
#include "kernels/checkpoint/decoder_tensors.h"
#include "kernels/cpu/products/byte_product.h"
#include "kernels/cpu/products/product.h"
#include "kernels/operations/attend.h"
#include "kernels/operations/versions.h"

namespace troupe::deploy {

namespace {

using kernels::Plan;
using kernels::SegmentKind;
using kernels::Token;

constexpr std::array<EngineShape, 3> shapes{
    {{"tiny", 4, 256, 4, 2, 1024}, {"small", 12, 512, 8, 2, 2048}, {"qwen05", 24, 896, 14, 2, 4864}}};
constexpr std::uint32_t vocabulary = 32768, positions = 8192;
constexpr std::size_t history_tokens = 1500, suffix_tokens = 1000;
constexpr std::size_t candidates = 100, candidate_tokens = 10;

double seconds_of(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::uint64_t parameters(const kernels::DecoderConfig& config) {
  kernels::DecoderWeights weights = kernels::empty_weights(config);
  std::uint64_t sum = 0;
  for (const auto& slot : kernels::decoder_tensors(config, weights)) sum += slot.size();
  return sum;
}

class TokenGenerator {
 public:
  TokenGenerator(std::uint32_t below, std::uint64_t seed) : below_(below), state_(seed) {}
  std::vector<Token> draw(std::size_t count) {
    std::vector<Token> tokens(count);
    for (Token& token : tokens) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
      token = static_cast<Token>((state_ >> 33) % below_);
    }
    return tokens;
  }

 private:
  std::uint64_t below_, state_;
};

std::vector<Token> first_rows(std::uint32_t count) {
  std::vector<Token> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// Number of visible pairs of a segment: each token sees `before` tokens, the segment's tokens before it, and
// itself.
double visible_pairs(double before, double tokens) { return tokens * before + tokens * (tokens + 1) / 2; }

// Version of products and attention whose instructions multiply bf16.
constexpr std::string_view pair_version = "avx512_bf16";

// Returns the name of the arithmetic that a version runs: that of AVX-512 unless it rounds to bf16.
std::string version_name(std::string_view version, bool rounds) {
  return std::string(version == pair_version && !rounds ? "avx512" : version);
}

kernels::MultiplyAddRates mean_rates(const kernels::MultiplyAddRates& one,
                                     const kernels::MultiplyAddRates& other) {
  kernels::MultiplyAddRates mean;
  for (std::size_t f = 0; f < mean.by_format.size(); ++f)
    mean.by_format[f] = (one.by_format[f] + other.by_format[f]) / 2;
  return mean;
}

}  // namespace

std::span<const EngineShape> engine_shapes() { return shapes; }

const EngineShape& find_shape(std::string_view name) {
  for (const EngineShape& shape : shapes)
    if (shape.name == name) return shape;
  throw std::invalid_argument("--shape is " + std::string(name.substr(0, 40)) +
                              "; expected tiny, small or qwen05");
}

kernels::DecoderConfig shape_config(const EngineShape& shape, kernels::Family family) {
  kernels::DecoderConfig config;
  config.family = family;
  config.layers = shape.layers;
  config.hidden = shape.hidden;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.hidden / shape.heads;
  config.intermediate = shape.intermediate;
  config.vocabulary = vocabulary;
  config.positions_max = positions;
  config.rope_theta = 1e6;
  config.qkv_bias = family == kernels::Family::qwen2;
  config.qk_norm = family == kernels::Family::qwen3;
  config.tied_embeddings = true;
  return config;
}

std::string_view workload_name(Workload workload) {
  constexpr std::array<std::string_view, 5> names{"prefill 512", "prefill 2048", "suffix 1000 on 1500",
                                                  "rank 100x10 on 1500", "rank, all logits"};
  return names[static_cast<std::size_t>(workload)];
}

WorkloadPlan make_workload(Workload workload, std::uint32_t vocabulary_rows, std::uint64_t seed) {
  TokenGenerator tokens(vocabulary_rows, seed);
  WorkloadPlan work;
  Plan& plan = work.plan;
  const auto add_read = [&](SegmentKind kind, std::size_t count, std::uint32_t rows) {
    const std::int32_t start = work.cached ? history_tokens : 0;
    plan.segments.push_back({kind, tokens.draw(count), start, {}});
    if (work.cached) plan.segments.back().sees = {0};
    const auto index = static_cast<std::uint32_t>(plan.segments.size() - 1);
    plan.readouts.push_back({index, static_cast<std::uint32_t>(count - 1), first_rows(rows)});
  };
  if (workload == Workload::prefill_512 || workload == Workload::prefill_2048) {
    add_read(SegmentKind::user, workload == Workload::prefill_512 ? 512 : 2048, vocabulary_rows);
    return work;
  }
  plan.segments.push_back({SegmentKind::user, tokens.draw(history_tokens), 0, {}});
  work.cached = true;
  if (workload == Workload::suffix) {
    add_read(SegmentKind::user, suffix_tokens, vocabulary_rows);
    return work;
  }
  const std::uint32_t rows = workload == Workload::rank ? score_rows : vocabulary_rows;
  for (std::size_t i = 0; i < candidates; ++i) add_read(SegmentKind::item, candidate_tokens, rows);
  return work;
}

Flops useful_flops(const kernels::DecoderConfig& c, const WorkloadPlan& work) {
  const Plan& plan = work.plan;
  double tokens = 0, pairs = 0, read_pairs = 0, read_rows = 0;
  const auto before = [&](const kernels::Segment& segment) {
    double sum = 0;
    for (const std::uint32_t seen : segment.sees)
      sum += static_cast<double>(plan.segments[seen].tokens.size());
    return sum;
  };
  for (std::size_t s = work.cached ? 1 : 0; s < plan.segments.size(); ++s) {
    const auto count = static_cast<double>(plan.segments[s].tokens.size());
    tokens += count;
    pairs += visible_pairs(before(plan.segments[s]), count);
  }
  for (const kernels::Readout& readout : plan.readouts) {
    read_pairs += before(plan.segments[readout.segment]) + readout.offset + 1;
    read_rows += static_cast<double>(readout.rows.size());
  }
  const double hidden = c.hidden, query = c.heads * c.head_dim, key = c.kv_heads * c.head_dim;
  const double keys_values = 2 * hidden * key, rest = 2 * hidden * query + 3 * hidden * c.intermediate;
  const double layers = c.layers, reads = static_cast<double>(plan.readouts.size());
  return {.linear = 2 * (layers * tokens * keys_values + ((layers - 1) * tokens + reads) * rest),
          .attention = 4 * query * ((layers - 1) * pairs + read_pairs),
          .logits = 2 * hidden * read_rows};
}

bool EngineFormats::rounds_attention() const {
  return weights != kernels::WeightFormat::f32 && kv == kernels::KvFormat::bf16 &&
         kernels::first_usable(kernels::attend_versions()).name == pair_version;
}

std::string EngineFormats::linear_version() const {
  if (weights == kernels::WeightFormat::int8) return std::string(kernels::byte_product_version().name);
  const kernels::ProductVersion& version = kernels::product_version();
  return version_name(version.name, version.rounds_input && weights == kernels::WeightFormat::bf16);
}

std::string EngineFormats::attention_version() const {
  return version_name(kernels::first_usable(kernels::attend_versions()).name, rounds_attention());
}

std::string_view EngineFormats::linear_instruction() const { return kernels::widest_multiply_add(weights); }

std::string_view EngineFormats::attention_instruction() const {
  return kernels::widest_multiply_add(rounds_attention() ? kernels::WeightFormat::bf16
                                                         : kernels::WeightFormat::f32);
}

double EngineFormats::attention_rate(const kernels::MultiplyAddRates& rates) const {
  return rounds_attention() ? rates.of(kernels::WeightFormat::bf16) : rates.f32();
}

kernels::KvFormat kv_format_for(kernels::WeightFormat weights, std::string_view kv) {
  if (kv != "auto") return kernels::find_kv_format(kv).value();
  return weights == kernels::WeightFormat::f32 ? kernels::KvFormat::f32 : kernels::KvFormat::bf16;
}

double ideal_seconds(const Flops& flops, const EngineFormats& formats,
                     const kernels::MultiplyAddRates& rates) {
  const double linear_share = formats.weights == kernels::WeightFormat::int8 ? 0.60 : 0.90;
  return flops.linear / (linear_share * formats.linear_rate(rates)) +
         flops.attention / (0.80 * formats.attention_rate(rates)) + flops.logits / (0.80 * rates.f32());
}

double median(std::vector<double> values) {
  TROUPE_CHECK(!values.empty(), "the median of an empty list was requested");
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The pages of one segment.
struct EngineBench::Pages {
  Pages(const kernels::PageLayout& layout, std::size_t tokens)
      : bytes(static_cast<std::byte*>(std::aligned_alloc(64, layout.page_bytes() * layout.pages_for(tokens))),
              &std::free) {
    if (!bytes) throw std::bad_alloc();
    for (std::size_t i = 0; i < layout.pages_for(tokens); ++i)
      addresses.push_back(bytes.get() + i * layout.page_bytes());
  }
  std::unique_ptr<std::byte, decltype(&std::free)> bytes;
  std::vector<std::byte*> addresses;
};

// A workload ready to run: its history, if any, is in the pages.
struct EngineBench::PreparedWorkload {
  Workload workload;
  WorkloadPlan work;
  std::optional<Pages> history;
  kernels::Request request;
  std::vector<kernels::Reply> logits;
};

EngineBench::EngineBench(const EngineShape& shape, const EngineSetup& setup)
    : setup_(setup), config_(shape_config(shape, kernels::Family::qwen2)) {
  memory_.weight_bytes = parameters(config_) * sizeof(float);
  const std::uint64_t before = resident_bytes();
  kernels::DecoderOptions options;
  options.page_tokens = setup.page_tokens;
  options.kv = setup.formats.kv;
  options.weights = setup.formats.weights;
  options.cores = setup.threads;
  decoder_ = kernels::make_cpu_decoder(kernels::random_decoder(config_, setup.seed), options);
  const std::uint64_t after = resident_bytes();
  memory_.resident_bytes = after - std::min(before, after);
}

EngineBench::~EngineBench() = default;

EngineBench::PreparedWorkload& EngineBench::prepare(Workload workload) {
  for (const auto& known : prepared_)
    if (known->workload == workload) return *known;
  auto made = std::make_unique<PreparedWorkload>();
  made->workload = workload;
  made->work = make_workload(workload, config_.vocabulary, setup_.seed);
  const Plan& plan = made->work.plan;
  made->request.plan = &plan;
  made->request.kv.resize(plan.segments.size());
  if (made->work.cached) {
    made->history.emplace(decoder_->layout(), plan.segments[0].tokens.size());
    const Plan alone{{plan.segments[0]}, {}};
    const kernels::Request keep{&alone, {{kernels::Source::compute, made->history->addresses}}};
    decoder_->run({&keep, 1}, made->logits);
    made->request.kv[0] = {kernels::Source::cached, made->history->addresses};
  }
  decoder_->run({&made->request, 1}, made->logits);
  prepared_.push_back(std::move(made));
  return *prepared_.back();
}

std::vector<EngineRound> EngineBench::measure(Workload workload, std::uint32_t rounds) {
  PreparedWorkload& prepared = prepare(workload);
  std::vector<EngineRound> measured(rounds);
  for (EngineRound& round : measured) {
    const kernels::MultiplyAddRates before = kernels::multiply_add_rates(setup_.threads);
    decoder_->measure(&round.times);
    const double wall = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    decoder_->run({&prepared.request, 1}, prepared.logits);
    round.cpu_seconds = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    round.wall_seconds = seconds_of(CLOCK_MONOTONIC) - wall;
    decoder_->measure(nullptr);
    round.rates = mean_rates(before, kernels::multiply_add_rates(setup_.threads));
  }
  return measured;
}

std::uint32_t usable_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? static_cast<std::uint32_t>(CPU_COUNT(&cores)) : 0;
}

struct CorePin::SavedAffinity {
  cpu_set_t cores;
};

CorePin::CorePin() {
  auto before = std::make_unique<SavedAffinity>();
  if (sched_getaffinity(0, sizeof before->cores, &before->cores) != 0) return;
  int last = CPU_SETSIZE - 1;
  while (last > 0 && !CPU_ISSET(last, &before->cores)) --last;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  if (sched_setaffinity(0, sizeof one, &one) == 0) before_ = std::move(before);
}

CorePin::~CorePin() {
  if (before_) sched_setaffinity(0, sizeof before_->cores, &before_->cores);
}

}  // namespace troupe::deploy
