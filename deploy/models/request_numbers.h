#pragma once
// Reads numbers, field by field, from a JSON request for a family's `logits`. Errors are
// std::invalid_argument with the field, the value found and the value expected.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace troupe::deploy {

struct NumberRange {
  std::int64_t least = 0, most = 0;
};

std::int64_t request_integer(const nlohmann::json& request, const std::string& key, NumberRange range);
// Reads a list with at least one number, unless `may_be_empty`.
std::vector<std::int64_t> request_integers(const nlohmann::json& request, const std::string& key,
                                           NumberRange range, bool may_be_empty = false);

}  // namespace troupe::deploy
