#pragma once
// `troupe-lab bench generate`: compares the engine's beam search with its alternatives (xGR §9). All run on
// the same kernels in one process, in turn for each request:
// - troupe: computes a search's paths together, allows only catalog items, and sorts only candidates.
// - independent: each path attends to the prompt by itself; its pages are copied when paths part.
// - tree: all tokens of all paths are one sequence behind the prompt, under a mask; ended paths stay in it.
// - full sort: like troupe, but sorts all continuations of a level.
// - unconstrained: like troupe, but over all tokens, so that a result need not be an item.
// The prompts of a trained model are the test events of a data set. For a model of a given shape, prompts
// are random tokens and the catalog is random paths of three tokens, each from its third of the vocabulary.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/lab/bench/bench_accuracy.h"
#include "kernels/decoder/decoder.h"

namespace troupe::deploy {

struct BeamEngine {
  std::string_view name;
  kernels::BeamPaths beams = kernels::BeamPaths::together;
  bool sort_all = false;
  bool constrained = true;
};
std::span<const BeamEngine> beam_engines();
const BeamEngine& find_beam_engine(std::string_view name);  // throws std::invalid_argument

struct GenerateWork {
  std::string name;
  kernels::DecoderModel model;
  AccuracyData data;  // `truth` is empty if the prompts are random
};
GenerateWork read_generate_work(const std::filesystem::path& model, const std::filesystem::path& data,
                                std::size_t history_items);
// Makes a model of one of bench_engine.h's shapes and `requests` prompts of `prompt` tokens. Throws
// std::invalid_argument.
GenerateWork random_generate_work(std::string_view shape, std::size_t prompt, std::size_t requests,
                                  std::uint64_t seed);

struct GenerateSetup {
  std::vector<BeamEngine> engines;
  std::uint32_t width = 128, threads = 1;
  kernels::WeightFormat weights = kernels::WeightFormat::f32;
  kernels::KvFormat kv = kernels::KvFormat::f32;
  kernels::Search::Normalisation normalised = kernels::Search::Normalisation::vocabulary;
  bool cached = true;  // true if the prompt's keys and values are cached, except its last token's
};

struct GenerateRun {
  BeamEngine engine;
  std::uint64_t requests = 0, returned = 0, invalid = 0, duplicate = 0, hits_at_10 = 0, judged = 0;
  std::vector<double> wall_ms, cpu_ms;  // one per request
  double fma_rate = 0;                  // operations per second and thread, mean of the rounds' samples
  kernels::PassTimes times;             // of all requests
  // Operations of the attention of paths to the prompts, over all requests: 4 × heads × head_dim per pair
  // and layer.
  double attention_operations = 0;
  std::uint64_t kv_bytes_peak = 0;  // largest keys and values of one request: the prompt's and the paths'
  std::uint64_t mask_bytes = 0;     // mask of one request, in addition
};
// Runs the requests one after the other, and all engines in turn for each request.
std::vector<GenerateRun> run_generate(const GenerateWork& work, const GenerateSetup& setup);

}  // namespace troupe::deploy
