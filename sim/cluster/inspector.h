#pragma once
// Judges what no single answer shows: bounds and invariants of the actors while the run goes on (promises 2,
// 10), that a bit that flips in memory is found within the time that the configuration states (2), that
// commands of those who led before have no effect (5), that plans are tried again as seldom as promised (10),
// that a slow node is shed (11), that no tenant waits while others have more than their shares (14), that
// nothing is paid for in vain (20: `costs.h`), and, when all is quiet at the end, that nothing is left over
// and the index agrees with what the workers hold (3, 8).
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/cluster/attempts.h"
#include "sim/cluster/clients.h"
#include "sim/cluster/cluster.h"
#include "sim/cluster/costs.h"

namespace troupe::sim {

class Inspector {
 public:
  Inspector(Cluster& cluster, Clients& clients, Violations& violations);

  // How long after the last request everything has to be at rest.
  Duration quiet() const;

  void look();       // now and then
  void judge_end();  // when it is quiet

 private:
  void watch_commands(Address to, const Message& message);
  void judge_retries();
  void judge_flips();
  bool is_found(NodeId node, std::uint64_t generation) const;
  void judge_rest();
  void judge_index();
  void judge_slow_node();
  void report(int promise, std::string what) { violations_.report(promise, std::move(what), cluster_.now()); }

  Cluster& cluster_;
  Clients& clients_;
  Violations& violations_;
  Attempts attempts_;
  Costs costs_;
  struct Authority {
    std::uint64_t highest = 0;  // token
    bool beat = false;          // from a LeaderBeat, one of them
  };
  std::map<std::pair<NodeId, Incarnation>, Authority> authorities_;  // that each KV-cache worker has heard of
  struct Flip {                                                      // of a block in memory, not found yet
    NodeId node = 0;
    Incarnation process = 0;
    std::uint64_t generation = 0;
    Instant last;      // when it was looked at, by the node's clock
    Duration exposed;  // for so long the node could have found it
  };
  std::vector<Flip> flips_;
};

}  // namespace troupe::sim
