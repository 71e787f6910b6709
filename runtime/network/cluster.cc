#include "runtime/network/cluster.h"

#include <set>

namespace troupe {
namespace {

std::string too_high(NodeId node) {
  return "node " + std::to_string(node) +
         " is in a cluster with several models; expected a number of at most " +
         std::to_string(Seats::nodes_max);
}

}  // namespace

std::string find_fault(const ClusterPlace& place, const PeerAddress& peer) {
  const std::string who = "node " + std::to_string(peer.node);
  if (peer.node == 0) return "a peer is node 0; expected a number from 1";
  if (place.seats.models > 1 && peer.node > Seats::nodes_max) return too_high(peer.node);
  // only peers with lower numbers are called
  if (peer.node < place.node && (peer.host.empty() || peer.port == 0))
    return who + " has no address; expected host and port";
  if (place.tls && peer.name.empty()) return who + " has no name for its certificate";
  return "";
}

std::string find_fault(const ClusterPlace& place) {
  if (place.node == 0) return "the node is 0; expected a number from 1";
  if (place.seats.models > 1 && place.node > Seats::nodes_max) return too_high(place.node);
  if (place.incarnation == 0) return "the incarnation is 0; expected that of this process";
  if (place.cluster.empty() || place.cluster.size() > 255) return "the cluster needs a name of 1..255 bytes";
  if (place.heartbeat.us < 1'000) return "the heartbeat is shorter than 1 ms";
  if (place.waiting_bytes_max < message_bytes_max)
    return "waiting_bytes_max is smaller than one message of the maximum size";
  if (place.greeting.size() > greeting_bytes_max)
    return "the greeting has " + std::to_string(place.greeting.size()) + " bytes; expected at most " +
           std::to_string(greeting_bytes_max);
  std::set<NodeId> nodes{place.node};
  for (const PeerAddress& peer : place.peers) {
    if (!nodes.insert(peer.node).second) return "node " + std::to_string(peer.node) + " is listed twice";
    if (std::string fault = find_fault(place, peer); !fault.empty()) return fault;
  }
  if (!place.tls) return "";
  const TlsFiles& tls = *place.tls;
  if (tls.authority.empty() || tls.certificate.empty() || tls.key.empty())
    return "TLS is only partly configured; expected authority, certificate and key, or none of them";
  return "";
}

}  // namespace troupe
