#pragma once
// Says whether this router accepts new requests, and whether it is ready for them. It refuses them
// while an operator drains it and while the served versions are unknown. A router that refuses is
// not ready, for the same reason. Readiness is stricter: load balancers learn from it before
// clients do.
//
// When the last usable worker goes, requests wait a moment for another one: it may be late with a
// heartbeat, or the next of a rolling restart may not have connected to this router yet.
#include <optional>
#include <string>

#include "router/fleet/feature_watch.h"
#include "router/fleet/leader_view.h"
#include "router/fleet/versions.h"
#include "router/fleet/worker_table.h"

namespace troupe::router {

class Availability {
 public:
  struct Config {
    FeatureWatchConfig features;
    // how long after its start a node that joined awaits the leading cache-meta; 0 = not at all
    Duration leader_wait{0};
    // how long after the last moment with a usable worker requests wait for one; 0 = not at all
    Duration worker_wait{0};
    // how long after its start a router is not ready without having heard all workers; 0 = not at all
    Duration fleet_wait{0};
  };
  // The three belong to the router and must outlive this object.
  Availability(const Config& config, const VersionKeeper& versions, const WorkerTable& workers,
               const LeaderView& leader)
      : leader_wait_(config.leader_wait),
        worker_wait_(config.worker_wait),
        fleet_wait_(config.fleet_wait),
        versions_(versions),
        workers_(workers),
        leader_(leader),
        features_(config.features) {}

  void start(Instant now) { began_ = served_ = now; }
  void tick(Step step);  // called once per heartbeat, after WorkerTable::tick()
  void forgive_stall(Duration stall) { served_ = served_ + stall; }  // the process was stalled that long
  // Returns true if the job belongs to the check of the feature store.
  bool on_done(Step step, std::uint64_t job, const JobResult& result) {
    return features_.on_done(step, job, result);
  }
  void drain(Step step, bool on);

  bool draining() const { return draining_; }
  // Returns true while requests have to wait for the served versions.
  bool is_starting(Instant now) const { return !draining_ && !versions_.current(now); }
  // Returns true while requests have to wait for a worker: none is usable, but one was a moment ago.
  bool awaits_worker(Instant now) const;
  // Returns why a new request is refused, if so. Admission and readiness both ask this.
  std::optional<Refusal> refusal(Instant now) const;
  std::string not_ready_reason(Instant now) const;  // "" = ready
  // Returns why requests are answered with profiles and items as known last; "" = they are not.
  const std::string& stale_features() const { return features_.stale(); }

 private:
  Duration leader_wait_, worker_wait_, fleet_wait_;
  const VersionKeeper& versions_;
  const WorkerTable& workers_;
  const LeaderView& leader_;
  FeatureWatch features_;
  Instant began_;
  Instant served_;  // when there was a usable worker last, as of the last heartbeat
  bool draining_ = false;
};

}  // namespace troupe::router
