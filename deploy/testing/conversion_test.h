#pragma once
// Helpers of the tests that convert checkpoints: numbers that name their tensor, and checks of what a
// conversion gives and reports.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "deploy/convert/converted_model.h"

namespace troupe::deploy {

// Numbers that name their tensor and their index.
inline std::vector<float> counted(std::int64_t count, float first) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  return values;
}

inline const ConvertedTensor& tensor(const ConvertedModel& model, const std::string& name) {
  const auto found = std::ranges::find(model.tensors, name, &ConvertedTensor::name);
  REQUIRE_MESSAGE(found != model.tensors.end(), name);
  return *found;
}

// True if the text has the part; otherwise logs the text.
inline bool has(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != text.npos;
  if (!found) MESSAGE(text);
  return found;
}
inline bool says(const std::vector<std::string>& lines, const std::string& part) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(part) != line.npos; });
}

}  // namespace troupe::deploy
