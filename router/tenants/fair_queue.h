#pragma once
// Queue of the requests that wait for one worker, shared fairly between tenants: deficit round
// robin over the predicted work of their requests (Shreedhar and Varghese 1996). A tenant's turn
// lasts while its credit is positive. Each request takes its work from the credit, and every round
// adds a quantum times the tenant's weight. While two tenants both have waiting requests, the work
// done for each, divided by its weight, differs by at most a quantum plus the largest request of
// either. A tenant without waiting requests leaves its share to the others.
//
// A tenant whose queue was empty goes first for one quantum, once a round, so a light tenant does
// not wait behind a heavy one. It cannot gain by leaving and returning: it keeps its position in
// the round, and what it owes, until its turn.
//
// Operations take constant time while requests are no larger than a quantum. A larger one costs one
// pass over the waiting tenants, whatever its size. Work is in microseconds of one executor slot of
// the worker.
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

namespace troupe::router {

using TenantId = std::uint32_t;  // as in router/tenants/tenants.h

class FairQueue {
 public:
  using Item = std::uint64_t;

 private:
  struct Waiting {
    Item item = 0;
    double work_us = 0;
    std::uint64_t number = 0;  // in the order in which requests came
  };

 public:
  class QueueEntry {  // position of a waiting request: valid until it is taken or removed
    friend class FairQueue;
    TenantId tenant = 0;
    std::list<Waiting>::iterator at;
  };
  struct TakenRequest {
    Item item = 0;
    TenantId tenant = 0;
    double work_us = 0;
  };

  explicit FairQueue(double quantum_us) : quantum_us_(quantum_us) {}
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  // Appends a request. `weight` is above 0; the latest one given for a tenant counts.
  QueueEntry push(TenantId tenant, double weight, Item item, double work_us);
  TakenRequest take();  // takes the request whose turn it is; requires that one waits
  void remove(const QueueEntry& entry);

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  double work_us() const { return work_us_; }
  double work_us(TenantId tenant) const;
  // Returns about how much of the waiting work would start before another request of this tenant:
  // all of its own, and of the others' as much as their weights give them meanwhile.
  double ahead_us(TenantId tenant, double weight) const;
  std::optional<Item> newest(TenantId tenant) const;

  // Returns which tenant waits although others had more than their share since its turn; "" = none.
  // For observers.
  std::string find_unfairness() const;

 private:
  struct Row {
    TenantId tenant = 0;
    double weight = 1, credit_us = 0, work_us = 0;
    std::list<Waiting> waiting;
    bool fresh = true;       // true = in fresh_, else in round_
    double taken_at_us = 0;  // total work taken when it was last served, or began to wait
  };
  using Rows = std::list<Row>;

  Row& next();
  void spend_lap();
  void leave_front(Row& row);
  Row* find(TenantId tenant);
  const Row* find(TenantId tenant) const;
  void end_busy_time();

  const double quantum_us_;
  Rows fresh_, round_;                                 // in the order of their turns
  std::unordered_map<TenantId, Rows::iterator> rows_;  // looked up by tenant, never iterated
  std::size_t size_ = 0;
  double work_us_ = 0, weights_ = 0;                         // of the rows with a waiting request
  double taken_us_ = 0, largest_us_ = 0, weights_most_ = 0;  // since the queue was last empty
  std::size_t rows_most_ = 0;
  std::uint64_t pushed_ = 0;
};

}  // namespace troupe::router
