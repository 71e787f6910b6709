// Blocks that are being filled and the requests that wait for them: who becomes the writer when one
// gives up, and which requests may read a block that is in flight.
#include "actors/kv_worker/pending_blocks.h"

#include <algorithm>

#include "actors/kv_worker/bounds.h"

namespace troupe::actors {

PendingBlocks::PendingBlocks(const KvWorkerConfig& config, PagePool& pool, Requests& requests,
                             Reservations& reservations, InFlightReads& in_flight, IndexReports& index)
    : config_(config),
      pool_(pool),
      requests_(requests),
      reservations_(reservations),
      in_flight_(in_flight),
      index_(index) {}

const PoolBlock* PendingBlocks::reserve(const Request& request, std::size_t index, BlockSource source,
                                        Effects& effects) {
  const BlockWant& want = request.ask.wants[index];
  const PoolBlock* block = reservations_.reserve(request.ask, want, source, request.offered);
  if (!block) {
    effects.count(Metric::blocks_refused);
    if (want.kind == SegmentKind::user && !request.offered) index_.note_refused(want.name);
    return nullptr;
  }
  add(*block);
  return block;
}

void PendingBlocks::add(const PoolBlock& reserved) {
  blocks_[reserved.name] = {.generation = reserved.generation};
}

// ---- waits ----

// A request waits for a block only once. Waiters that gave up are removed only when there are too
// many.
void PendingBlocks::wait(Serial serial, Request& request, std::size_t want) {
  std::vector<Waiter>& waiters = blocks_.at(request.ask.wants[want].name).waiters;
  // A second want of the same request would wait for itself.
  if (!waiters.empty() && waiters.back().request == serial) return;
  if (waiters.size() >= config_.requests_max)
    std::erase_if(waiters, [&](const Waiter& waiter) { return !waits(waiter); });
  waiters.push_back({serial, want});
  request.holds[want].waiting = true;
  ++request.undecided;
}

bool PendingBlocks::waits(const Waiter& waiter) const {
  const Request* request = requests_.find(waiter.request);
  return request && request->holds[waiter.want].waiting;
}

// A pull that has already lasted longer than the new request would wait is not worth waiting for.
bool PendingBlocks::is_slow_pull(Instant now, const BlockName& name, const Request& request) const {
  const std::optional<Instant>& asked = blocks_.at(name).pull_asked;
  return asked && now - *asked > request.wait_deadline - now;
}

// Called only for a waiter that still waits.
void PendingBlocks::decide(Waiter waiter, Hold hold, Effects& effects) {
  Request& request = *requests_.find(waiter.request);
  carry_in_flight_read(request.holds[waiter.want], hold);
  request.holds[waiter.want] = hold;
  if (--request.undecided == 0) return requests_.answer(waiter.request, effects);
  // The deadline may have passed while a block was in flight.
  if (request.announced) effects.set_timer(waiter.request, request.wait_deadline);
}

void PendingBlocks::end_wait(Serial serial, Effects& effects) {
  Request& request = *requests_.find(serial);
  for (Hold& hold : request.holds) hold.waiting = false;
  request.undecided = 0;
  requests_.answer(serial, effects);
}

// ---- ends ----

std::vector<PendingBlocks::Waiter> PendingBlocks::take_waiters(const BlockName& name,
                                                               std::uint64_t generation) {
  const auto at = blocks_.find(name);
  if (at == blocks_.end() || at->second.generation != generation) return {};
  std::vector<Waiter> waiters = std::move(at->second.waiters);
  blocks_.erase(at);
  return waiters;
}

void PendingBlocks::finish(const BlockName& name, std::uint64_t generation, bool pulled, Effects& effects) {
  const PoolBlock& block = *pool_.find(name);
  index_.note_added(block);
  for (const Waiter& waiter : take_waiters(name, generation)) {
    if (!waits(waiter)) continue;
    Hold hold = requests_.read(block, false, effects);
    hold.pulled = pulled;
    decide(waiter, hold, effects);
  }
}

// The earliest waiter becomes the writer, unless it is an offer. The waiters behind it now wait for
// it.
void PendingBlocks::fail(const BlockName& name, std::uint64_t generation, Effects& effects) {
  const std::vector<Waiter> waiters = take_waiters(name, generation);
  for (auto first = waiters.begin(); first != waiters.end(); ++first) {
    if (!waits(*first)) continue;
    const Request& request = *requests_.find(first->request);
    if (request.offered) {
      decide(*first, {}, effects);
      continue;
    }
    const PoolBlock* block = reserve(request, first->want, BlockSource::computed, effects);
    const std::span<const Waiter> behind(first + 1, waiters.end());
    for (const Waiter& waiter : behind)  // as in decide()
      if (waits(waiter) && requests_.find(waiter.request)->announced)
        effects.set_timer(waiter.request, requests_.find(waiter.request)->wait_deadline);
    if (block) blocks_.at(name).waiters.assign(behind.begin(), behind.end());
    decide(*first, block ? Hold{.grant = Grant::write, .generation = block->generation} : Hold{}, effects);
    if (block) return;
  }
}

// ---- blocks in flight ----

void PendingBlocks::begin_pull(Instant now, const BlockName& name) { blocks_.at(name).pull_asked = now; }

void PendingBlocks::begin_copy(const BlockName& name, std::uint64_t checksum) {
  blocks_.at(name).in_flight = checksum;
}

bool PendingBlocks::is_awaited(const BlockName& name, std::uint64_t generation) const {
  const auto at = blocks_.find(name);
  return at != blocks_.end() && at->second.generation == generation &&
         std::ranges::any_of(at->second.waiters, [&](const Waiter& waiter) { return waits(waiter); });
}

bool PendingBlocks::has_in_flight_reader(const BlockName& name) const {
  return std::ranges::any_of(blocks_.at(name).waiters, [&](const Waiter& waiter) {
    return waits(waiter) && requests_.find(waiter.request)->ask.early;
  });
}

void PendingBlocks::announce(Serial serial, Effects& effects) {
  Request& request = *requests_.find(serial);
  if (!request.ask.early || request.announced || request.answered) return;
  for (std::size_t i = 0; i < request.holds.size(); ++i) {
    if (!request.holds[i].waiting) continue;
    const auto at = blocks_.find(request.ask.wants[i].name);
    if (at == blocks_.end() || !at->second.in_flight) return;
  }
  for (std::size_t i = 0; i < request.holds.size(); ++i) {
    Hold& hold = request.holds[i];
    if (!hold.waiting) continue;
    const BlockName& name = request.ask.wants[i].name;
    const Pending& block = blocks_.at(name);
    hold.in_flight = block.generation;
    hold.in_flight_checksum = *block.in_flight;
    in_flight_.begin(name, block.generation);
  }
  request.announced = true;
  requests_.send_grants(request, effects);
}

void PendingBlocks::announce_to_waiters(const BlockName& name, Effects& effects) {
  for (const Waiter& waiter : blocks_.at(name).waiters)
    if (waits(waiter)) announce(waiter.request, effects);
}

// The copy ends by itself, and its end is reported, however late.
bool PendingBlocks::awaits_in_flight(const Request& request) const {
  if (!request.announced) return false;
  for (std::size_t i = 0; i < request.holds.size(); ++i) {
    const Hold& hold = request.holds[i];
    if (!hold.waiting || hold.in_flight == 0) continue;
    const auto at = blocks_.find(request.ask.wants[i].name);
    if (at != blocks_.end() && at->second.generation == hold.in_flight) return true;
  }
  return false;
}

// If the request gets the same block, its pin keeps the pages from now on.
void PendingBlocks::carry_in_flight_read(const Hold& before, Hold& after) {
  if (before.in_flight == 0) return;
  if (after.grant == Grant::read && after.generation == before.in_flight)
    return in_flight_.end(before.in_flight);
  after.in_flight = before.in_flight;
}

void PendingBlocks::note_arrival(Instant now, const BlockName& name) {
  const auto at = blocks_.find(name);
  if (at == blocks_.end()) return;
  for (const Waiter& waiter : at->second.waiters) {
    if (!waits(waiter)) continue;
    Request& request = *requests_.find(waiter.request);
    request.pulling = now - request.received;
  }
}

// ---- for checkers ----

std::size_t PendingBlocks::waiting_for_nobody() const {
  std::size_t waits = 0;
  for (const auto& [serial, request] : requests_.all())
    for (std::size_t i = 0; i < request.holds.size(); ++i)
      waits += request.holds[i].waiting && !blocks_.contains(request.ask.wants[i].name);
  return waits;
}

std::string PendingBlocks::check_bounds() const {
  std::size_t waiters = 0;
  for (const auto& [name, pending] : blocks_) waiters = std::max(waiters, pending.waiters.size());
  return first_fault({bound_fault("pending blocks", blocks_.size(), pool_.pages()),
                      bound_fault("waiters for one block", waiters, config_.requests_max)});
}

}  // namespace troupe::actors
