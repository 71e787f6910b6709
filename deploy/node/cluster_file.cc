// Derives what one node of a cluster needs from the cluster's file: its roles (router, worker,
// cache-meta), the other nodes, and its links to them.
#include "deploy/node/cluster_file.h"

#include <arpa/inet.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <set>

#include "deploy/node/features.h"
#include "runtime/network/links.h"

namespace troupe::deploy {
namespace {

bool has(const ClusterNode& node, NodeRole role) {
  return std::find(node.roles.begin(), node.roles.end(), role) != node.roles.end();
}

bool mixes_roles(const ClusterNode& node) {
  return has(node, NodeRole::router) && has(node, NodeRole::worker);
}

// Bounds the length, because each greeting contains this text.
std::string list_of(const std::vector<NamedModel>& models) {
  std::string names;
  for (const NamedModel& model : models) names += (names.empty() ? "" : ", ") + model.name;
  constexpr std::size_t listed_bytes = 160;
  if (names.size() <= listed_bytes) return names;
  const XXH128_hash_t hash = XXH3_128bits(names.data(), names.size());
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return names.substr(0, listed_bytes - 33) + " " + digits;
}

bool is_ip_address(const std::string& text) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, text.c_str(), bytes) == 1 || inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

TlsFiles tls_files(const std::filesystem::path& folder, const std::string& name) {
  return {folder / "ca.pem", folder / (name + ".pem"), folder / (name + ".key")};
}

}  // namespace

const ClusterNode& find_node(const std::vector<ClusterNode>& nodes, const std::string& name) {
  std::string names;
  for (const ClusterNode& node : nodes) {
    if (node.name == name) return node;
    names += (names.empty() ? "" : ", ") + node.name;
  }
  throw ConfigError("there is no node \"" + name + "\" in the cluster's file; expected one of " + names);
}

std::vector<ClusterNode> with_members(const std::vector<ClusterNode>& file, const ClusterMembers& members,
                                      const ClusterNode& like) {
  std::vector<ClusterNode> nodes;
  std::set<NodeId> of_file;  // a joined node does not replace these
  for (const ClusterNode& node : file) {
    const Member* const joined = members.find(node.node);
    if (members.left.contains(node.node) || (joined && joined->name == node.name)) continue;
    nodes.push_back(node);
    of_file.insert(node.node);
  }
  for (const Member& member : members.joined) {
    if (of_file.contains(member.node)) continue;
    ClusterNode joined = like;
    joined.node = member.node, joined.name = member.name, joined.host = member.host,
    joined.port = member.port;
    joined.roles = member.roles;
    nodes.push_back(std::move(joined));
  }
  return nodes;
}

// A single router in the file neither coordinates versions with others nor needs a shared feature
// store. A second router requires both.
void validate_join(const std::vector<ClusterNode>& file, const ClusterNode& own) {
  if (roles_of(file, file.front()).is_alone())
    throw ConfigError(
        "the cluster's file has one node with all roles; expected several nodes before others can join them");
  const bool chooses = own.config.transfer.transport == TransferSettings::PageTransport::auto_;
  if (chooses && own.config.cluster.certificates.empty() && mixes_roles(own) &&
      std::ranges::none_of(file, mixes_roles))
    throw ConfigError(
        "no node of the cluster's file is both router and worker, so pages travel over UCX, which may end a "
        "process; expected one of these roles, or transfer.transport: links on all nodes");
  if (!has(own, NodeRole::router)) return;
  if (std::ranges::count_if(file, [](const ClusterNode& node) { return has(node, NodeRole::router); }) < 2 &&
      own.config.model.versions.empty())
    throw ConfigError(
        "the cluster's file has one router, and model.versions is empty; expected two routers there, or "
        "model.versions, before another router joins");
  const auto keeps_features = [](const ClusterNode& node) {
    return has(node, NodeRole::router) && !features_in_redis(node.config.features);
  };
  if (keeps_features(own) || std::ranges::any_of(file, keeps_features))
    throw ConfigError("features.store is empty; expected a Redis on all routers, because a router joins");
}

void validate_certificates(const ClusterNode& own) {
  const std::string& folder = own.config.cluster.certificates;
  if (folder.empty()) return;
  try {
    check_tls_files(tls_files(folder, own.name));
  } catch (const std::runtime_error& error) {
    throw ConfigError(std::string(error.what()) + ". Where the authority's ca.key is, `troupe certs " +
                      folder + " --node " + own.name + "` makes " + own.name + ".pem and " + own.name +
                      ".key; the node needs them and ca.pem in " + folder);
  }
}

NodeRoles roles_of(const std::vector<ClusterNode>& nodes, const ClusterNode& own) {
  NodeRoles place{.node = own.node,
                  .router = has(own, NodeRole::router),
                  .cache_meta = has(own, NodeRole::cache_meta),
                  .worker = has(own, NodeRole::worker)};
  const std::string& listens = own.config.cluster.listen_address;
  place.host = listens.empty() || listens == "0.0.0.0" || listens == "::" ? own.host : listens;
  place.mixes_roles = std::ranges::any_of(nodes, mixes_roles);
  place.routers.clear(), place.cache_metas.clear(), place.workers.clear();
  for (const ClusterNode& node : nodes) {
    if (has(node, NodeRole::router)) place.routers.push_back(node.node);
    if (has(node, NodeRole::cache_meta)) place.cache_metas.push_back(node.node);
    if (has(node, NodeRole::worker)) place.workers.push_back(node.node);
  }
  return place;
}

ClusterOptions cluster_place_of(const std::vector<ClusterNode>& nodes, const ClusterNode& own) {
  const Config& config = own.config;
  ClusterOptions place;
  place.cluster = config.cluster.name;
  place.node = own.node;
  place.name = own.name;
  place.actor_ids.models = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(own.models.size()));
  // Actor ids depend on the positions in this list, so nodes with another list belong to another
  // cluster.
  if (!own.models.empty()) place.cluster += " of models " + list_of(own.models);
  place.port = own.port;
  place.address = config.cluster.listen_address;
  if (place.address.empty()) place.address = is_ip_address(own.host) ? own.host : "0.0.0.0";
  place.heartbeat = config.cluster.heartbeat;
  for (const ClusterNode& node : nodes)
    if (node.node != own.node) place.peers.push_back({node.node, node.name, node.host, node.port});
  if (const std::string& folder = config.cluster.certificates; !folder.empty())
    place.tls = tls_files(folder, own.name);
  return place;
}

}  // namespace troupe::deploy
