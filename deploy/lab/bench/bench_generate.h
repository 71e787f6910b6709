#pragma once
// `troupe-lab bench generate`: compares the engine's beam search with its alternatives (xGR §9). All run on
// the same kernels in one process, in turn for each request:
// - troupe: computes a search's paths together, allows only catalog items, and sorts only candidates.
// - independent: each path attends to the prompt by itself; its pages are copied when paths part.
// - tree: all tokens of all paths are one sequence behind the prompt, under a mask; ended paths stay in it.
// - full sort: like troupe, but sorts all continuations of a level.
// - unconstrained: like troupe, but over all tokens, so that a result need not be an item.
// Each constrained engine runs once for each normalisation of probabilities (kernels::Search::Normalisation):
// over the tokens that may follow, as in the paper (§6.1: mask, then softmax), or over the whole vocabulary.
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
std::string_view normalisation_name(kernels::Search::Normalisation normalised);
// Throws std::invalid_argument.
kernels::Search::Normalisation find_normalisation(std::string_view name);
const BeamEngine& find_beam_engine(std::string_view name);  // throws std::invalid_argument

struct GenerateWork {
  std::string name;
  kernels::DecoderModel model;
  AccuracyData data;  // `truth` is empty if the prompts are random
};
GenerateWork read_generate_work(const std::filesystem::path& model, const std::filesystem::path& data,
                                std::size_t history_items);
struct RandomWork {
  std::string shape;
  std::size_t prompt = 1024, requests = 1;  // tokens per prompt; prompts
  std::uint64_t seed = 7;
  std::uint32_t vocabulary = 0;  // tokens of the model; 0 = the shape's
  std::uint32_t codes = 256;     // tokens of each level of an identifier
};
// Makes a model of one of bench_engine.h's shapes, its prompts and a catalog. Throws std::invalid_argument.
GenerateWork random_generate_work(const RandomWork& work);

struct GenerateSetup {
  std::vector<BeamEngine> engines;
  std::uint32_t width = 128, threads = 1;
  kernels::WeightFormat weights = kernels::WeightFormat::f32;
  kernels::KvFormat kv = kernels::KvFormat::f32;
  std::vector<kernels::Search::Normalisation> normalised{kernels::Search::Normalisation::vocabulary};
  bool cached = true;  // true if the prompt's keys and values are cached, except its last token's
};

struct GenerateRun {
  BeamEngine engine;
  kernels::Search::Normalisation normalised = kernels::Search::Normalisation::vocabulary;
  std::uint64_t requests = 0, returned = 0, invalid = 0, duplicate = 0, hits_at_10 = 0, judged = 0;
  double probability = 0;               // of a request's items together, mean over the requests
  std::vector<double> wall_ms, cpu_ms;  // one per request
  double fma_rate = 0;                  // operations per second and thread, mean of the rounds' samples
  kernels::PassTimes times;             // of all requests
  // Operations of the attention of paths to the prompts, over all requests: 4 × heads × head_dim per pair
  // and layer.
  double attention_operations = 0;
  std::uint64_t kv_bytes_peak = 0;  // largest keys and values of one request: the prompt's and the paths'
  std::uint64_t mask_bytes = 0;     // mask of one request, in addition
};
// Runs the requests one after the other, and all engines in turn for each request. An unconstrained engine
// runs once: all tokens may follow, so both normalisations are the same.
std::vector<GenerateRun> run_generate(const GenerateWork& work, const GenerateSetup& setup);

}  // namespace troupe::deploy
