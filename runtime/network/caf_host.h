#pragma once
// The host of the real world: each core is one CAF actor on a small thread pool, each port has executor
// threads of its own, time is the steady clock. The only code that knows CAF is caf_*. All cores speak
// the same events, so their shell is one plain class over the Core interface rather than a template, and a
// new actor adds no CAF code. As one of a cluster it has links to its peers (links.h); that one is lost comes
// to every core as PeerLost. Within the process messages travel as structs and are encoded for other
// processes only; a lane that has finished a job runs the cores that its result wakes, so that a busy box
// wakes no other thread. Mailboxes are not bounded here: admission in the router bounds what is under way.
#include <cstdint>
#include <memory>

#include "runtime/host/host.h"
#include "runtime/network/cluster.h"

namespace troupe {

class CafHost final : public Host {
 public:
  // How messages travel between the actors of this process: tests send bytes, which every build can decode.
  enum class Inside : std::uint8_t { structs, bytes };

  // `threads` run the cores, beside the lanes of ports; 0 means one for each four cores of this machine, at
  // most 4.
  CafHost(MetricRegistry& metrics, LogSink log, std::uint32_t threads = 0, Inside inside = Inside::structs);
  ~CafHost() override;

  // Before start(): actors of this node may send to those of its peers. Throws std::runtime_error, as start()
  // does then if it cannot listen.
  void join(ClusterPlace place);
  void follow(std::vector<PeerAddress> peers);  // as Links' own; after join()
  std::uint16_t port() const;                   // where it listens; 0: nowhere
  std::string renew_certificates();             // as Links' own; "" where there are no links

  void add(ActorSpec actor) override;
  void set_door(Address address, Door door) override;
  void start() override;
  void post(Address to, Address from, Message message) override;
  void post_encoded(Address to, Bytes envelope) override;
  void stop() override;

 private:
  struct World;
  std::unique_ptr<World> world_;
};

}  // namespace troupe
