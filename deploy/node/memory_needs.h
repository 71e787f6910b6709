#pragma once
// Compares the memory that a node may come to need with the limit of its cgroup. A worker's pool is mapped
// at once and filled later, and a router's caches fill with its users: without this check, a node that does
// not fit is ready, and is killed hours after the start.
#include <cstdint>
#include <string>
#include <vector>

#include "deploy/node/node_cores.h"
#include "deploy/node/node_roles.h"
#include "deploy/node/served_model.h"
#include "runtime/config/config.h"
#include "runtime/profiling/process_limits.h"

namespace troupe::deploy {

// Bytes that may still be used after the weights have been read; these count as used already.
struct MemoryNeeds {
  std::uint64_t pool = 0;                        // pool.memory; 0 = no worker
  std::uint64_t passes = 0;                      // inference.memory_max of all models
  std::uint64_t caches = 0;                      // features.cache_memory and, if used, features.item_memory
  std::uint64_t requests = 0;                    // http.memory_max
  std::uint64_t rest = std::uint64_t{64} << 20;  // stores, threads, and what the allocator keeps
  std::uint64_t beside_pool() const { return passes + caches + requests + rest; }
};

MemoryNeeds memory_needs(const Config& config, const ServedModels& models, const NodeRoles& roles);

// Throws ConfigError if the weights alone exceed what is free of the limit: all nodes read them into memory,
// each element as float32, except for an item embedding that model.tables leaves on disk. Called before they
// are read.
void reject_if_weights_too_large(const std::vector<NamedModel>& models, const MemoryLimit& limit);

// Throws ConfigError if the needs exceed what is free of the limit.
void reject_if_too_large(const MemoryNeeds& needs, const MemoryLimit& limit);

std::string mebibytes(std::uint64_t bytes);  // "153 MiB", rounded down

}  // namespace troupe::deploy
