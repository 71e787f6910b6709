#pragma once
// Makes prototypes of a model's histories from a data folder (`troupe prototypes`), and measures how much of
// the requests of `troupe bench plans` they cover. Tokens of natural language have prototypes. Tokens that
// name one thing or separate things are always computed (RcLLM §III-C3): the tokens of the prompt's form,
// the identifiers of the catalog's items, and the tokens of `PrototypeRun::never`.
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
  std::vector<std::string> never;  // words of the vocabulary, or token numbers
  std::size_t histories_max = 0;   // histories whose keys and values are computed; 0 = all
};
struct PrototypeReport {
  kernels::PrototypeMaker::Report made;
  std::size_t histories = 0, computed = 0;
};
// Throws ImportError, LoadError, std::invalid_argument.
PrototypeReport make_prototypes(const PrototypeRun& run);

// Number of tokens of the requests' histories, and of those that a prototype can replace.
struct Coverage {
  std::uint64_t tokens = 0, covered = 0;
  double cosine = 0;  // mean over the covered tokens
};
Coverage coverage_of(const kernels::Prototypes& prototypes, const RankEvents& events);

}  // namespace troupe::deploy
