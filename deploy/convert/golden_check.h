#pragma once
// Compares a converted model with outputs that its own program computed: similarities of items, the best
// items of the whole catalog, or logits of tasks (docs/guides/convert.md describes the file).
#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "deploy/models/model_families.h"

namespace troupe::deploy {

struct GoldenReport {
  static constexpr double bound = 1e-5;  // of a similarity; of a logit, times the largest expected one
  std::size_t cases = 0, agreeing = 0;
  std::size_t numbers = 0, lists = 0;  // compared
  std::size_t swapped = 0;             // lists whose order differs only among equal similarities
  double largest = 0;                  // difference of a similarity or logit
  std::vector<std::string> faults;     // "case 3 (user 670): …", the first of each case

  bool is_well() const { return cases > 0 && agreeing == cases; }
};

// Reads a golden file, with at least one case. Throws kernels::LoadError.
nlohmann::json read_golden(const std::filesystem::path& golden);

// Computes every case of the file by the family's `logits`. Throws kernels::LoadError if the file or the
// model cannot be read, and std::invalid_argument if the model refuses a case.
GoldenReport check_golden(const ModelFamily& family, const std::filesystem::path& model,
                          const std::filesystem::path& golden);
// The same with a file that was read before. `golden` is for errors.
GoldenReport check_golden(const ModelFamily& family, const std::filesystem::path& model,
                          const std::filesystem::path& golden, const nlohmann::json& document);

}  // namespace troupe::deploy
