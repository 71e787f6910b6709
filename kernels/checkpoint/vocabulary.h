#pragma once
// The token names of a model directory (vocab.json: {"<bos>": 1, …}), by name and by id. Importers
// use it to turn catalogs and histories, which are written in names, into tokens. The file is
// checked as strictly as the weights.
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/base/errors.h"
#include "kernels/base/plan.h"

namespace troupe::kernels {

class Vocabulary {
 public:
  std::optional<Token> find(std::string_view name) const;
  // Returns the name of a token of the model; empty if the file gives it none.
  const std::string& name(Token token) const { return names_.at(static_cast<std::size_t>(token)); }
  // Counts the names in the file; at most the vocabulary's size.
  std::size_t named() const { return tokens_.size(); }

 private:
  friend Vocabulary vocabulary_of(const std::filesystem::path& file, const nlohmann::json& document,
                                  std::uint32_t vocabulary);
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  std::unordered_map<std::string, Token, Hash, std::equal_to<>> tokens_;
  std::vector<std::string> names_;  // [vocabulary]
};

// Reads vocab.json; every id must be below `vocabulary` and have one name. Throws LoadError.
Vocabulary read_vocabulary(const std::filesystem::path& directory, std::uint32_t vocabulary);
// Reads the vocabulary from a parsed file. Throws LoadError.
Vocabulary vocabulary_of(const std::filesystem::path& file, const nlohmann::json& document,
                         std::uint32_t vocabulary);

}  // namespace troupe::kernels
