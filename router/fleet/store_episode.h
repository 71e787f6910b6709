#pragma once
// Tells for how long a store that the router needs is away or refuses, and why: a metric is 1 during
// the episode, with the store's own word for the reason, such as READONLY or OOM.
#include <string>

#include "router/fleet/episode_log.h"
#include "router/fleet/step.h"

namespace troupe::router {

// Returns the reason in one word: an error code of Redis; login, no_space or no_leader of etcd; the
// refusal's code; or "away".
std::string store_reason(const Refusal& refusal);

class StoreEpisode {
 public:
  // `store`: "coordination", "reads" or "writes". `logs`: log its begin and end, as failing writes.
  StoreEpisode(std::string store, bool logs) : store_(std::move(store)), logs_(logs) {}

  // Notes an answer of the store; null: it did what was asked. Only a refusal as unavailable is part
  // of an episode: with any other the store has answered.
  void note(Step step, const Refusal* refusal);
  const std::string& reason() const { return reason_; }  // "" = no episode

 private:
  std::string store_;
  bool logs_;
  std::string reason_;
  EpisodeLog log_{"writes_fail", "writes_succeed"};
};

}  // namespace troupe::router
