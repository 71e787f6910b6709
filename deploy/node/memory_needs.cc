// Sums up the settings that bound a worker's memory.
#include "deploy/node/memory_needs.h"

#include <filesystem>
#include <system_error>

#include "deploy/models/engine.h"

namespace troupe::deploy {
namespace {

// Bytes of the weights' files of a model directory; 0 if they cannot be looked up, which reading reports.
std::uint64_t weight_bytes(const std::filesystem::path& directory) {
  std::uint64_t bytes = 0;
  std::error_code error, unreadable;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error))
    if (at->path().extension() == ".safetensors" && at->is_regular_file(unreadable))
      if (const std::uintmax_t size = at->file_size(unreadable); !unreadable) bytes += size;
  return bytes;
}

std::string free_of(const MemoryLimit& limit) {
  return mebibytes(limit.free()) + " are free of the cgroup's memory limit of " + mebibytes(limit.bytes) +
         " (" + limit.file + ")";
}

}  // namespace

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

MemoryNeeds memory_needs(const Config& config, const ServedModels& models, const NodeRoles& roles) {
  MemoryNeeds needs{.pool = config.pool.memory, .requests = config.http.memory_max};
  for (const auto& model : models) {
    if (device_choice(model->config.model).on_cpu()) needs.passes += model->config.inference.memory_max;
    if (roles.router) needs.caches += model->config.features.cache_memory;
  }
  return needs;
}

void reject_if_weights_too_large(const std::vector<NamedModel>& models, const MemoryLimit& limit) {
  std::uint64_t bytes = 0;
  std::string directories;
  for (const NamedModel& model : models) {
    const ModelSettings& settings = model.config.model;
    if (settings.tables != ModelSettings::Tables::memory) continue;  // their largest tensor stays on disk
    bytes += weight_bytes(settings.directory);
    directories += (directories.empty() ? "" : ", ") + settings.directory;
  }
  if (bytes <= limit.free()) return;
  throw ConfigError(directories + ": the weights have " + mebibytes(bytes) + "; " + free_of(limit) +
                    "; expected a higher limit, or a smaller model");
}

void reject_if_too_large(const MemoryNeeds& needs, const MemoryLimit& limit) {
  if (needs.pool + needs.beside_pool() <= limit.free()) return;
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
