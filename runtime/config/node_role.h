#pragma once
// Roles of a node of a cluster.
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe {

// A worker has an inference worker, a KV-cache worker and an allocator agent.
enum class NodeRole : std::uint8_t { router, cache_meta, worker };
inline constexpr NodeRole all_node_roles[] = {NodeRole::router, NodeRole::cache_meta, NodeRole::worker};

constexpr std::string_view name_of(NodeRole role) {
  return role == NodeRole::router ? "router" : role == NodeRole::cache_meta ? "cache_meta" : "worker";
}
constexpr std::optional<NodeRole> find_node_role(std::string_view name) {
  for (const NodeRole role : all_node_roles)
    if (name_of(role) == name) return role;
  return std::nullopt;
}

}  // namespace troupe
