#pragma once
// Prototypes of a model's histories, made from a data folder (`troupe prototypes`), and what they stand for
// in the requests of `troupe bench plans`. Natural language has prototypes; what names one thing, or
// separates, is always computed (RcLLM §III-C3): the tokens of the prompt's form, the identifiers of the
// catalog's items, and those that are named.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "deploy/lab/bench/bench_plans.h"
#include "kernels/decoder/prototypes.h"

namespace troupe::deploy {

struct PrototypeRun {
  std::filesystem::path model, data, out;
  kernels::PrototypeOptions options;
  std::vector<std::string> never;  // words of the vocabulary, or numbers of tokens
  std::size_t histories_max = 0;   // that keys and values are taken of; 0: all
};
struct PrototypeReport {
  kernels::PrototypeMaker::Report made;
  std::size_t histories = 0, computed = 0;
};
// Throws ImportError, LoadError, std::invalid_argument.
PrototypeReport make_prototypes(const PrototypeRun& run);

// What prototypes stand for, of requests' histories.
struct Coverage {
  std::uint64_t tokens = 0, covered = 0;
  double cosine = 0;  // of the covered ones, in the mean
};
Coverage coverage_of(const kernels::Prototypes& prototypes, const RankEvents& events);

}  // namespace troupe::deploy
