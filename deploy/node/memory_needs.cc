// Sums up the settings that bound a worker's memory.
#include "deploy/node/memory_needs.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "deploy/models/engine.h"
#include "kernels/checkpoint/safetensors.h"

namespace troupe::deploy {
namespace {

// The item embedding of HSTU and Climber models, which model.tables may leave on disk. Decoders have no
// tensor of this name.
constexpr std::string_view item_table = "item_embedding.weight";

std::uint64_t elements_of(const kernels::StoredTensor& tensor) {
  std::uint64_t elements = 1;
  for (const std::uint64_t extent : tensor.shape) elements *= extent;
  return elements;
}

// Bytes of a file's tensors in memory: every family reads them as float32, also those that are stored or
// computed with in a narrower format. 0 if the file is damaged, which reading reports.
std::uint64_t bytes_in_memory(const std::filesystem::path& file, bool with_table) {
  std::uint64_t bytes = 0;
  try {
    const kernels::SafetensorsFile opened(file);
    for (const auto& [name, tensor] : opened.tensors())
      if (with_table || name != item_table) bytes += sizeof(float) * elements_of(tensor);
  } catch (const kernels::LoadError&) {
    return 0;
  }
  return bytes;
}

// Bytes that the weights of a model directory take in memory; 0 if they cannot be looked up, which reading
// reports.
std::uint64_t weight_bytes(const ModelSettings& settings) {
  const std::filesystem::path directory = settings.directory;
  const bool with_table = settings.tables == ModelSettings::Tables::memory;
  std::uint64_t bytes = 0;
  std::error_code error, unreadable;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error))
    if (at->path().extension() == ".safetensors" && at->is_regular_file(unreadable))
      bytes += bytes_in_memory(at->path(), with_table);
  return bytes;
}

std::string free_of(const MemoryLimit& limit) {
  return mebibytes(limit.free()) + " are free of the cgroup's memory limit of " + mebibytes(limit.bytes) +
         " (" + limit.file + ")";
}

}  // namespace

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

MemoryNeeds memory_needs(const Config& config, const ServedModels& models, const NodeRoles& roles) {
  MemoryNeeds needs{.pool = roles.worker ? config.pool.memory : 0, .requests = config.http.memory_max};
  for (const auto& model : models) {
    if (roles.worker && device_choice(model->config.model).on_cpu())
      needs.passes += model->config.inference.memory_max;
    const FeatureSettings& features = model->config.features;
    if (roles.router) needs.caches += features.cache_memory;
    if (roles.router && features.items == FeatureSettings::Items::cached)
      needs.caches += features.item_memory;
  }
  return needs;
}

void reject_if_weights_too_large(const std::vector<NamedModel>& models, const MemoryLimit& limit) {
  std::uint64_t bytes = 0;
  std::string directories;
  for (const NamedModel& model : models) {
    const ModelSettings& settings = model.config.model;
    bytes += weight_bytes(settings);
    directories += (directories.empty() ? "" : ", ") + settings.directory;
  }
  if (bytes <= limit.free()) return;
  throw ConfigError(directories + ": the weights take " + mebibytes(bytes) + " as float32; " +
                    free_of(limit) + "; expected a higher limit, or a smaller model");
}

void reject_if_too_large(const MemoryNeeds& needs, const MemoryLimit& limit) {
  if (needs.pool + needs.beside_pool() <= limit.free()) return;
  if (needs.pool == 0)
    throw ConfigError("this node needs " + mebibytes(needs.caches) + " of features.cache_memory, " +
                      mebibytes(needs.requests) + " of http.memory_max and " + mebibytes(needs.rest) +
                      " for everything else; " + free_of(limit) +
                      "; expected a higher limit, or less for the others");
  constexpr std::uint64_t pool_least = 1 << 20;
  const std::uint64_t left = limit.free() > needs.beside_pool() ? limit.free() - needs.beside_pool() : 0;
  throw ConfigError("pool.memory is " + mebibytes(needs.pool) + ", beside " + mebibytes(needs.passes) +
                    " of inference.memory_max, " + mebibytes(needs.caches) + " of features.cache_memory, " +
                    mebibytes(needs.requests) + " of http.memory_max and " + mebibytes(needs.rest) +
                    " for everything else; " + free_of(limit) + " once the weights are read; expected " +
                    (left >= pool_least
                         ? "pool.memory of at most " + std::to_string(left >> 20) + "MiB, or a higher limit"
                         : "a higher limit, or less for the others"));
}

}  // namespace troupe::deploy
