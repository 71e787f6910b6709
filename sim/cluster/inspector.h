#pragma once
// Judge of what no single answer shows: bounds and invariants of the actors during the run (promises 2,
// 10), detection of flipped bits within the configured time (2), no effect of former leaders' commands (5),
// the promised limit on retries (10), a slow node that is shed (11), no tenant that waits while others
// exceed their shares (14), and no waste (20: `costs.h`). At the end, when the cluster is quiet, nothing
// may be left over and the index must agree with the workers (3, 8). No router may report that an answer
// differs from its recomputation unless bits flipped in memory (21).
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

  // Returns the time after the last request until everything must be idle.
  Duration quiet() const;

  void look();       // called at intervals
  void judge_end();  // when the cluster is quiet

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
    std::uint64_t highest = 0;  // highest fencing token
    bool beat = false;          // at least one came from a LeaderBeat
  };
  std::map<std::pair<NodeId, Incarnation>, Authority> authorities_;  // received by each KV-cache worker
  struct Flip {                                                      // of a block in memory, not found yet
    NodeId node = 0;
    Incarnation process = 0;
    std::uint64_t generation = 0;
    Instant last;      // time of the last check, by the node's clock
    Duration exposed;  // time in which the node could have found it
  };
  std::vector<Flip> flips_;
};

}  // namespace troupe::sim
