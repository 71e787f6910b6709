#pragma once
// `troupe bench generate`: beam searches of the engine alone, and of what it is measured by (xGR §9, on the
// same kernels, in one run, request by request in turn):
//   troupe         paths of a search together, only catalog items, only what may be kept is sorted
//   independent    each path attends to the prompt by itself and has pages of its own, copied when paths part
//   tree           all tokens of all paths are one sequence behind the prompt, under a mask; what ended stays
//   in it full sort      as troupe, but all continuations of a level are sorted unconstrained  as troupe, but
//   over all tokens: what it returns need not be an item
// Prompts are the test events of a data set for a trained model, or random tokens for a model of a given
// shape; its catalog is then random paths of three tokens, one third of the vocabulary for each.
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
  AccuracyData data;  // `truth` is empty where prompts are random
};
GenerateWork read_generate_work(const std::filesystem::path& model, const std::filesystem::path& data,
                                std::size_t history_items);
// A model of the race's shapes (bench_engine.h) with `requests` prompts of `prompt` tokens; throws
// std::invalid_argument.
GenerateWork random_generate_work(std::string_view shape, std::size_t prompt, std::size_t requests,
                                  std::uint64_t seed);

struct GenerateSetup {
  std::vector<BeamEngine> engines;
  std::uint32_t width = 128, threads = 1;
  kernels::WeightFormat weights = kernels::WeightFormat::f32;
  kernels::KvFormat kv = kernels::KvFormat::f32;
  kernels::Search::Normalised normalised = kernels::Search::Normalised::vocabulary;
  bool cached = true;  // the prompt's keys and values, but for its last token's
};

struct GenerateRun {
  BeamEngine engine;
  std::uint64_t requests = 0, returned = 0, invalid = 0, duplicate = 0, hits_at_10 = 0, judged = 0;
  std::vector<double> wall_ms, cpu_ms;  // of each request
  double fma_rate = 0;                  // mean of samples beside them, per thread
  kernels::PassTimes times;             // of all requests
  double attention_operations = 0;  // of all requests: of paths with the prompts, 4 × heads × head_dim each
  std::uint64_t kv_bytes_peak = 0;  // of one request: its prompt's and its paths'
  std::uint64_t mask_bytes = 0;     // of one request, beside them
};
// One after the other, the engines in turn for each request.
std::vector<GenerateRun> run_generate(const GenerateWork& work, const GenerateSetup& setup);

}  // namespace troupe::deploy
