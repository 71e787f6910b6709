// Checks the options with which a process joins a cluster, before it listens or connects. Each
// error text says which value is wrong and what is expected.
#include "runtime/network/cluster.h"

#include <set>

namespace troupe {
namespace {

std::string too_high(NodeId node) {
  return "node " + std::to_string(node) +
         " is in a cluster with several models; expected a number of at most " +
         std::to_string(ModelActorIds::nodes_max);
}

}  // namespace

std::string validate(const ClusterOptions& options, const PeerAddress& peer) {
  const std::string who = "node " + std::to_string(peer.node);
  if (peer.node == 0) return "a peer is node 0; expected a number from 1";
  if (options.actor_ids.models > 1 && peer.node > ModelActorIds::nodes_max) return too_high(peer.node);
  // only peers with lower numbers are called
  if (peer.node < options.node && (peer.host.empty() || peer.port == 0))
    return who + " has no address; expected host and port";
  if (options.tls && peer.name.empty()) return who + " has no name for its certificate";
  return "";
}

std::string validate(const ClusterOptions& options) {
  if (options.node == 0) return "the node is 0; expected a number from 1";
  if (options.actor_ids.models > 1 && options.node > ModelActorIds::nodes_max) return too_high(options.node);
  if (options.incarnation == 0) return "the incarnation is 0; expected that of this process";
  if (options.cluster.empty() || options.cluster.size() > 255)
    return "the cluster needs a name of 1..255 bytes";
  if (options.heartbeat.us < 1'000) return "the heartbeat is shorter than 1 ms";
  if (options.waiting_bytes_max < message_bytes_max)
    return "waiting_bytes_max is smaller than one message of the maximum size";
  if (options.greeting.size() > greeting_bytes_max)
    return "the greeting has " + std::to_string(options.greeting.size()) + " bytes; expected at most " +
           std::to_string(greeting_bytes_max);
  std::set<NodeId> nodes{options.node};
  for (const PeerAddress& peer : options.peers) {
    if (!nodes.insert(peer.node).second) return "node " + std::to_string(peer.node) + " is listed twice";
    if (std::string fault = validate(options, peer); !fault.empty()) return fault;
  }
  if (!options.tls) return "";
  const TlsFiles& tls = *options.tls;
  if (tls.authority.empty() || tls.certificate.empty() || tls.key.empty())
    return "TLS is only partly configured; expected authority, certificate and key, or none of them";
  return "";
}

}  // namespace troupe
