#pragma once
// A process's membership in a cluster: its identity, where it listens, and its peers. Every two
// processes are joined by one connection (links.h). The one with the higher node number opens it
// and retries until it stands. Nodes do not forward messages for others.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/actor/core.h"
#include "runtime/actor/model_actor_ids.h"
#include "runtime/transfer/page_socket.h"

namespace troupe {

struct PeerAddress {
  NodeId node = 0;
  std::string name;  // with TLS: the name of its certificate
  std::string host;
  std::uint16_t port = 0;
};

// PEM files. Both sides show a certificate of the authority, which signs for this cluster only.
struct TlsFiles {
  std::string authority, certificate, key;
};

struct ClusterOptions {
  std::string cluster = "troupe";  // processes of another cluster are refused
  NodeId node = 0;
  std::string name;         // its name in the cluster; "" = unknown, peers cannot compare it
  ModelActorIds actor_ids;  // ids of the actors of several models
  Incarnation incarnation = 0;
  std::string address = "127.0.0.1";  // address to listen on
  std::uint16_t port = 0;             // 0 = any free port
  std::vector<PeerAddress> peers;     // all others at start; Links::follow changes them
  std::optional<TlsFiles> tls;        // none = no encryption
  // for the peers: data that they need beside messages, such as the address for pulling pages
  Bytes greeting;
  Duration heartbeat{200'000};                  // a connection that is silent for five heartbeats is dead
  std::size_t waiting_bytes_max = 64ull << 20;  // bytes waiting for one slow peer; more are dropped

  // Called when a process joins and when it is lost. On the links' thread; must not block.
  std::function<void(NodeId, Incarnation, const Bytes& greeting)> on_met;
  std::function<void(NodeId, Incarnation)> on_lost;
  // Called after each attempt to connect that failed, on the same thread.
  std::function<void(NodeId)> on_away;
  // Called when a joined process has opened a connection for pages; none: it is refused.
  std::function<void(NodeId, Incarnation, PageSocket)> on_pages;
};

inline constexpr std::size_t message_bytes_max = 64ull << 20, greeting_bytes_max = 64ull << 10;

inline constexpr std::size_t peers_max = 4'096;

// Returns what is wrong with it, or "".
std::string validate(const ClusterOptions& options);
// Returns what is wrong with one of its peers, regardless of the other peers.
std::string validate(const ClusterOptions& options, const PeerAddress& peer);

}  // namespace troupe
