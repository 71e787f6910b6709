#pragma once
// Makes prototypes of a model's histories from a data folder (`troupe prototypes`). Tokens of natural
// language have prototypes. Tokens that name one thing or separate things are always computed (RcLLM
// §III-C3): the tokens of the prompt's form, the identifiers of the catalog's items, and the tokens of
// `PrototypeRun::never`.
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/decoder/prototypes.h"

namespace troupe::deploy {

struct PrototypeRun {
  std::filesystem::path model, data, out;
  std::filesystem::path prompt = {};  // prompt form; empty = prompt.json of the model directory
  kernels::PrototypeOptions options;
  std::vector<std::string> never;  // words of the vocabulary, or token numbers
  std::size_t histories_max = 0;   // histories whose keys and values are computed; 0 = all
};
struct PrototypeReport {
  kernels::PrototypeMaker::Report made;
  std::size_t histories = 0, computed = 0;
  std::size_t runs = 0;  // of the file's look-up table
};
// Throws ImportError, LoadError, std::invalid_argument.
PrototypeReport make_prototypes(const PrototypeRun& run);

}  // namespace troupe::deploy
