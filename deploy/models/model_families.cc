// Lists the model families (decoders, HSTU, Climber, SASRec) and finds the one to which a model directory
// belongs, by `model_type` in its config.json.
#include "deploy/models/model_families.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "deploy/models/climber_family.h"
#include "deploy/models/decoder_family.h"
#include "deploy/models/hstu_family.h"
#include "deploy/models/sasrec_family.h"
#include "kernels/checkpoint/file_kind.h"
#include "kernels/checkpoint/json_file.h"

namespace troupe::deploy {
namespace {

constexpr std::uint64_t config_bytes_max = 1 << 20;

// Returns the family with model.weights resolved before a model is described or opened.
ModelFamily with_resolved_weights(ModelFamily family) {
  const auto resolve = [](auto run) {
    return [run = std::move(run)](const std::filesystem::path& directory, const Config& config) {
      Config resolved = config;
      resolve_weights(resolved.model, directory);
      return run(directory, resolved);
    };
  };
  family.describe = resolve(std::move(family.describe));
  family.open = resolve(std::move(family.open));
  return family;
}

std::string all_types(const ModelFamilies& families) {
  std::string all;
  for (const ModelFamily& family : families)
    for (const std::string& type : family.model_types) all += (all.empty() ? "\"" : ", \"") + type + "\"";
  return all;
}

}  // namespace

const ModelFamilies& all_families() {
  static const ModelFamilies families{
      with_resolved_weights(decoder_family()), with_resolved_weights(climber_family()),
      with_resolved_weights(hstu_family()), with_resolved_weights(sasrec_family())};
  return families;
}

const ModelFamily& family_of(const ModelFamilies& families, const std::filesystem::path& directory) {
  std::error_code unreadable;
  if (std::filesystem::is_regular_file(directory, unreadable)) {
    const std::string_view kind = kernels::kind_of_file(directory);
    kernels::throw_load_error(directory, "a file" + (kind.empty() ? "" : ", " + std::string(kind)),
                              "a model directory, with config.json and *.safetensors");
  }
  if (!std::filesystem::is_directory(directory, unreadable))
    kernels::throw_load_error(
        directory,
        unreadable && unreadable != std::errc::no_such_file_or_directory
            ? "cannot be looked up: " + unreadable.message()
            : "no such folder",
        "a model directory on this machine, with config.json and *.safetensors; models of a "
        "hub are not downloaded");
  const std::filesystem::path file = directory / "config.json";
  const nlohmann::json document = kernels::read_json_file(file, config_bytes_max);
  const kernels::JsonFields fields(file, document);
  const std::string type = fields.maybe_text("model_type").value_or("");
  for (const ModelFamily& family : families)
    if (std::ranges::find(family.model_types, type) != family.model_types.end()) return family;
  fields.fault("model_type", "one of " + all_types(families));
}

kernels::Vocabulary names_of_items(const ModelFacts& facts) {
  nlohmann::json names = nlohmann::json::object();
  for (std::int32_t item = 1; item < facts.limits.vocabulary; ++item)
    names["<item_" + std::to_string(item) + ">"] = static_cast<std::uint64_t>(item);
  return kernels::vocabulary_of("names of items", names, static_cast<std::uint32_t>(facts.limits.vocabulary));
}

}  // namespace troupe::deploy
