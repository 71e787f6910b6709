#pragma once
// Reports the workers that this router does not hear: each loss and each return in the log, their
// number as a metric, and their numbers to observers. A worker that leaves is not missed, and one that
// was never heard only after a while: it may be starting.
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "router/fleet/episode_log.h"
#include "router/fleet/worker_table.h"
#include "runtime/coordination/member_watch.h"

namespace troupe::router {

class LostWorkers {
 public:
  static constexpr Duration start_time{10'000'000};  // for a worker that was never heard

  // The connection to a worker is gone, so that its silence need not be awaited.
  void lose(Step step, NodeId node, const MemberWatch& members);
  // Called once per heartbeat, after WorkerTable::tick().
  void tick(Step step, const WorkerTable& workers, const MemberWatch& members);

  std::size_t count() const { return lost_.size(); }
  std::string describe() const;  // "2 of 4 workers are lost: node 3, node 7"; "" = none is

 private:
  struct Worker {
    EpisodeLog log{"worker_lost", "worker_back"};
    bool disconnected = false;     // at its loss
    std::optional<Instant> since;  // since then it is not heard
  };
  void find(Step step, NodeId node, const WorkerTable& workers);
  void report(Step step, NodeId node, Worker& worker) const;

  std::map<NodeId, Worker> workers_;  // those that were missed
  std::vector<NodeId> lost_;
  std::size_t all_ = 0;  // workers that are expected
};

}  // namespace troupe::router
