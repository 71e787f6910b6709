// Finds and loads the versions of a model for a rollout: each has a folder named by its version,
// and a folder with another model is refused.
#include "deploy/node/model_versions.h"

#include <filesystem>
#include <utility>

#include "kernels/checkpoint/json_file.h"

namespace troupe::deploy {
namespace {

// The version comes from a request, so it must not contain a path.
bool is_plain_name(const std::string& version) {
  return !version.empty() && version != "." && version != ".." &&
         std::filesystem::path(version).filename() == version;
}

std::filesystem::path directory_of(const std::filesystem::path& folder, const std::string& version) {
  if (!is_plain_name(version))
    kernels::throw_load_error(folder, "there is no version " + kernels::in_quotes(version),
                              "the name of a folder in it");
  const std::filesystem::path directory = folder / version;
  if (!std::filesystem::is_directory(directory))
    kernels::throw_load_error(directory, "no such folder", "the model directory of that version");
  return directory;
}

}  // namespace

actors::ComputePort::Loader version_loader(const ModelFamilies& families, const Config& config,
                                           WrapVersion wrap) {
  const std::filesystem::path folder = config.model.versions;
  if (folder.empty()) return {};
  return [families, config, folder, wrap = std::move(wrap)](const std::string& version) {
    const std::filesystem::path directory = directory_of(folder, version);
    const OpenedModel model = family_of(families, directory).open(directory, config);
    if (model.version != version)
      kernels::throw_load_error(directory, "it holds model " + model.version,
                                "the model that the folder is named after");
    return actors::LoadedModel(model.engine(wrap(version)).executor, model.make_assets);
  };
}

}  // namespace troupe::deploy
