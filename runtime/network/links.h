#pragma once
// Connections of a process to its peers: TCP, with TLS 1.3 on both sides if configured. CAF's
// middleman is not used: it allocates whatever length an unknown sender's header claims, bounds no
// queue, does not check the name of a certificate, and lets one unreachable host delay connections
// to all others.
//
// Messages to a peer that has not joined are dropped and counted, as on any network. Messages to a
// slow peer wait up to a bound and are dropped beyond it. A connection that is silent for five
// heartbeats is closed; an idle side sends a ping per heartbeat.
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/host/host.h"
#include "runtime/network/cluster.h"
#include "runtime/transfer/page_socket.h"

namespace troupe {

// Throws std::runtime_error if a node could not use these certificates: a file cannot be read, or has
// another content.
void check_tls_files(const TlsFiles& files);

class Links {
 public:
  // Called on the links' own thread; must not block.
  struct Inside {
    // Delivers an envelope of that peer to an actor of this process, and may run a few steps of actors.
    std::function<void(NodeId peer, Address to, std::shared_ptr<const Bytes>)> deliver;
    // Called on disconnect, and at most once per heartbeat when a message targets an unknown or
    // unconnected node.
    std::function<void(NodeId peer)> report_lost;
  };

  // Throws std::runtime_error if `options` or its certificates are invalid. `journal` must outlive
  // it.
  Links(ClusterOptions options, Inside inside, const Journal& journal);
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  // Starts to listen and to connect to peers. Throws std::runtime_error.
  void open();
  std::uint16_t port() const;  // after open()
  // Thread-safe; drops messages before open() and after close().
  void send(Address to, std::shared_ptr<const Bytes> envelope);
  // Replaces the peers, as the membership changes. New peers may join, and those with lower numbers
  // are called. Peers that are no longer listed are disconnected, and refused if they come again.
  // An invalid entry is logged and keeps its former address, if it had one. A list of too many
  // peers is ignored. Thread-safe.
  void follow(std::vector<PeerAddress> peers);
  // Opens a connection for pages to a joined process (transfer/link_transport.h). `take` is called on
  // the links' thread, with the socket or with the reason why there is none; never after close().
  // Thread-safe.
  using TakeSocket = std::function<void(PageSocket, const std::string& fault)>;
  void open_pages(NodeId node, Incarnation incarnation, TakeSocket take);
  // Reads the certificates again, for new connections; existing ones keep theirs. Returns "" on
  // success or without TLS, otherwise the error, and the former certificates stay in use.
  // Thread-safe.
  std::string renew_certificates();
  // Closes all connections; nothing of `Inside` is called afterwards. Messages that still wait
  // after one heartbeat are dropped. A second call does nothing.
  void close();

 private:
  struct World;
  std::unique_ptr<World> world_;
};

}  // namespace troupe
