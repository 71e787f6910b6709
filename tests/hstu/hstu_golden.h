#pragma once
// Reads the golden files beside the HSTU models: requests, and what an independent program computed for
// them in float64.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/hstu/hstu_reference.h"

namespace troupe::hstu {

struct GoldenCase {
  HstuRequest request;
  std::vector<double> next_items;    // scores of the candidates; none in the production layer
  std::vector<double> tasks;         // logits of the candidates
  std::vector<double> state_first8;  // first 8 numbers of the last event's state
  std::uint32_t context_tokens = 0, window = 0;
};

// Returns nothing if the data is not beside the checkout.
std::optional<std::filesystem::path> shared_model(const std::string& name);
std::vector<GoldenCase> golden_cases(const std::filesystem::path& file);
// Returns the cases of the production layer; their inputs are those of golden.json.
std::vector<GoldenCase> golden_stu_cases(const std::filesystem::path& folder);

}  // namespace troupe::hstu
