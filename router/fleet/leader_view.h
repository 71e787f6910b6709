#pragma once
// Tracks which cache-meta leads, as far as this router has heard. The highest token wins. A leader
// that is silent for three heartbeats, or whose node is gone, no longer counts; requests then
// continue without the index (promise 7). A single cache-meta is assumed to lead until its first
// silence.
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe::router {

class LeaderView {
 public:
  // `own`: the cache-meta in the router's own process, 0 = none. It does not fall silent (WorkerTableConfig).
  LeaderView(std::vector<NodeId> cache_metas, Duration heartbeat, NodeId own = 0)
      : cache_metas_(std::move(cache_metas)), silence_{heartbeat.us * 3}, own_(own) {
    if (cache_metas_.size() == 1) node_ = cache_metas_[0];
  }

  void start(Instant now) { heard_ = now; }
  // the process was stalled for that long and heard nobody
  void forgive_stall(Duration stall) { heard_ = heard_ + stall; }
  void hear(Instant now, NodeId from, std::uint64_t token) {
    if (token < token_) return;
    token_ = token;
    node_ = from;
    heard_ = now;
  }
  void follow(std::vector<NodeId> cache_metas) {
    cache_metas_ = std::move(cache_metas);
  }  // replaces the list of cache-metas
  void lose(NodeId node) {
    if (node == node_) node_ = 0;
  }

  NodeId leader(Instant now) const {  // 0 = none
    return now < heard_ + silence_ || node_ == own_ ? node_ : 0;
  }
  // Returns the receivers of messages that must not be missed: the leader, or all cache-metas if no
  // leader is known.
  std::vector<NodeId> leader_or_all(Instant now) const {
    const NodeId node = leader(now);
    return node != 0 ? std::vector<NodeId>{node} : cache_metas_;
  }

 private:
  std::vector<NodeId> cache_metas_;
  Duration silence_;
  NodeId own_;
  NodeId node_ = 0;
  std::uint64_t token_ = 0;
  Instant heard_;
};

}  // namespace troupe::router
