// Sums up the settings that bound a worker's memory.
#include "deploy/node/memory_needs.h"

#include "deploy/models/engine.h"

namespace troupe::deploy {

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

MemoryNeeds memory_needs(const Config& config, const ServedModels& models, const NodeRoles& roles) {
  MemoryNeeds needs{.pool = config.pool.memory, .requests = config.http.memory_max};
  for (const auto& model : models) {
    if (device_choice(model->config.model).on_cpu()) needs.passes += model->config.inference.memory_max;
    if (roles.router) needs.caches += model->config.features.cache_memory;
  }
  return needs;
}

void reject_if_too_large(const MemoryNeeds& needs, const MemoryLimit& limit) {
  if (needs.pool + needs.beside_pool() <= limit.free()) return;
  constexpr std::uint64_t pool_least = 1 << 20;
  const std::uint64_t left = limit.free() > needs.beside_pool() ? limit.free() - needs.beside_pool() : 0;
  throw ConfigError(
      "pool.memory is " + mebibytes(needs.pool) + ", beside " + mebibytes(needs.passes) +
      " of inference.memory_max, " + mebibytes(needs.caches) + " of features.cache_memory, " +
      mebibytes(needs.requests) + " of http.memory_max and " + mebibytes(needs.rest) +
      " for everything else; " + mebibytes(limit.free()) + " are free of the cgroup's memory limit of " +
      mebibytes(limit.bytes) + " (" + limit.file + ") once the weights are read; expected " +
      (left >= pool_least ? "pool.memory of at most " + std::to_string(left >> 20) + "MiB, or a higher limit"
                          : "a higher limit, or less for the others"));
}

}  // namespace troupe::deploy
