#pragma once
// Maps names to small numbers, in the order in which they were first seen. This keeps millions of histories
// small.
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace troupe::deploy {

class NumberedNames {
 public:
  std::uint32_t number_of(std::string_view name) {
    const auto at = numbers_.find(name);
    if (at != numbers_.end()) return at->second;
    const auto number = static_cast<std::uint32_t>(names_.size());
    numbers_.emplace(names_.emplace_back(name), number);
    return number;
  }
  const std::string& name(std::uint32_t number) const { return names_[number]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(names_.size()); }

 private:
  std::deque<std::string> names_;                                // a deque, so that views stay valid
  std::unordered_map<std::string_view, std::uint32_t> numbers_;  // never iterated
};

}  // namespace troupe::deploy
