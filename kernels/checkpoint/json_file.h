#pragma once
// JSON from outside: read with a size limit, parsed with a depth limit and without duplicate keys,
// and taken apart field by field. Every error is a LoadError that names the file, the key, what was
// found and what was expected. No exception of the JSON library leaves this file.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "kernels/base/errors.h"

namespace troupe::kernels {

// Throws LoadError with the text "<file>: <what is wrong>; expected <what>".
[[noreturn]] void throw_load_error(const std::filesystem::path& file, const std::string& wrong,
                                   const std::string& expected);

// Returns text from a file in a form fit for a message: quoted, control characters masked, cut
// after 100 bytes.
std::string in_quotes(std::string_view text);

// Describes a JSON value in a few words, for a message.
std::string describe(const nlohmann::json& value);

// Maximum number of values and member names of a document: as a tree each takes some tens of bytes,
// however short its text.
inline constexpr std::size_t json_values_max = 100'000;

// Parses `text`, which is the content of `file` or a part of it.
nlohmann::json parse_json(const std::filesystem::path& file, std::string_view text,
                          std::size_t values_max = json_values_max);

// Reads and parses a whole file; larger files than `bytes_max` are refused before they are read.
nlohmann::json read_json_file(const std::filesystem::path& file, std::uint64_t bytes_max,
                              std::size_t values_max = json_values_max);

// The fields of one JSON object. An absent optional field and a null one both count as without a
// value. Holds references to the file name and the object, which must outlive it. Remembers which
// fields were read, so that the others can be refused.
class JsonFields {
 public:
  // `where` is the key of the object inside the file; empty for the file's top level.
  JsonFields(const std::filesystem::path& file, const nlohmann::json& object, std::string where = "");

  bool has(std::string_view key) const { return find(key) != nullptr; }
  const nlohmann::json* find(std::string_view key) const;  // nullptr if absent or null

  std::uint64_t integer(std::string_view key, std::uint64_t least, std::uint64_t most) const;
  std::optional<std::uint64_t> maybe_integer(std::string_view key, std::uint64_t least,
                                             std::uint64_t most) const;
  double number(std::string_view key, double least, double most) const;
  std::optional<double> maybe_number(std::string_view key, double least, double most) const;
  std::optional<bool> maybe_boolean(std::string_view key) const;
  std::optional<std::string> maybe_text(std::string_view key) const;

  // Throws LoadError for a field that has a value and was neither read nor is in `harmless`.
  void refuse_others(std::span<const std::string_view> harmless = {}) const;

  // Throws LoadError: the value of `key` is not the expected one.
  [[noreturn]] void fault(std::string_view key, const std::string& expected) const;

 private:
  std::string path_of(std::string_view key) const;

  const std::filesystem::path& file_;
  const nlohmann::json& object_;
  std::string where_;
  mutable std::set<std::string, std::less<>> read_;  // fields that find() was asked for
};

}  // namespace troupe::kernels
