#pragma once
// The connections of a process to its peers: TCP, with TLS 1.3 on both sides if asked for. CAF's middleman is
// not used for this: it allocates what a stranger's header says, bounds nothing that waits, does not look at
// whom a certificate is for, and lets one unreachable host hold up the calls to all others.
//
// Messages to a peer that has not joined are dropped and counted, as on any network. To one that does not
// keep up they wait up to a bound, and are dropped beyond it. A connection that is silent for five heartbeats
// is closed; while there is nothing to say, each side sends a ping per heartbeat.
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/host/host.h"
#include "runtime/network/cluster.h"

namespace troupe {

class Links {
 public:
  // Called on the links' own thread; must not block.
  struct Inside {
    // An envelope of that peer for an actor of this process.
    std::function<void(NodeId peer, Address to, std::shared_ptr<const Bytes>)> deliver;
    // It has gone; or it is not there, or no peer, and something was sent to it (said once per heartbeat).
    std::function<void(NodeId peer)> tell_lost;
  };

  // Throws std::runtime_error that says what is wrong with the place, or with its certificates. `journal`
  // outlives it.
  Links(ClusterPlace place, Inside inside, const Journal& journal);
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  // Listens, and calls the peers from now on. Throws std::runtime_error.
  void open();
  std::uint16_t port() const;  // after open()
  // Thread-safe; drops what comes before open() or after close().
  void send(Address to, std::shared_ptr<const Bytes> envelope);
  // Other peers from now on, as of the membership: who comes may join, and is called if its number is lower;
  // whoever is not among them is cut off, and turned away when it comes again. One whose place cannot be one
  // is told, and left where it was known to be, if it was; too many are none. Thread-safe.
  void follow(std::vector<PeerAddress> peers);
  // Reads the certificates again, for connections from now on; those that stand keep theirs. Thread-safe. "":
  // done, or there are none; else what is wrong, and the former ones stay.
  std::string renew_certificates();
  // After it nothing of `Inside` is called. What still waits after
  // a heartbeat is dropped. A second call does nothing.
  void close();

 private:
  struct World;
  std::unique_ptr<World> world_;
};

}  // namespace troupe
