#pragma once
// Reads the golden files beside the trained models: plans, and the logits that independent programs
// (PyTorch, numpy in float64) computed for them.
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/base/plan.h"

namespace troupe::reference {

struct GoldenCase {
  std::string name;
  kernels::Plan plan;          // one readout
  std::vector<double> logits;  // logits of the readout's first rows
  double log_sum = 0;          // log of the sum of exp over all rows; 0 = not in the file
};

// Returns a model and its golden file; empty paths if the data is not beside the checkout. "demo" is the
// project's own.
struct GoldenModel {
  std::filesystem::path folder, golden;
};
GoldenModel golden_model(const std::string& name);

// Returns a generator's prompts: plain causal, with all rows of the vocabulary read at the last token.
// The file has the logits of rows 4 to 19, so the readout's rows begin with these.
std::vector<GoldenCase> generator_cases(const std::filesystem::path& golden, std::uint32_t vocabulary);

// Returns a ranker's requests × segment tables (up, ip, causal, blocks), with the candidates' identifier
// rows read at the last token.
std::vector<GoldenCase> ranker_cases(const std::filesystem::path& golden);

// Requests of a ranker whose items are titles, under full, reuse_candidates, reuse_all and
// reuse_all_repair_30. A candidate's score is the first row less the second at its own token; `chosen`
// uses the plan's own numbers.
struct GoldenTitles {
  std::string name;
  kernels::Plan plan;
  std::vector<double> scores;
  std::vector<std::uint32_t> chosen;
};
std::vector<GoldenTitles> title_cases(const std::filesystem::path& golden);

}  // namespace troupe::reference
