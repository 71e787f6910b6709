// Compares Troupe's beam search with simpler ways to run it (separate paths, a tree, full sorting,
// no valid paths), on the same kernels and prompts.
#include "deploy/lab/bench/bench_generate.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <random>
#include <set>
#include <stdexcept>

#include "deploy/lab/bench/bench_engine.h"
#include "deploy/reports/table.h"
#include "kernels/cpu/engine/beam_tails.h"
#include "kernels/cpu/products/fma_rate.h"

namespace troupe::deploy {

namespace {

using kernels::BeamPaths;
using kernels::Search;
using kernels::Token;

constexpr std::array<BeamEngine, 5> engines{{{"troupe"},
                                             {"independent", BeamPaths::copied},
                                             {"tree", BeamPaths::tree},
                                             {"full sort", BeamPaths::together, true},
                                             {"unconstrained", BeamPaths::together, false, false}}};
constexpr std::size_t random_items = 20'000, levels = 3;

double ms_of(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

struct FreePages {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

// One engine with its decoder and the pages of its prompt.
class Runner {
 public:
  Runner(const GenerateWork& work, const GenerateSetup& setup, const BeamEngine& engine,
         Search::Normalisation normalised)
      : work_(work), setup_(setup), config_(work.model.config) {
    run_.engine = engine;
    run_.normalised = normalised;
    kernels::DecoderOptions options;
    options.kv = setup.kv;
    options.weights = setup.weights;
    options.cores = setup.threads;
    options.beams = engine.beams;
    options.sort_all = engine.sort_all;
    layout_ = kv_layout(config_, options.page_tokens, options.kv);
    decoder_ = kernels::make_cpu_decoder(work.model, options);
  }

  void take(const AccuracyEvent& event, bool timed) {
    kernels::Plan plan;
    plan.segments = {{kernels::SegmentKind::user, event.prompt, 0, {}}};
    kernels::Request request{&plan, {{kernels::Source::compute, pages_for(event.prompt.size())}}};
    if (setup_.cached) {
      decoder_->run({&request, 1}, replies_);
      request.kv[0].source = kernels::Source::cached;
    }
    plan.search.width = plan.search.results = setup_.width;
    plan.search.normalised = run_.normalised;
    if (run_.engine.constrained)
      request.assets = std::make_shared<kernels::PathAssets>(work_.data.index);
    else
      plan.search.steps = work_.data.index->depth();
    const double fma = timed ? kernels::fma_rate_together(setup_.threads) : 0;
    if (timed) decoder_->measure(&run_.times);
    const double wall = ms_of(CLOCK_MONOTONIC), cpu = ms_of(CLOCK_PROCESS_CPUTIME_ID);
    decoder_->run({&request, 1}, replies_);
    if (!timed) return;
    run_.cpu_ms.push_back(ms_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    run_.wall_ms.push_back(ms_of(CLOCK_MONOTONIC) - wall);
    decoder_->measure(nullptr);
    run_.fma_rate += (fma + kernels::fma_rate_together(setup_.threads)) / 2;
    judge(event);
  }

  GenerateRun finish() {
    const auto requests = static_cast<double>(std::max<std::size_t>(1, run_.wall_ms.size()));
    run_.fma_rate /= requests;
    run_.probability /= requests;
    return std::move(run_);
  }

 private:
  std::vector<std::byte*> pages_for(std::size_t tokens) {
    const std::size_t count = layout_.pages_for(tokens), bytes = count * layout_.page_bytes();
    if (bytes > bytes_) {
      pages_.reset(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
      if (!pages_) throw std::bad_alloc();
      bytes_ = bytes;
    }
    std::vector<std::byte*> pages;
    for (std::size_t p = 0; p < count; ++p) pages.push_back(pages_.get() + p * layout_.page_bytes());
    return pages;
  }

  void judge(const AccuracyEvent& event) {
    const std::vector<kernels::Beam>& beams = replies_[0].beams;
    const kernels::PathIndex& index = *work_.data.index;
    std::set<Path> seen;
    for (const kernels::Beam& beam : beams) {
      const kernels::PathIndex::Node node = index.find(beam.path);
      run_.invalid += node == kernels::PathIndex::none || !index.is_leaf(node);
      run_.duplicate += !seen.insert(beam.path).second;
      run_.probability += std::exp(beam.log_probability);
    }
    ++run_.requests;
    run_.returned += beams.size();
    if (!event.truth.empty()) {
      const auto ten = std::span(beams).first(std::min<std::size_t>(10, beams.size()));
      run_.hits_at_10 += std::ranges::find(ten, event.truth, &kernels::Beam::path) != ten.end();
      ++run_.judged;
    }
    const auto prompt = static_cast<double>(event.prompt.size());
    run_.attention_operations +=
        4.0 * config_.heads * config_.head_dim * config_.layers * prompt * setup_.width * (index.depth() - 1);
    run_.kv_bytes_peak = std::max<std::uint64_t>(
        run_.kv_bytes_peak,
        layout_.pages_for(event.prompt.size()) * layout_.page_bytes() +
            kernels::BeamTails::bytes(layout_, setup_.width, index.depth(), run_.engine.beams));
    run_.mask_bytes = kernels::BeamTails::mask_bytes(setup_.width, index.depth(), run_.engine.beams);
  }

  const GenerateWork& work_;
  const GenerateSetup& setup_;
  const kernels::DecoderConfig& config_;
  kernels::KvLayout layout_;
  std::unique_ptr<kernels::Executor> decoder_;
  std::unique_ptr<std::byte, FreePages> pages_;
  std::size_t bytes_ = 0;
  std::vector<kernels::Reply> replies_;
  GenerateRun run_;
};

void reject_if_unfit(const RandomWork& asked, const kernels::DecoderConfig& config) {
  if (asked.prompt == 0 || asked.prompt + levels > config.positions_max)
    throw std::invalid_argument("--prompt is " + std::to_string(asked.prompt) + "; expected 1 to " +
                                std::to_string(config.positions_max - levels));
  const std::uint64_t codes = asked.codes;
  if (codes > config.vocabulary / levels)
    throw std::invalid_argument("--codes is " + std::to_string(codes) + "; expected at most " +
                                std::to_string(config.vocabulary / levels) + ", a third of a vocabulary of " +
                                std::to_string(config.vocabulary));
  if (codes * codes * codes < 2 * random_items)
    throw std::invalid_argument("--codes is " + std::to_string(codes) + "; expected at least 35, so that " +
                                std::to_string(random_items) + " items have identifiers of three codes");
}

}  // namespace

std::span<const BeamEngine> beam_engines() { return engines; }

const BeamEngine& find_beam_engine(std::string_view name) {
  const auto found = std::ranges::find(engines, name, &BeamEngine::name);
  if (found != engines.end()) return *found;
  throw std::invalid_argument("--engines has \"" + std::string(name.substr(0, 40)) +
                              "\"; expected troupe, independent, tree, full sort or unconstrained");
}

std::string_view normalisation_name(Search::Normalisation normalised) {
  return normalised == Search::Normalisation::allowed ? "allowed" : "vocabulary";
}

Search::Normalisation find_normalisation(std::string_view name) {
  for (const auto known : {Search::Normalisation::vocabulary, Search::Normalisation::allowed})
    if (name == normalisation_name(known)) return known;
  throw std::invalid_argument("--normalised has \"" + std::string(name.substr(0, 40)) +
                              "\"; expected vocabulary or allowed");
}

GenerateWork read_generate_work(const std::filesystem::path& model, const std::filesystem::path& data,
                                std::size_t history_items) {
  return {model.filename().string(), kernels::read_decoder(model),
          read_accuracy_data(model, data, history_items)};
}

GenerateWork random_generate_work(const RandomWork& asked) {
  kernels::DecoderConfig config = shape_config(find_shape(asked.shape), kernels::Family::qwen2);
  if (asked.vocabulary > 0) config.vocabulary = asked.vocabulary;
  reject_if_unfit(asked, config);
  std::mt19937_64 random(asked.seed);
  const auto third = static_cast<Token>(config.vocabulary / levels);
  std::set<Path> paths;
  while (paths.size() < random_items) {
    Path path;
    for (std::size_t level = 0; level < levels; ++level)
      path.push_back(static_cast<Token>(level) * third + static_cast<Token>(random() % asked.codes));
    paths.insert(std::move(path));
  }
  const std::vector<std::span<const Token>> views(paths.begin(), paths.end());
  GenerateWork work{asked.shape,
                    kernels::random_decoder(config, asked.seed),
                    {std::make_shared<const kernels::PathIndex>(views), {}}};
  for (std::size_t r = 0; r < asked.requests; ++r) {
    AccuracyEvent& event = work.data.events.emplace_back();
    for (std::size_t t = 0; t < asked.prompt; ++t)
      event.prompt.push_back(static_cast<Token>(random() % config.vocabulary));
  }
  return work;
}

std::vector<GenerateRun> run_generate(const GenerateWork& work, const GenerateSetup& setup) {
  std::vector<Runner> runners;
  for (const BeamEngine& engine : setup.engines) {
    for (const Search::Normalisation normalised : setup.normalised) {
      if (!engine.constrained && normalised != setup.normalised.front()) continue;
      runners.emplace_back(work, setup, engine,
                           engine.constrained ? normalised : Search::Normalisation::vocabulary);
      runners.back().take(work.data.events.front(), false);
    }
  }
  Progress progress(work.name, work.data.events.size());
  for (std::size_t i = 0; i < work.data.events.size(); ++i) {
    for (Runner& runner : runners) runner.take(work.data.events[i], true);
    progress.at(i + 1);
  }
  std::vector<GenerateRun> runs;
  for (Runner& runner : runners) runs.push_back(runner.finish());
  return runs;
}

}  // namespace troupe::deploy
