#pragma once
// A process's place in a cluster: who it is, where it listens, who the others are. Every two processes are
// joined by one connection (links.h), which the one with the higher node number opens, again and again until
// it stands; nothing is passed on for others.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/actor/core.h"
#include "runtime/actor/seat.h"

namespace troupe {

struct PeerAddress {
  NodeId node = 0;
  std::string name;  // with TLS: what its certificate must be for
  std::string host;
  std::uint16_t port = 0;
};

// PEM files. Both sides show a certificate of the authority, which makes them for this cluster only.
struct TlsFiles {
  std::string authority, certificate, key;
};

struct ClusterPlace {
  std::string cluster = "troupe";  // processes of another cluster are turned away
  NodeId node = 0;
  std::string name;  // what others call it; "": they may not care
  Seats seats;       // where actors of several models are
  Incarnation incarnation = 0;
  std::string address = "127.0.0.1";  // to listen on
  std::uint16_t port = 0;             // 0: any free one
  std::vector<PeerAddress> peers;     // all others, at first; Links::follow names those that come and go
  std::optional<TlsFiles> tls;        // none: in the clear
  Bytes greeting;  // for the peers: what they need beside messages, such as where pages are pulled from
  Duration heartbeat{200'000};                  // a connection that is silent for five is dead
  std::size_t waiting_bytes_max = 64ull << 20;  // to one peer that does not keep up; more are dropped

  // Of each process that joins, and of each that has gone. On the links' thread; must not block.
  std::function<void(NodeId, Incarnation, const Bytes& greeting)> on_met;
  std::function<void(NodeId, Incarnation)> on_lost;
};

inline constexpr std::size_t message_bytes_max = 64ull << 20, greeting_bytes_max = 64ull << 10;

inline constexpr std::size_t peers_max = 4'096;

// What is wrong with it; "": nothing.
std::string find_fault(const ClusterPlace& place);
// With one of its peers, beside the others.
std::string find_fault(const ClusterPlace& place, const PeerAddress& peer);

}  // namespace troupe
