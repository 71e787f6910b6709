#include "router/precompute/rooms.h"

#include <algorithm>
#include <utility>

namespace troupe::router {

Rooms::Rooms(const WorkerTable& workers, std::uint32_t asked_max) : workers_(workers), asked_max_(asked_max) {
  for (const NodeId node : workers_.nodes()) rooms_[node] = Room::unknown;
}

void Rooms::follow(std::set<NodeId> leaving) {
  leaving_ = std::move(leaving);
  for (auto& [node, room] : rooms_)
    if (!std::ranges::binary_search(workers_.nodes(), node)) room = Room::unknown;
  for (const NodeId node : workers_.nodes()) rooms_.try_emplace(node, Room::unknown);
}

void Rooms::ask(Step step) {
  const std::vector<NodeId>& nodes = workers_.nodes();
  std::uint32_t asked = 0;
  for (std::size_t i = 0; i < nodes.size() && asked < asked_max_; ++i) {
    const NodeId node = nodes[next_asked_++ % nodes.size()];
    const Room room = rooms_.at(node);
    if ((room != Room::unknown && room != Room::doubtful) || !workers_.alive(step.now, node)) continue;
    step.effects.send({node, Role::kv_worker}, StatusRequest{step.next_id++});
    ++asked;
  }
}

void Rooms::hear_ready(NodeId node) {
  Room& room = rooms_.at(node);
  if (room == Room::doubtful) room = Room::doubtful_ready;
  if (room == Room::unknown) room = Room::ready;
}

void Rooms::lose(NodeId node) {
  if (const auto room = rooms_.find(node); room != rooms_.end()) room->second = Room::unknown;
}

void Rooms::renew() {
  for (auto& [node, room] : rooms_)
    if (room != Room::unknown) room = Room::ready;
}

void Rooms::keep(NodeId node) { rooms_.at(node) = Room::ready; }

void Rooms::keep_nothing(NodeId node) {
  Room& room = rooms_.at(node);
  room = room == Room::doubtful_ready || room == Room::full ? Room::full : Room::doubtful;
}

bool Rooms::some_ready() const {
  return std::ranges::any_of(rooms_, [](const auto& room) { return ready(room.second); });
}

bool Rooms::may_take(NodeId node, std::string_view model) const {
  const auto room = rooms_.find(node);
  if (room == rooms_.end() || leaving_.contains(node) || !std::ranges::binary_search(workers_.nodes(), node))
    return false;
  return room->second == Room::unknown || (ready(room->second) && !workers_.lacks(node, model));
}

bool Rooms::is_ready(Instant now, NodeId node, const std::string& model) const {
  return ready(rooms_.at(node)) && workers_.usable(now, node, model);
}

bool Rooms::takes(Instant now, NodeId node, const std::string& model, bool walking) const {
  if (!workers_.usable(now, node, model) || leaving_.contains(node)) return false;
  const Room room = rooms_.at(node);
  return walking ? ready(room) : room != Room::unknown;
}

bool Rooms::is_asked_again(Instant now, NodeId node, const std::string& model) const {
  return rooms_.at(node) == Room::doubtful && workers_.usable(now, node, model);
}

NodeId Rooms::next(Instant now, const std::string& model, bool walking) {
  const std::vector<NodeId>& nodes = workers_.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeId node = nodes[next_sent_++ % nodes.size()];
    if (takes(now, node, model, walking)) return node;
  }
  return 0;
}

bool Rooms::nobody_has_room(Instant now) const {
  return std::ranges::all_of(rooms_, [&](const auto& room) {
    return room.second == Room::full || leaving_.contains(room.first) || !workers_.alive(now, room.first);
  });
}

}  // namespace troupe::router
