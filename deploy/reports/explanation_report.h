#pragma once
// Shows people how a ranking was computed: the reply of POST /v1/rank with `"explain": true`.
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <ostream>

namespace troupe::deploy {

struct ExplanationLayout {
  std::size_t columns = 120;  // of the output; texts of segments are shortened to fit
  bool every_token = false;   // a table of all tokens follows that of the segments
};

// Prints arrangement, plan and versions; a row for each segment of the prompt; where each score is read;
// and what was cut. `reply` has an explanation.
void print_explanation(const nlohmann::json& reply, const ExplanationLayout& layout, std::ostream& out);

}  // namespace troupe::deploy
