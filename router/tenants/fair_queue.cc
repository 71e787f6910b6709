// Queues requests that wait for one worker and shares that worker fairly between tenants (deficit
// round robin). A tenant with much traffic cannot starve the others.
#include "router/tenants/fair_queue.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.h"

namespace troupe::router {

FairQueue::Row* FairQueue::find(TenantId tenant) {
  const auto at = rows_.find(tenant);
  return at != rows_.end() ? &*at->second : nullptr;
}

const FairQueue::Row* FairQueue::find(TenantId tenant) const {
  return const_cast<FairQueue*>(this)->find(tenant);
}

FairQueue::QueueEntry FairQueue::push(TenantId tenant, double weight, Item item, double work_us) {
  TROUPE_CHECK(weight > 0 && work_us >= 0, "a tenant's weight is positive and its work is not negative");
  auto [at, is_new] = rows_.try_emplace(tenant);
  if (is_new)
    at->second = fresh_.insert(fresh_.end(), Row{.tenant = tenant, .credit_us = quantum_us_ * weight});
  Row& row = *at->second;
  if (row.waiting.empty()) {
    row.taken_at_us = taken_us_;
  } else {
    weights_ -= row.weight;
  }
  row.weight = weight;
  weights_ += weight;
  row.work_us += work_us;
  work_us_ += work_us;
  ++size_;
  largest_us_ = std::max(largest_us_, work_us);
  weights_most_ = std::max(weights_most_, weights_);
  rows_most_ = std::max(rows_most_, rows_.size());
  QueueEntry entry;
  entry.tenant = tenant;
  entry.at = row.waiting.insert(row.waiting.end(), {item, work_us, ++pushed_});
  return entry;
}

FairQueue::TakenRequest FairQueue::take() {
  TROUPE_CHECK(size_ > 0, "a request waits");
  Row& row = next();
  const Waiting first = row.waiting.front();
  const TakenRequest taken{first.item, row.tenant, first.work_us};
  QueueEntry entry;
  entry.tenant = row.tenant;
  entry.at = row.waiting.begin();
  row.credit_us -= first.work_us;
  taken_us_ += first.work_us;
  row.taken_at_us = taken_us_;
  remove(entry);
  return taken;
}

// A row without credit stays at the front of the round; its turn ends when the next row is looked
// for.
void FairQueue::remove(const QueueEntry& entry) {
  Row* row = find(entry.tenant);
  TROUPE_CHECK(row && size_ > 0, "the removed request waits in the queue");
  row->work_us = std::max(0.0, row->work_us - entry.at->work_us);
  work_us_ = std::max(0.0, work_us_ - entry.at->work_us);
  row->waiting.erase(entry.at);
  if (row->waiting.empty()) weights_ -= row->weight;
  if (--size_ == 0) return end_busy_time();
  if (row->fresh && (row->waiting.empty() || row->credit_us <= 0)) leave_front(*row);
}

// Moves the row from the rows that go first into the round.
void FairQueue::leave_front(Row& row) {
  row.fresh = false;
  round_.splice(round_.end(), fresh_, rows_.at(row.tenant));
}

void FairQueue::end_busy_time() {
  fresh_.clear();
  round_.clear();
  rows_.clear();
  work_us_ = weights_ = taken_us_ = largest_us_ = weights_most_ = 0;
  rows_most_ = 0;
}

// Returns the row whose turn it is; it has a waiting request.
FairQueue::Row& FairQueue::next() {
  if (!fresh_.empty()) return fresh_.front();
  for (std::size_t poor = 0;;) {
    Row& row = round_.front();
    if (row.credit_us <= 0) {
      if (++poor > round_.size()) spend_lap(), poor = 0;
      row.credit_us += quantum_us_ * row.weight;
      round_.splice(round_.end(), round_, round_.begin());
    } else if (row.waiting.empty()) {
      rows_.erase(row.tenant);
      round_.pop_front();
    } else {
      return row;
    }
  }
}

// Handles the case that every row owes more than a quantum: skips in one step the rounds in which
// nothing would be sent.
void FairQueue::spend_lap() {
  double rounds = INFINITY;
  for (const Row& row : round_)
    rounds = std::min(rounds, std::floor(-row.credit_us / (quantum_us_ * row.weight)));
  for (Row& row : round_) row.credit_us += std::max(0.0, rounds) * quantum_us_ * row.weight;
}

double FairQueue::work_us(TenantId tenant) const {
  const Row* row = find(tenant);
  return row ? row->work_us : 0;
}

double FairQueue::ahead_us(TenantId tenant, double weight) const {
  const Row* row = find(tenant);
  const double own_us = row ? row->work_us : 0;
  const double owed_us = row ? std::max(0.0, -row->credit_us) : 0;
  const double others = weights_ - (row && !row->waiting.empty() ? row->weight : 0);
  return own_us + std::min(work_us_ - own_us, (own_us + owed_us) * others / weight);
}

std::optional<FairQueue::Item> FairQueue::newest(TenantId tenant) const {
  const Row* row = find(tenant);
  if (!row || row->waiting.empty()) return std::nullopt;
  return row->waiting.back().item;
}

// Checks each waiting tenant. While it pays off its last request's debt and waits for its turn,
// each other tenant may take its share of those rounds, one request beyond that, and a quantum for
// going first.
std::string FairQueue::find_unfairness() const {
  for (const Rows* rows : {&fresh_, &round_})
    for (const Row& row : *rows) {
      if (row.waiting.empty()) continue;
      const double rounds = std::ceil(largest_us_ / (quantum_us_ * row.weight)) + 3;
      const double most_us =
          rounds * quantum_us_ * weights_most_ + 2 * static_cast<double>(rows_most_) * largest_us_;
      const double others_us = taken_us_ - row.taken_at_us;
      if (others_us > most_us)
        return "a tenant waits while " + std::to_string(others_us) +
               " us of others' work goes first; at most " + std::to_string(most_us) + " us may";
    }
  return "";
}

}  // namespace troupe::router
