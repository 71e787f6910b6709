#pragma once
// Host for real time: each core is one CAF actor on a small thread pool, each port has executor
// threads of its own, and time is the steady clock. Only the caf_* files know CAF. All cores handle
// the same events, so their shell is one plain class over the Core interface rather than a
// template, and a new actor adds no CAF code.
//
// A host that joins a cluster has links to its peers (links.h); the loss of a peer reaches every
// core as PeerLost. Messages travel as structs within the process and are encoded only for other
// processes. An executor that has finished a job runs the cores that its result wakes, so that a
// busy node wakes no other thread. Mailboxes are not bounded here; admission in the router bounds
// the requests in flight.
#include <cstdint>
#include <memory>

#include "runtime/host/host.h"
#include "runtime/network/cluster.h"

namespace troupe {

class CafHost final : public Host {
 public:
  // Form of messages between actors of this process: tests use bytes, which every build can decode.
  enum class Inside : std::uint8_t { structs, bytes };

  // `threads` run the cores, in addition to the executor threads of ports; 0 = one per four cores
  // of this machine, at most 4.
  CafHost(MetricRegistry& metrics, LogSink log, std::uint32_t threads = 0, Inside inside = Inside::structs);
  ~CafHost() override;

  // Call before start(). Actors of this node may then send to those of its peers. Throws
  // std::runtime_error. start() then throws it, too, if the host cannot listen.
  void join(ClusterOptions options);
  void follow(std::vector<PeerAddress> peers);  // see Links::follow; after join()
  // See Links::open_pages; after join(). Does nothing after stop().
  void open_pages(NodeId node, Incarnation incarnation,
                  std::function<void(PageSocket, const std::string& fault)> take);
  std::uint16_t port() const;        // port on which it listens; 0 = none
  std::string renew_certificates();  // see Links::renew_certificates; "" without links

  void add(ActorSpec actor) override;
  void set_server(Address address, ServerHandler server) override;
  void start() override;
  void post(Address to, Address from, Message message) override;
  void post_encoded(Address to, Bytes envelope) override;
  void stop() override;

 private:
  struct World;
  std::unique_ptr<World> world_;
};

}  // namespace troupe
