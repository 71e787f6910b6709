#pragma once
// Golden scores of a user's own program, such as the one that trained the model. One JSON object a line
// (docs/reference/golden-form.md):
//   {"user": "ana", "candidates": ["a", "b"], "scores": [1.5, -0.2]}
//   {"history": ["c", "d"], "candidates": ["a", "b"], "scores": [1.5, -0.2], "arrangement": "causal"}
//   {"tokens": [1, 10, 11], "read_at": 2, "rows": [7, 8], "logits": [0.3, -1.0]}
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe::deploy {

struct GoldenLine {
  std::string where;                               // "golden.jsonl:3"
  Arrangement arrangement = Arrangement::unnamed;  // unnamed = as the form says
  // A request: a user of the data folder, or a history with the features of its events.
  std::optional<std::string> user;
  std::vector<std::string> history;
  std::vector<Feature> features;
  std::vector<std::string> candidates;
  std::int64_t request_timestamp = 0;
  std::int64_t scenario = 0;
  // A plain causal prompt instead: logits of `rows` (empty = all) behind tokens[read_at].
  std::vector<Token> tokens, rows;
  std::size_t read_at = 0;
  // Expected scores, candidate by candidate and task by task, or logits, row by row.
  std::vector<double> scores;

  bool is_tokens() const { return !tokens.empty(); }
  // Returns the name of a score in error texts: "candidate 648", "row 7".
  std::string name_of(std::size_t score) const;
};

// `features` names the values that the model reads of each event. Throws ImportError with file and line.
std::vector<GoldenLine> read_golden(const std::filesystem::path& file, std::span<const std::string> features,
                                    std::size_t tasks);

// Comparison of a line's scores with computed ones.
struct GoldenDifference {
  double largest = 0;                 // infinite if a computed score is not finite
  double bound = 0;                   // differences up to it are rounding
  std::optional<std::size_t> beyond;  // first score whose difference is larger than the bound
};
// The bound is `relative` of the largest expected score, or of 1 if all are smaller. Requires as many
// computed scores as expected ones.
GoldenDifference compare(std::span<const double> expected, std::span<const float> computed, double relative);

}  // namespace troupe::deploy
