#pragma once
// Test helper: writes down what each field of a document accepts. One text, which a test compares
// whole, has every limit, every optional field and every "expected" of an error.
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace troupe::kernels {

// Returns a line for each field of `document`: which of a few values it accepts, and of the values
// at and beyond each limit that its error names; then "nothing" if it may be absent; then what is
// expected. `read` returns the error of reading a document, or "" if it is accepted.
inline std::string takes(const nlohmann::json& document,
                         const std::function<std::string(const nlohmann::json&)>& read) {
  const auto fault_of = [&](const nlohmann::json& changed) {
    return read(nlohmann::json::parse(changed.dump()));
  };  // as read from a file
  std::string text = fault_of(document);
  const nlohmann::json fields = document.flatten();
  for (const auto& [place, value] : fields.items()) {
    const nlohmann::json::json_pointer pointer(place);
    std::string line = place + " takes";
    std::set<std::string> expected;
    const auto attempt = [&](const nlohmann::json& tried) {
      nlohmann::json changed = document;
      changed[pointer] = tried;
      const std::string fault = fault_of(changed);
      if (fault.empty()) line += " " + tried.dump();
      const std::size_t at = fault.find("expected ");
      if (!fault.empty()) expected.insert(at == fault.npos ? fault : fault.substr(at + 9));
    };
    for (const nlohmann::json& tried :
         {nlohmann::json(nullptr), nlohmann::json(-1), nlohmann::json(0), nlohmann::json(1),
          nlohmann::json(2), nlohmann::json(5), nlohmann::json(0.5), nlohmann::json("x"),
          nlohmann::json(true), nlohmann::json(false)})
      attempt(tried);
    const std::set<std::string> named = expected;
    for (const std::string& words : named)
      if (const std::size_t to = words.find(" to ");
          words.starts_with("an integer from ") && to != words.npos) {
        const std::uint64_t least = std::stoull(words.substr(16)), most = std::stoull(words.substr(to + 4));
        for (const std::uint64_t bound : {least > 0 ? least - 1 : least, least, most, most + 1})
          attempt(bound);
      }
    nlohmann::json changed = document;
    auto& parent = changed[pointer.parent_pointer()];
    if (parent.is_object()) {
      parent.erase(pointer.back());
      if (fault_of(changed).empty()) line += " nothing";
    }
    for (const std::string& words : expected) line += "; " + words;
    text += line + "\n";
  }
  return text;
}

}  // namespace troupe::kernels
