#pragma once
// Which KV-cache workers take background work: one has to say that it is ready, then it takes chunks; one
// that kept nothing of a chunk is doubtful, and has to say so again; one that then keeps nothing again is
// full.
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "router/fleet/step.h"
#include "router/fleet/worker_table.h"

namespace troupe::router {

class Rooms {
 public:
  // The table belongs to the router and outlives this. `asked_max`: KV-cache workers that are asked at a
  // time.
  Rooms(const WorkerTable& workers, std::uint32_t asked_max);

  // The table has other nodes. Those that are gone keep their places, and take nothing; those that leave
  // neither.
  void follow(std::set<NodeId> leaving);
  void ask(Step step);  // a few, in turn, of those that have to say that they are ready
  void hear_ready(NodeId node);
  void lose(NodeId node);          // it has to say so anew
  void renew();                    // another model: whoever was ready is so again
  void keep(NodeId node);          // it kept something
  void keep_nothing(NodeId node);  // of a chunk

  std::size_t size() const { return rooms_.size(); }
  bool has(NodeId node) const { return rooms_.contains(node); }
  bool some_ready() const;
  // Of the walk, now or when it is ready: it did not say that it has no room or not the model, and does not
  // leave.
  bool may_take(NodeId node, std::string_view model) const;
  bool is_ready(Instant now, NodeId node, const std::string& model) const;
  // `walking`: of the walk, which stops where it is full. What changed is tried there, too.
  bool takes(Instant now, NodeId node, const std::string& model, bool walking) const;
  bool is_asked_again(Instant now, NodeId node, const std::string& model) const;  // and may take some soon
  NodeId next(Instant now, const std::string& model, bool walking);  // that takes some, by turns; 0: none
  bool nobody_has_room(Instant now) const;

 private:
  enum class Room : std::uint8_t { unknown, ready, doubtful, doubtful_ready, full };
  static bool ready(Room room) { return room == Room::ready || room == Room::doubtful_ready; }

  const WorkerTable& workers_;
  std::uint32_t asked_max_;
  std::map<NodeId, Room> rooms_;
  std::set<NodeId> leaving_;
  std::size_t next_asked_ = 0, next_sent_ = 0;  // in workers_.nodes()
};

}  // namespace troupe::router
