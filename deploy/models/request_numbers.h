#pragma once
// Numbers of a request that a person wrote as JSON, for a family's `logits`: taken out field by field. A
// fault is a std::invalid_argument that names the field, what was found and what was expected.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace troupe::deploy {

struct NumberRange {
  std::int64_t least = 0, most = 0;
};

std::int64_t request_integer(const nlohmann::json& request, const std::string& key, NumberRange range);
// A list, of at least one unless it may be empty.
std::vector<std::int64_t> request_integers(const nlohmann::json& request, const std::string& key,
                                           NumberRange range, bool may_be_empty = false);

}  // namespace troupe::deploy
