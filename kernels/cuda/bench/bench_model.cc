// Benchmarks passes of whole decoders with random weights on a device. Logits are checked against
// the CPU's decoder first.
#include "kernels/cuda/bench/bench_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "kernels/base/float_formats.h"
#include "kernels/cuda/device/half_format.h"
#include "kernels/cuda/engine/decoder.h"

namespace troupe::kernels::cuda {
namespace {

constexpr std::uint32_t score_rows = 2;  // of a pointwise ranker: yes and no

std::vector<Token> drawn_tokens(std::size_t count, std::uint32_t vocabulary, Chance& chance) {
  std::vector<Token> tokens(count);
  for (Token& token : tokens) token = static_cast<Token>(chance() % vocabulary);
  return tokens;
}

// Adds a segment whose last token is read.
void add_read(Plan& plan, std::vector<Token> tokens, std::int32_t start, std::vector<std::uint32_t> sees,
              std::uint32_t rows) {
  const auto last = static_cast<std::uint32_t>(tokens.size()) - 1;
  plan.segments.push_back({SegmentKind::user, std::move(tokens), start, VisibleSegments(sees)});
  std::vector<Token> read(rows);
  std::iota(read.begin(), read.end(), 0);
  plan.readouts.push_back({static_cast<std::uint32_t>(plan.segments.size()) - 1, last, std::move(read)});
}

void round_values(std::vector<float>& values) {
  std::vector<std::uint16_t> bits(values.size());
  round_to(HalfFormat::bf16, values, bits.data());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = from_bf16(bits[i]);
}

// Rounds the weights, so that both decoders and every peer have the same numbers.
void round_to_bf16(DecoderModel& model) {
  for (LayerWeights& layer : model.weights.layers) {
    for (Matrix* m : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down})
      round_values(m->values);
    for (auto* values : {&layer.input_norm, &layer.post_attention_norm, &layer.q_bias, &layer.k_bias,
                         &layer.v_bias, &layer.o_bias, &layer.q_norm, &layer.k_norm})
      round_values(*values);
  }
  round_values(model.weights.embedding.values);
  round_values(model.weights.output.values);
  round_values(model.weights.final_norm);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

std::vector<ModelPass> model_passes(const BenchShape& shape, Chance& chance) {
  const auto start = static_cast<std::int32_t>(shape.history);
  std::vector<ModelPass> passes(3);
  passes[0].text = "prefill " + std::to_string(shape.prefill);
  add_read(passes[0].plan, drawn_tokens(shape.prefill, shape.vocabulary, chance), 0, {}, shape.vocabulary);
  passes[1].text = std::to_string(shape.suffix) + " on " + std::to_string(shape.history);
  passes[2].text = "rank " + std::to_string(shape.candidates) + " x " +
                   std::to_string(shape.candidate_tokens) + " on " + std::to_string(shape.history);
  const std::vector<Token> history = drawn_tokens(shape.history, shape.vocabulary, chance);
  for (ModelPass* pass : {&passes[1], &passes[2]}) {
    pass->cached = true;
    pass->plan.segments.push_back({SegmentKind::user, history, 0, {}});
  }
  add_read(passes[1].plan, drawn_tokens(shape.suffix, shape.vocabulary, chance), start, {0},
           shape.vocabulary);
  for (std::uint32_t i = 0; i < shape.candidates; ++i)
    add_read(passes[2].plan, drawn_tokens(shape.candidate_tokens, shape.vocabulary, chance), start, {0},
             score_rows);
  return passes;
}

std::vector<Cost> pass_costs(const DecoderConfig& c, const ModelPass& pass) {
  const double hidden = c.hidden, query = c.heads * c.head_dim, key = c.kv_heads * c.head_dim;
  const std::size_t cached = pass.cached ? pass.plan.segments[0].tokens.size() : 0;
  const auto context = static_cast<std::uint32_t>(cached),
             count = static_cast<std::uint32_t>(pass.plan.readouts.size());
  const auto tokens = static_cast<std::uint32_t>(pass.plan.segments.back().tokens.size());
  const PassGeometry all{"", context, count, tokens},
      read{"", context + tokens - 1, count, 1};  // the last token of each is read
  const KvLayout layout = kv_layout(c, 16, KvFormat::bf16);
  std::vector<Cost> costs;
  const auto product = [&](double count, double inputs, double outputs) {
    costs.push_back({CostKind::product, 2 * inputs * outputs, 2 * count * inputs * outputs});
  };
  for (std::uint32_t layer = 0; layer < c.layers; ++layer) {
    const bool last = layer + 1 == c.layers;
    const PassGeometry& sight = last ? read : all;
    const double count = sight.rows();
    product(all.rows(), hidden, query + 2 * key);
    costs.push_back({CostKind::attention, 4 * key * all.keys(), 4 * query * sight.pairs(),
                     [layout, sight, heads = c.heads](const DataSheet& sheet) {
                       return attention_seconds(sheet, layout, heads, sight);
                     }});
    product(count, query, hidden);
    product(count, hidden, 2 * c.intermediate);
    product(count, c.intermediate, hidden);
  }
  double read_rows = 0;
  for (const Readout& readout : pass.plan.readouts) read_rows += static_cast<double>(readout.rows.size());
  const double vocabulary_rows = std::min(read_rows, static_cast<double>(c.vocabulary));
  costs.push_back({CostKind::memory, 2 * hidden * vocabulary_rows, 0});
  return costs;
}

unsigned pass_launches(const DecoderConfig& config) { return 8 * config.layers + 6; }

ModelBench::ModelBench(const BenchShape& shape, std::uint64_t seed, const std::filesystem::path& directory) {
  DecoderModel model = random_decoder(config_of(shape), seed);
  round_to_bf16(model);
  if (!directory.empty()) {
    std::filesystem::create_directories(directory);
    write_decoder(model, directory, StoredAs::bf16);
  }
  reference_ = model;
  config_ = model.config;
  const std::uint32_t rows = std::max({shape.prefill, shape.history, 100u});  // 100: for check
  decoder_ = make_cuda_decoder(std::move(model),
                               {.rows_max = rows + shape.suffix, .keys_max = 4 * (rows + shape.suffix)});
}

// Compares with the CPU's decoder. Errors of 16-bit activations grow with the square root of the
// number of layers (decoder_test.cc).
std::string ModelBench::check(Chance& chance) {
  const DecoderConfig& config = config_;
  Plan plan;
  plan.segments.push_back({SegmentKind::user, drawn_tokens(50, config.vocabulary, chance), 0, {}});
  for (int i = 0; i < 3; ++i)
    add_read(plan, drawn_tokens(9, config.vocabulary, chance), 50, {0}, std::min(50u, config.vocabulary));
  const Request request{&plan, std::vector<SegmentKv>(plan.segments.size())};
  const auto cores = std::max(1u, std::thread::hardware_concurrency());
  const auto on_cpu = make_cpu_decoder(std::move(reference_), {.cores = cores});
  const std::vector<Reply> want = on_cpu->run({&request, 1}), got = decoder_->run({&request, 1});
  const double tolerance = 8 * std::sqrt(config.layers * 10 / 3.0) * 0x1p-9;
  double worst = 0, magnitude = 1;
  for (std::size_t r = 0; r < want[0].readouts.size(); ++r)
    for (std::size_t i = 0; i < want[0].readouts[r].size(); ++i) {
      const double expected = want[0].readouts[r][i], off = std::abs(got[0].readouts[r][i] - expected);
      worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
      magnitude = std::max(magnitude, std::abs(expected));
    }
  if (worst <= tolerance * magnitude) return "";
  return "logits differ from the CPU decoder's by " + std::to_string(worst / magnitude) +
         " of the largest; expected at most " + std::to_string(tolerance);
}

// Computes the history into pages if the pass needs it cached.
Request ModelBench::prepare(const ModelPass& pass) {
  Request request{&pass.plan, std::vector<SegmentKv>(pass.plan.segments.size())};
  if (!pass.cached) return request;
  const PageLayout& layout = decoder_->layout();
  const std::size_t pages = layout.pages_for(pass.plan.segments[0].tokens.size());
  history_ = DeviceMemory(pages * layout.page_bytes());
  SegmentKv kept;
  for (std::size_t p = 0; p < pages; ++p) kept.pages.push_back(history_.data() + p * layout.page_bytes());
  const Plan alone{{pass.plan.segments[0]}, {}};
  const Request keep{&alone, {kept}};
  decoder_->run({&keep, 1});
  request.kv[0] = {Source::cached, kept.pages};
  return request;
}

ModelBench::Measured ModelBench::measure(const ModelPass& pass, unsigned rounds) {
  const Request request = prepare(pass);
  std::vector<Reply> logits;
  // The second run records, the third replays.
  for (int i = 0; i < 3; ++i) decoder_->run({&request, 1}, logits);
  Measured measured;
  std::vector<double> seconds;
  for (unsigned round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    decoder_->run({&request, 1}, logits);
    seconds.push_back(seconds_since(begin));
  }
  measured.wall = timing_of(std::move(seconds));
  measured.logits = logits[0].readouts;
  decoder_->measure(&measured.parts);
  decoder_->run({&request, 1}, logits);
  decoder_->measure(nullptr);
  return measured;
}

}  // namespace troupe::kernels::cuda
