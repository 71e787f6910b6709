// Reads numbers from a JSON request for `troupe logits`. Errors name the field, the value found and
// the value expected.
#include "deploy/models/request_numbers.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "kernels/checkpoint/json_file.h"

namespace troupe::deploy {
namespace {

[[noreturn]] void fault(const std::string& where, const std::string& found, const std::string& expected) {
  throw std::invalid_argument(where + " is " + found + "; expected " + expected);
}

const nlohmann::json& member(const nlohmann::json& request, const std::string& key,
                             const std::string& expected) {
  if (!request.is_object()) fault("the request", kernels::describe(request), "an object");
  const auto found = request.find(key);
  if (found == request.end()) fault(key, "missing", expected);
  return *found;
}

std::string text_of(NumberRange range) {
  return "an integer from " + std::to_string(range.least) + " to " + std::to_string(range.most);
}

std::int64_t integer_of(const nlohmann::json& value, const std::string& where, NumberRange range) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{INT64_MAX});
  if (!fits || value.get<std::int64_t>() < range.least || value.get<std::int64_t>() > range.most)
    fault(where, value.is_number() ? value.dump() : kernels::describe(value), text_of(range));
  return value.get<std::int64_t>();
}

}  // namespace

std::int64_t request_integer(const nlohmann::json& request, const std::string& key, NumberRange range) {
  return integer_of(member(request, key, text_of(range)), key, range);
}

std::vector<std::int64_t> request_integers(const nlohmann::json& request, const std::string& key,
                                           NumberRange range, bool may_be_empty) {
  const std::string expected =
      "a list of integers from " + std::to_string(range.least) + " to " + std::to_string(range.most);
  const nlohmann::json& list = member(request, key, expected);
  if (!list.is_array()) fault(key, kernels::describe(list), expected);
  if (list.empty() && !may_be_empty) fault(key, "empty", expected);
  std::vector<std::int64_t> numbers;
  for (const nlohmann::json& value : list)
    numbers.push_back(integer_of(value, key + "[" + std::to_string(numbers.size()) + "]", range));
  return numbers;
}

}  // namespace troupe::deploy
