// Queues requests per worker. A window bounds what is sent to a worker and not answered. Further
// requests wait here in one queue per worker, with fair shares between tenants, and are sent when
// the worker has capacity. If it has capacity and its queue is empty, a plan is sent at once.
#include <algorithm>
#include <cmath>

#include "router/router_core.h"

namespace troupe::router {
namespace {

std::string seconds(double us) {
  const auto tenths = static_cast<std::int64_t>(std::ceil(us * 1e-5));
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::uint16_t retry_after(double us) {
  return static_cast<std::uint16_t>(std::clamp(std::ceil(us * 1e-6), 1.0, 600.0));
}

// "tenant "a" has 12 requests here, 8 of them wait with 0.4 s of work"
std::string load_of(const Tenants::Tenant& tenant) {
  return "tenant \"" + tenant.name + "\" has " + std::to_string(tenant.requests) + " requests here, " +
         std::to_string(tenant.waiting) + " of them wait, with " + seconds(tenant.work_us) + " of work";
}

}  // namespace

// ---- before it is taken in ----

// Refuses because of the load that the tenant has here. The tenant's other requests would be
// refused as well; the HTTP server relies on this.
Refusal RouterCore::tenant_overloaded(TenantId tenant, std::string expected) const {
  const Tenants::Tenant& here = tenants_[tenant];
  return {429,      "tenant_overloaded", load_of(here),
          "tenant", std::move(expected), retry_after(here.work_us / slots_)};
}

// Refuses a tenant that has reached one of its limits.
std::optional<Refusal> RouterCore::reject_if_over_limit(TenantId tenant) const {
  const TenantsConfig& most = tenants_.config();
  const Tenants::Tenant& here = tenants_[tenant];
  if (most.requests_max > 0 && here.requests >= most.requests_max)
    return tenant_overloaded(
        tenant, "at most " + std::to_string(most.requests_max) + " at a time (router.tenant_requests_max)");
  if (here.work_us >= static_cast<double>(most.work_us_max) * slots_)
    return tenant_overloaded(tenant, "at most " + seconds(static_cast<double>(most.work_us_max)) +
                                         " of work per executor slot (router.tenant_work_max)");
  return std::nullopt;
}

// Frees a slot when the router is full. A tenant below its share takes it from the tenant with most
// requests for its weight: that tenant's newest waiting request is refused.
bool RouterCore::refuse_newest_of_heaviest(Step step, TenantId tenant) {
  const std::optional<TenantId> heaviest = tenants_.heaviest();
  if (!heaviest || *heaviest == tenant) return false;
  const auto load = [&](TenantId of, std::size_t more) {
    return static_cast<double>(tenants_[of].requests + more) / tenants_[of].weight;
  };
  if (load(*heaviest, 0) <= load(tenant, 1)) return false;
  const FairQueue* longest = nullptr;
  for (const auto& [node, line] : queues_)
    if (line.newest(*heaviest) && (!longest || line.work_us(*heaviest) > longest->work_us(*heaviest)))
      longest = &line;
  Flight* flight = longest ? find(*longest->newest(*heaviest)) : nullptr;
  if (!flight) return false;
  refuse_flight(step, *flight,
                tenant_overloaded(*heaviest,
                                  "fewer requests while other tenants are below "
                                  "their share"));
  return true;
}

// Refuses because none of these workers can finish in time. The tenant's own queue is the cause if
// a worker could finish without it. A request with less than the usual budget does not blame the
// tenant.
Refusal RouterCore::too_busy(Instant now, const Flight& flight, std::span<const NodeId> nodes,
                             const placement::Work& work) const {
  const Tenants::Tenant& here = tenants_[flight.tenant];
  const auto left_us = static_cast<double>((flight.asked.deadline - now).us);
  const bool in_time_alone = std::ranges::any_of(nodes, [&](NodeId node) {
    const auto line = queues_.find(node);
    const double all_us = line != queues_.end() ? line->second.work_us() : 0;
    return workers_.predicted_us(now, node, work, all_us) <= left_us;
  });
  const bool is_usual = (flight.asked.deadline - flight.asked.received).us >= config_.budget.us;
  if (here.waiting > 0 && in_time_alone && is_usual)
    return tenant_overloaded(flight.tenant, "less waiting work of this tenant, or a larger budget");
  return {503,
          "overloaded",
          "no worker can finish before the request's deadline; " + load_of(here),
          "router",
          "a retry after a pause, or a larger budget",
          retry_after(here.work_us / slots_)};
}

// Returns how much of the work waiting for that worker goes after a request of this tenant.
double RouterCore::passes_us(NodeId node, TenantId tenant) const {
  const auto at = queues_.find(node);
  if (at == queues_.end() || at->second.empty()) return 0;
  return at->second.work_us() - at->second.ahead_us(tenant, tenants_[tenant].weight);
}

// ---- in line ----

bool RouterCore::may_send_at_once(NodeId node) const {
  const auto at = queues_.find(node);
  return (at == queues_.end() || at->second.empty()) && workers_.has_capacity(node);
}

void RouterCore::enqueue(Step step, Flight& flight, const WorkerTable::Option& option) {
  FairQueue& line = queues_.try_emplace(option.node, static_cast<double>(config_.quantum.us)).first->second;
  const double work_us = workers_.pace(option.node).us(option.work);
  const FairQueue::QueueEntry entry =
      line.push(flight.tenant, tenants_[flight.tenant].weight, flight.serial, work_us);
  flight.queued = QueuedRequest{option, entry, work_us, step.now};
  tenants_.wait(flight.tenant, work_us);
  count_waiting(step, option.node, flight.tenant, 1);
  const Duration left = flight.asked.deadline - step.now;
  step.effects.set_timer(timer_of(flight.serial, TimerKind::late), step.now + Duration{left.us / 2});
}

void RouterCore::count_waiting(Step step, NodeId node, TenantId tenant, int more) {
  workers_.enqueue(node, queues_.at(node).work_us());
  waiting_ = static_cast<std::size_t>(static_cast<int>(waiting_) + more);
  step.effects.count(Metric::requests_waiting, static_cast<double>(waiting_));
  step.effects.count(Metric::tenant_waiting, static_cast<double>(tenants_[tenant].waiting),
                     tenants_[tenant].name);
}

// Updates the counts after the request has left its queue.
void RouterCore::end_waiting(Step step, Flight& flight) {
  const QueuedRequest was = *std::exchange(flight.queued, std::nullopt);
  tenants_.stop_waiting(flight.tenant, was.work_us);
  flight.timings.turn += (step.now - was.since).us;
  count_waiting(step, was.option.node, flight.tenant, -1);
}

void RouterCore::leave_queue(Step step, Flight& flight) {
  queues_.at(flight.queued->option.node).remove(flight.queued->entry);
  end_waiting(step, flight);
}

// Sends waiting requests to workers that have capacity.
void RouterCore::serve_queues(Step step) {
  for (std::vector<NodeId> freed = workers_.take_freed(); !freed.empty() && waiting_ > 0;
       freed = workers_.take_freed())
    for (const NodeId node : freed) {
      const auto at = queues_.find(node);
      while (at != queues_.end() && !at->second.empty() && workers_.has_capacity(node))
        send_queued(step, *find(at->second.take().item));
    }
}

// The state may have changed while it waited; if so, it chooses a worker again.
void RouterCore::send_queued(Step step, Flight& flight) {
  const WorkerTable::Option option = flight.queued->option;
  end_waiting(step, flight);
  const bool as_before =
      workers_.usable(step.now, option.node, flight.pinned.model_version) && !is_suspect(step.now, flight);
  if (!as_before) return execute(step, flight);
  const double left_us = static_cast<double>((flight.asked.deadline - step.now).us);
  if (workers_.pace(option.node).us(option.work) > left_us)
    return refuse_flight(step, flight, too_busy(step.now, flight, {{option.node}}, option.work));
  send_plan(step, flight, option);
}

// Called when half of its time has passed in the queue: moves to another worker if that one
// finishes earlier.
void RouterCore::reconsider(Step step, Flight& flight) {
  const auto option = choose_worker(step, flight);
  if (!option || option->node == flight.queued->option.node) return;
  leave_queue(step, flight);
  execute(step, flight);
}

// Requeues every request that waits for `node` (draining, lost or removed).
void RouterCore::requeue_waiting(Step step, NodeId node) {
  const auto at = queues_.find(node);
  if (at == queues_.end()) return;
  std::vector<Serial> waiting;
  while (!at->second.empty()) waiting.push_back(at->second.take().item);
  for (const Serial serial : waiting) end_waiting(step, *find(serial));
  for (const Serial serial : waiting) execute(step, *find(serial));
}

std::string RouterCore::find_unfairness() const {
  for (const auto& [node, line] : queues_)
    if (std::string fault = line.find_unfairness(); !fault.empty())
      return "in the queue for node " + std::to_string(node) + " " + fault;
  return "";
}

}  // namespace troupe::router
