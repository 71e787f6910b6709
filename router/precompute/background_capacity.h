#pragma once
// Tracks which KV-cache workers take background work. A worker takes chunks after it has said that
// it is ready. A worker that kept nothing of a chunk is doubtful and must say so again. If it then
// keeps nothing again, it is full.
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "router/fleet/step.h"
#include "router/fleet/worker_table.h"

namespace troupe::router {

class BackgroundCapacity {
 public:
  // The table belongs to the router and must outlive this object. `asked_max`: KV-cache workers
  // asked at a time.
  BackgroundCapacity(const WorkerTable& workers, std::uint32_t asked_max);

  // The worker table has other nodes. Removed nodes keep their entries and take nothing; leaving
  // nodes take nothing either.
  void follow(std::set<NodeId> leaving);
  void ask(Step step);  // asks a few of those that must say that they are ready, in turn
  void hear_ready(NodeId node);
  void lose(NodeId node);          // it must say so again
  void renew();                    // another model: full nodes that were ready are ready again
  void keep(NodeId node);          // it kept a block
  void keep_nothing(NodeId node);  // of a chunk

  std::size_t size() const { return capacity_.size(); }
  bool has(NodeId node) const { return capacity_.contains(node); }
  // Returns true if it has not said that it is ready since it was added or lost.
  bool is_unknown(NodeId node) const { return capacity_.at(node) == NodeCapacity::unknown; }
  bool some_ready() const;
  // Returns true if it may take blocks of the walk now or once ready: it is not known to be full or
  // to lack the model, and does not leave.
  bool may_take(NodeId node, std::string_view model) const;
  bool is_ready(Instant now, NodeId node, const std::string& model) const;
  // `walking`: block of the walk, which stops at full nodes; changed items are tried there too.
  bool takes(Instant now, NodeId node, const std::string& model, bool walking) const;
  // it is asked for readiness and may take chunks soon
  bool is_asked_again(Instant now, NodeId node, const std::string& model) const;
  // next node that takes chunks, in turn; 0 = none
  NodeId next(Instant now, const std::string& model, bool walking);
  bool none_has_capacity(Instant now) const;

 private:
  enum class NodeCapacity : std::uint8_t { unknown, ready, doubtful, doubtful_ready, full };
  static bool ready(NodeCapacity node_capacity) {
    return node_capacity == NodeCapacity::ready || node_capacity == NodeCapacity::doubtful_ready;
  }

  const WorkerTable& workers_;
  std::uint32_t asked_max_;
  std::map<NodeId, NodeCapacity> capacity_;
  std::set<NodeId> leaving_;
  std::size_t next_asked_ = 0, next_sent_ = 0;  // positions in workers_.nodes()
};

}  // namespace troupe::router
