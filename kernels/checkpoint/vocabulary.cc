// Reads a model's token names (vocab.json). Importers use them to turn catalogs and histories into
// tokens.
#include "kernels/checkpoint/vocabulary.h"

#include <algorithm>

#include "kernels/checkpoint/json_file.h"

namespace troupe::kernels {
namespace {

constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 30, kNameBytesMax = 256, kOtherBytesMax = 1 << 20;
constexpr std::size_t kOtherValuesMax = 100;

}  // namespace

std::optional<Token> Vocabulary::find(std::string_view name) const {
  const auto found = tokens_.find(name);
  return found == tokens_.end() ? std::nullopt : std::optional(found->second);
}

Vocabulary read_vocabulary(const std::filesystem::path& directory, std::uint32_t vocabulary) {
  const std::filesystem::path file = directory / "vocab.json";
  const std::uint64_t bytes_max = std::min(kBytesMax, kOtherBytesMax + kNameBytesMax * vocabulary);
  return vocabulary_of(file, read_json_file(file, bytes_max, 2 * std::size_t{vocabulary} + kOtherValuesMax),
                       vocabulary);
}

Vocabulary vocabulary_of(const std::filesystem::path& file, const nlohmann::json& document,
                         std::uint32_t vocabulary) {
  const JsonFields fields(file, document);
  Vocabulary result;
  result.names_.resize(vocabulary);
  for (const auto& [name, id] : document.items()) {
    if (name.empty()) throw_load_error(file, "an empty name", "names of at least one character");
    const bool inside = id.is_number_unsigned() && id.get<std::uint64_t>() < vocabulary;
    if (!inside)
      throw_load_error(file, in_quotes(name) + " is " + describe(id),
                       "an id below " + std::to_string(vocabulary));
    std::string& place = result.names_[id.get<std::size_t>()];
    if (!place.empty())
      throw_load_error(file, in_quotes(name) + " and " + in_quotes(place) + " both are " + describe(id),
                       "one name for each id");
    place = name;
    result.tokens_.emplace(name, static_cast<Token>(id.get<std::uint64_t>()));
  }
  return result;
}

}  // namespace troupe::kernels
