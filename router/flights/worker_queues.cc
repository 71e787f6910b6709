// Puts flights into the queue for their worker, takes them out in their turn, and counts them.
#include "router/flights/worker_queues.h"

#include <utility>

#include "router/flights/timers.h"

namespace troupe::router {

const FairQueue* WorkerQueues::find(NodeId node) const {
  const auto at = queues_.find(node);
  return at != queues_.end() ? &at->second : nullptr;
}

bool WorkerQueues::may_send_at_once(NodeId node) const {
  const FairQueue* queue = find(node);
  return (!queue || queue->empty()) && workers_.has_capacity(node);
}

double WorkerQueues::work_us(NodeId node) const {
  const FairQueue* queue = find(node);
  return queue ? queue->work_us() : 0;
}

double WorkerQueues::passes_us(NodeId node, TenantId tenant) const {
  const FairQueue* queue = find(node);
  if (!queue || queue->empty()) return 0;
  return queue->work_us() - queue->ahead_us(tenant, tenants_[tenant].weight);
}

std::optional<Flight::Serial> WorkerQueues::newest_of(TenantId tenant) const {
  const FairQueue* longest = nullptr;
  for (const auto& [node, queue] : queues_)
    if (queue.newest(tenant) && (!longest || queue.work_us(tenant) > longest->work_us(tenant)))
      longest = &queue;
  return longest ? longest->newest(tenant) : std::nullopt;
}

void WorkerQueues::enqueue(Step step, Flight& flight, const WorkerTable::Option& option) {
  FairQueue& queue = queues_.try_emplace(option.node, static_cast<double>(quantum_.us)).first->second;
  const double work_us = workers_.pace(option.node).us(option.work);
  const FairQueue::QueueEntry entry =
      queue.push(flight.tenant, tenants_[flight.tenant].weight, flight.serial, work_us);
  flight.queued = QueuedRequest{option, entry, work_us, step.now};
  tenants_.wait(flight.tenant, work_us);
  count_waiting(step, option.node, flight.tenant, 1);
  const Duration left = flight.origin.deadline - step.now;
  step.effects.set_timer(timer_of(flight.serial, TimerKind::late), step.now + Duration{left.us / 2});
}

void WorkerQueues::count_waiting(Step step, NodeId node, TenantId tenant, int more) {
  workers_.enqueue(node, work_us(node));
  waiting_ = static_cast<std::size_t>(static_cast<int>(waiting_) + more);
  step.effects.count(Metric::requests_waiting, static_cast<double>(waiting_));
  step.effects.count(Metric::tenant_waiting, static_cast<double>(tenants_[tenant].waiting),
                     tenants_[tenant].name);
}

// Updates the counts after the flight has left its queue.
void WorkerQueues::end_waiting(Step step, Flight& flight) {
  const QueuedRequest was = *std::exchange(flight.queued, std::nullopt);
  tenants_.stop_waiting(flight.tenant, was.work_us);
  flight.timings.turn += (step.now - was.since).us;
  count_waiting(step, was.option.node, flight.tenant, -1);
}

void WorkerQueues::leave(Step step, Flight& flight) {
  queues_.at(flight.queued->option.node).remove(flight.queued->entry);
  end_waiting(step, flight);
}

std::optional<Flight::Serial> WorkerQueues::take_next(NodeId node) {
  const auto at = queues_.find(node);
  if (at == queues_.end() || at->second.empty() || !workers_.has_capacity(node)) return std::nullopt;
  return at->second.take().item;
}

std::vector<Flight::Serial> WorkerQueues::take_all(NodeId node) {
  std::vector<Flight::Serial> taken;
  const auto at = queues_.find(node);
  while (at != queues_.end() && !at->second.empty()) taken.push_back(at->second.take().item);
  return taken;
}

std::string WorkerQueues::find_unfairness() const {
  for (const auto& [node, queue] : queues_)
    if (std::string fault = queue.find_unfairness(); !fault.empty())
      return "in the queue for node " + std::to_string(node) + " " + fault;
  return "";
}

}  // namespace troupe::router
