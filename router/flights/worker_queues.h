#pragma once
// Queues flights per worker. A window bounds what is sent to a worker and not answered. Further
// flights wait here in one queue per worker, with fair shares between tenants, and are sent when
// the worker has capacity. If it has capacity and its queue is empty, a plan is sent at once.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "router/flights/flight.h"
#include "router/tenants/fair_queue.h"
#include "router/tenants/tenants.h"

namespace troupe::router {

class WorkerQueues {
 public:
  // `quantum`: work that a tenant of weight 1 may send per round at a worker. The two belong to the
  // router and must outlive this object.
  WorkerQueues(Duration quantum, WorkerTable& workers, Tenants& tenants)
      : quantum_(quantum), workers_(workers), tenants_(tenants) {}

  bool may_send_at_once(NodeId node) const;
  double work_us(NodeId node) const;  // all work that waits for that worker
  // Returns how much of that work goes after a request of this tenant.
  double passes_us(NodeId node, TenantId tenant) const;
  // Returns the tenant's newest flight in the queue where most of its work waits.
  std::optional<Flight::Serial> newest_of(TenantId tenant) const;

  void enqueue(Step step, Flight& flight, const WorkerTable::Option& option);
  void leave(Step step, Flight& flight);
  // Take the flight whose turn it is, if the worker has capacity; or all that wait for the worker.
  // The caller then calls end_waiting for each.
  std::optional<Flight::Serial> take_next(NodeId node);
  std::vector<Flight::Serial> take_all(NodeId node);
  void end_waiting(Step step, Flight& flight);

  std::size_t waiting() const { return waiting_; }  // flights in all queues
  // Returns which tenant waits while others have more than their share, or "".
  std::string find_unfairness() const;

 private:
  const FairQueue* find(NodeId node) const;
  void count_waiting(Step step, NodeId node, TenantId tenant, int more);

  Duration quantum_;
  WorkerTable& workers_;
  Tenants& tenants_;
  std::map<NodeId, FairQueue> queues_;
  std::size_t waiting_ = 0;
};

}  // namespace troupe::router
