#pragma once
// What waits for one worker, shared fairly between tenants: deficit round robin over the predicted work of
// their requests (Shreedhar and Varghese 1996). A tenant has credit; its turn lasts while that is above
// nothing, each request takes its work from it, and every round adds a quantum times the tenant's weight. So
// over any time in which two tenants both have something waiting, the work done for each, over its weight,
// differs by no more than a quantum and the largest request of either. Who has nothing waiting leaves its
// share to the others.
//
// A tenant that had nothing waiting goes first for one quantum, once a round: who sends little is not kept
// waiting by who sends much. It cannot gain by coming and going, since it keeps its place in the round, with
// what it owes, until its turn has come.
//
// An operation takes constant time while requests are no larger than a quantum; one that is has the tenants
// that wait gone through once, whatever its size. Work is in microseconds of a lane of the worker.
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

namespace troupe::router {

using TenantId = std::uint32_t;  // of router/tenants/tenants.h

class FairQueue {
 public:
  using Item = std::uint64_t;

 private:
  struct Waiting {
    Item item = 0;
    double work_us = 0;
    std::uint64_t number = 0;  // in the order in which all came
  };

 public:
  class Place {  // of what waits: valid until it is taken or removed
    friend class FairQueue;
    TenantId tenant = 0;
    std::list<Waiting>::iterator at;
  };
  struct Taken {
    Item item = 0;
    TenantId tenant = 0;
    double work_us = 0;
  };

  explicit FairQueue(double quantum_us) : quantum_us_(quantum_us) {}
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  // `weight`: above 0; the last one that was said counts.
  Place push(TenantId tenant, double weight, Item item, double work_us);
  Taken take();  // whose turn it is; something waits
  void remove(const Place& place);

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  double work_us() const { return work_us_; }
  double work_us(TenantId tenant) const;
  // Of what waits, what would be begun before another request of this tenant, about: all that is its own, and
  // of the others as much as their weights give them meanwhile.
  double ahead_us(TenantId tenant, double weight) const;
  std::optional<Item> newest(TenantId tenant) const;

  // For observers: who waits although others had more than their share since it was its turn; "" if nobody
  // does.
  std::string find_unfairness() const;

 private:
  struct Row {
    TenantId tenant = 0;
    double weight = 1, credit_us = 0, work_us = 0;
    std::list<Waiting> waiting;
    bool fresh = true;       // in fresh_, else in round_
    double taken_at_us = 0;  // what all had taken when it was last served, or began to wait
  };
  using Rows = std::list<Row>;

  Row& next();
  void spend_lap();
  void leave_front(Row& row);
  Row* find(TenantId tenant);
  const Row* find(TenantId tenant) const;
  void end_busy_time();

  const double quantum_us_;
  Rows fresh_, round_;                                 // whose turn it is first
  std::unordered_map<TenantId, Rows::iterator> rows_;  // found by tenant, never walked
  std::size_t size_ = 0;
  double work_us_ = 0, weights_ = 0;                         // of the rows with something waiting
  double taken_us_ = 0, largest_us_ = 0, weights_most_ = 0;  // since the queue was last empty
  std::size_t rows_most_ = 0;
  std::uint64_t pushed_ = 0;
};

}  // namespace troupe::router
