// The KV-cache worker's grants: which wanted blocks a request may read or write, which it waits
// for, and what happens to them when it releases them.
#include <algorithm>

#include "actors/kv_worker/kv_worker_core.h"
#include "kernels/base/check.h"
#include "kernels/base/hash.h"
#include "runtime/actor/block_name.h"
#include "runtime/actor/mutants.h"

namespace troupe::actors {
namespace {

constexpr std::int64_t wait_us_max = 3'600'000'000;

constexpr std::size_t uses_elsewhere_max = 256;

bool is_remote_home(const AcquireBlocks& ask, const BlockWant& want) {
  return ask.retention.remote_home && want.kind == SegmentKind::user;
}

// Returns the worth of a copy, 0..1; NaN counts as 0.
double copy_worth(const AcquireBlocks& ask) {
  return ask.retention.copy_worth >= 0 ? std::min(ask.retention.copy_worth, 1.0) : 0;
}

}  // namespace

// Returns null if the block is absent. A different block with a colliding name counts as absent.
const PoolBlock* KvWorkerCore::find(const BlockName& name) const {
  const PoolBlock* block = pool_.find(name);
  return block && same_block(block->name, name) ? block : nullptr;
}

// ---- acquire ----

bool KvWorkerCore::is_inference_worker(Address address) const {
  if (address.role != Role::inference_worker) return false;
  return config_.models.empty() ? address.node == config_.node
                                : std::ranges::find(config_.models, address.node) != config_.models.end();
}

// Returns the key of a request. Workers of several models number their requests alike, so the id
// alone is not unique.
std::pair<Address, RequestId> KvWorkerCore::key_of(Address from, RequestId id) const {
  if (is_inference_worker(from) && mutated(Mutant::confuse_models)) from.node = config_.node;
  return {from, id};
}

void KvWorkerCore::on_acquire(Instant now, Address from, const AcquireBlocks& ask, Effects& effects) {
  const bool offered = is_offer(from, ask);
  const bool remote = offered || (from.role == Role::kv_worker && from.node != config_.node && ask.read_only);
  if (!remote && !is_inference_worker(from)) return effects.count(Metric::protocol_errors);
  const auto known = serials_.find(key_of(from, ask.id));
  if (known != serials_.end()) {
    const Request& request = requests_.at(known->second);
    if (request.answered) send_grants(request, effects);
    return;
  }
  if (requests_.size() >= config_.requests_max || (remote && remote_reads_ >= config_.remote_reads_max))
    return refuse(from, ask, effects);
  const Serial serial = add_request(now, from, ask);
  Request& request = requests_.at(serial);
  request.offered = offered;
  remote_reads_ += remote;

  if (!offered) count_wants(ask);
  if (!remote) count_uses_elsewhere(ask);
  // Decides ready blocks first, so that no reservation evicts a block that is also wanted.
  const std::vector<std::size_t> absent = decide_present(now, serial, request, ask, effects);
  if (request.undecided > 0 || (!absent.empty() && !ask.read_only)) request.ask = ask;
  if (ask.trace.sampled)
    effects.log(LogLevel::debug, "blocks_wanted",
                {{"request", ask.id},
                 {"trace_id", trace_id(ask.trace)},
                 {"from", from.node},
                 {"wants", ask.wants.size()},
                 {"absent", absent.size()}});
  if (!ask.read_only) decide_absent(now, serial, request, absent, effects);
  if (remote) effects.set_timer(serial, request.lease_ends);
  if (request.undecided == 0) return answer(serial, effects);
  effects.set_timer(serial, request.wait_deadline);
  announce_in_flight(serial, effects);
}

KvWorkerCore::Serial KvWorkerCore::add_request(Instant now, Address from, const AcquireBlocks& ask) {
  const Serial serial = next_serial_++;
  Request& request = requests_[serial];
  request.from = from;
  request.id = ask.id;
  request.holds.resize(ask.wants.size());
  request.received = now;
  request.wait_deadline = now + Duration{std::clamp<std::int64_t>(ask.budget_us, 0, wait_us_max)};
  request.lease_ends = now + Duration{config_.read_lease.us + config_.read_lease.us / 10};
  serials_[key_of(from, ask.id)] = serial;
  return serial;
}

void KvWorkerCore::refuse(Address from, const AcquireBlocks& ask, Effects& effects) const {
  effects.count(Metric::blocks_refused, static_cast<double>(ask.wants.size()));
  Request request;
  request.from = from;
  request.id = ask.id;
  request.holds.resize(ask.wants.size());
  send_grants(request, effects);
}

void KvWorkerCore::send_grants(const Request& request, Effects& effects) const {
  const std::int64_t lease_us = request.remote() ? config_.read_lease.us : 0;
  BlocksAcquired acquired{request.id, config_.incarnation, lease_us, {}, request.pulling.us};
  acquired.grants.reserve(request.holds.size());
  for (std::size_t i = 0; i < request.holds.size(); ++i) acquired.grants.push_back(grant_of(request, i));
  effects.send(request.from, std::move(acquired));
}

BlockGrant KvWorkerCore::grant_of(const Request& request, std::size_t want) const {
  const Hold& hold = request.holds[want];
  if (hold.waiting && hold.early != 0) {
    const PendingBlock& pending = pending_blocks_.at(request.ask.wants[want].name);
    return {Grant::read,
            hold.early,
            *pending.in_flight,
            find(request.ask.wants[want].name)->pages,
            false,
            !mutated(Mutant::read_before_it_comes)};
  }
  if (hold.grant == Grant::read)
    return {Grant::read, hold.generation, hold.block->checksum, hold.block->pages,
            hold.check,  false,           hold.pulled};
  if (hold.grant == Grant::none) return {};
  const PoolBlock* block = find(request.ask.wants[want].name);
  if (!block || block->generation != hold.generation) return {};  // forgotten: it would not be kept
  return {Grant::write, hold.generation, 0, block->pages};
}

// Looks up all blocks that a request wants. A request wants about a hundred of ten thousand blocks,
// so each one's memory is prefetched while the others are looked up.
std::vector<const PoolBlock*> KvWorkerCore::find_wanted(const AcquireBlocks& ask) const {
  std::vector<const PoolBlock*> found(ask.wants.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    found[i] = pool_.find(ask.wants[i].name);
    if (found[i] != nullptr) pool_.prefetch(*found[i]);
  }
  for (const PoolBlock* block : found)
    if (block != nullptr) pool_.prefetch_neighbours(*block);
  return found;
}

// Returns the indices of absent wants.
std::vector<std::size_t> KvWorkerCore::decide_present(Instant now, Serial serial, Request& request,
                                                      const AcquireBlocks& ask, Effects& effects) {
  std::vector<std::size_t> absent;
  request.counts = ask.may_evict && !ask.read_only && !ask.retention.belongs;
  const std::vector<const PoolBlock*> found = find_wanted(ask);
  for (std::size_t i = 0; i < ask.wants.size(); ++i) {
    const BlockWant& want = ask.wants[i];
    const PoolBlock* block = found[i];
    const bool here = block && same_block(block->name, want.name);
    const bool ready = here && block->state == BlockState::ready;
    const std::size_t area = index_of(pool_.area_of(want.kind));
    if (request.counts) {
      ++(ready ? wanted_[area].hits : wanted_[area].misses);
      savings_.use(area, want, pool_.pages_for(want.tokens), ready, is_remote_home(ask, want));
      count_user(request, want);
    }
    if (!block) absent.push_back(i);  // a different block with a colliding name is rare, and stays
    if (!here || block->tokens != want.tokens || block->kind != want.kind) continue;
    if (ready && mutated(Mutant::recompute_held)) continue;
    if (ready) {
      use_present(*block, ask);
      request.holds[i] = read_hold(*block, request.remote(), effects);
    } else if (ask.budget_us > 0 && !ask.read_only && !is_slow_pull(now, want.name, request)) {
      wait_for(want.name, serial, i, request);
      effects.count(Metric::blocks_waited);
    }
  }
  return absent;
}

// Prefers pulling from another node to loading: the disk is slower.
void KvWorkerCore::decide_absent(Instant now, Serial serial, Request& request,
                                 const std::vector<std::size_t>& absent, Effects& effects) {
  std::vector<const PoolBlock*> loads;
  std::map<NodeId, std::vector<const PoolBlock*>> pulls;
  for (const std::size_t i : absent) {
    const BlockWant& want = request.ask.wants[i];
    if (pool_.find(want.name)) continue;  // wanted twice
    const bool patient = request.ask.budget_us > 0;
    const bool pulled = patient && may_pull(now, want, pulls.count(want.at) > 0 ? 0 : pulls.size() + 1);
    if (request.offered && !pulled) continue;
    const bool loaded = patient && !pulled && tier_.may_load(now, want);
    const PoolBlock* block = reserve(request, i, pulled, loaded, effects);
    if (!block) continue;
    if (pulled) pulls[want.at].push_back(block);
    if (loaded) loads.push_back(block);
    if (pulled || loaded) {
      wait_for(want.name, serial, i, request);
    } else {
      request.holds[i] = {Grant::write, false, false, block, block->generation, 0};
    }
  }
  if (!loads.empty()) load(loads, false, effects);
  for (const auto& [node, blocks] : pulls) ask_owner(now, request, node, blocks, effects);
}

// Returns null if no pages can be had: the request then computes the block for itself and keeps
// nothing.
const PoolBlock* KvWorkerCore::reserve(const Request& request, std::size_t index, bool pulled, bool loaded,
                                       Effects& effects) {
  const BlockWant& want = request.ask.wants[index];
  const AcquireBlocks& ask = request.ask;
  const PagePool::Want block_of{want.name,   want.kind,        want.owner,
                                want.tokens, pulled || loaded, pulled ? want.at : 0};
  const bool one_area = ask.retention.keep_hotter && ask.may_evict;
  const PoolBlock* block = request.offered ? reserve_offered(block_of, ask)
                           : one_area      ? reserve_anywhere(block_of, ask)
                                           : reserve_in_area(block_of, ask);
  if (!block) {
    effects.count(Metric::blocks_refused);
    if (want.kind == SegmentKind::user && !request.offered) refused_.push_back(want.name);
    return nullptr;
  }
  pending_blocks_[want.name] = {block->generation, {}};
  return block;
}

// If the area is full, a copy of another node's block stays marked as a copy, unless it belongs
// here. It is kept at its owner already, and must not displace blocks that are kept only here.
const PoolBlock* KvWorkerCore::reserve_in_area(PagePool::Want want, const AcquireBlocks& ask) {
  const bool must_evict = pool_.pages_available(pool_.area_of(want.kind)) < pool_.pages_for(want.tokens);
  if (must_evict && !ask.may_evict) return nullptr;
  if (!must_evict || ask.retention.belongs) want.copy_of = 0;
  return pool_.reserve(want, ask.retention.evict_first);
}

// An item block must be hotter than the blocks that it would evict. A user block need not be,
// because the router has weighed it already. A copy need not be either, because it counts for less
// from now on.
const PoolBlock* KvWorkerCore::reserve_anywhere(PagePool::Want want, const AcquireBlocks& ask) {
  if (ask.retention.belongs) want.copy_of = 0;
  if (want.kind != SegmentKind::user && want.copy_of == 0 && !is_used_more(want, ask)) return nullptr;
  return pool_.reserve_anywhere(want, copy_worth(ask));
}

// Only policies that decide by hotness (`keep_hotter`) turn the sketch on; others do not pay for
// it. Reads of other nodes count, too.
void KvWorkerCore::count_wants(const AcquireBlocks& ask) {
  if (ask.retention.keep_hotter && (!sketch_ || mutated(Mutant::forget_hotness)))
    sketch_.emplace(config_.pool.pages);
  if (!sketch_ || (!ask.may_evict && !ask.read_only)) return;
  for (const BlockWant& want : ask.wants) sketch_->touch(hash_of(want.name));
}

// Counts a router's report of uses by users of this home that other nodes served. Reads no more
// entries than routers send.
void KvWorkerCore::count_uses_elsewhere(const AcquireBlocks& ask) {
  const std::span<const BlockUse> uses(ask.retention.elsewhere);
  for (const BlockUse& use : uses.first(std::min(uses.size(), uses_elsewhere_max)))
    savings_.use_elsewhere(index_of(pool_.area_of(SegmentKind::user)), use, pool_.pages_for(use.tokens));
}

void KvWorkerCore::count_user(Request& request, const BlockWant& want) const {
  if (want.kind != SegmentKind::user) return;
  if (request.user == 0) request.user = AreaSavings::user_key(want.owner);
  request.user_tokens += want.tokens;
}

std::uint32_t KvWorkerCore::times_wanted(const BlockName& name) const {
  return sketch_ ? sketch_->count(hash_of(name)) : 0;
}

// Returns true if the new block is used more often, per token, than the blocks that it would evict.
// A user block counts for no more tokens than the new block needs, because the rest of its pages is
// left to other blocks. A user block that would be evicted has long been unused, so it counts as
// wanted once.
//
// If the new block is refused, the items compared are moved back in the order of eviction. So the
// next comparison considers other blocks.
bool KvWorkerCore::is_used_more(const PagePool::Want& want, const AcquireBlocks& ask) {
  const PagePool::EvictionPlan pages_available = pool_.plan_eviction(want.kind, want.tokens, copy_worth(ask));
  double theirs = 0;
  for (const PoolBlock* block : pages_available.displaced) {
    const bool is_user = block->kind == SegmentKind::user;
    const double uses = is_user ? 1 : sketch_->count(hash_of(block->name));
    theirs += (block->is_copy() ? copy_worth(ask) : 1) * uses *
              (is_user ? std::min(want.tokens, block->tokens) : block->tokens);
  }
  if (pages_available.displaced.empty() || sketch_->count(hash_of(want.name)) * want.tokens > theirs)
    return true;
  for (const PoolBlock* block : pages_available.displaced)
    if (block->kind != SegmentKind::user && !block->is_copy()) pool_.defer_eviction(*block);
  return false;
}

// A request for a block that belongs here makes a copy the node's own block.
void KvWorkerCore::use_present(const PoolBlock& block, const AcquireBlocks& ask) {
  if (ask.retention.belongs && block.is_copy()) pool_.keep(block);
}

// A reader on another node verifies what arrives there, whatever this grant says. A block is
// verified until its bytes were once found to be right where they lie now; after that a sample of
// reads is verified.
KvWorkerCore::Hold KvWorkerCore::read_hold(const PoolBlock& block, bool remote, Effects& effects) {
  pool_.pin(block);
  const bool first = !block.checked && !mutated(Mutant::skip_first_check);
  const bool check = !remote && (first || is_sampled());
  if (check) effects.count(Metric::blocks_checked);
  return {Grant::read, check, false, &block, block.generation, 0};
}

bool KvWorkerCore::is_sampled() {
  constexpr double all = 18446744073709551616.0;  // 2^64
  // Hashed, so that the sample does not follow the order of the wants.
  return config_.check_reads > 0 && static_cast<double>(spread(++samples_)) < config_.check_reads * all;
}

// A request waits for a block only once. Waiters that gave up are removed only when there are too
// many.
void KvWorkerCore::wait_for(const BlockName& name, Serial serial, std::size_t want, Request& request) {
  std::deque<Waiter>& waiters = pending_blocks_.at(name).waiters;
  // A second want of the same request would wait for itself.
  if (!waiters.empty() && waiters.back().request == serial) return;
  if (waiters.size() >= config_.requests_max)
    std::erase_if(waiters, [&](const Waiter& waiter) { return !waits(waiter); });
  waiters.push_back({serial, want});
  request.holds[want].waiting = true;
  ++request.undecided;
}

std::size_t KvWorkerCore::waiting_for_nobody() const {
  std::size_t waits = 0;
  for (const auto& [serial, request] : requests_)
    for (std::size_t i = 0; i < request.holds.size(); ++i)
      waits += request.holds[i].waiting && !pending_blocks_.contains(request.ask.wants[i].name);
  return waits;
}

bool KvWorkerCore::waits(const Waiter& waiter) const {
  const auto at = requests_.find(waiter.request);
  return at != requests_.end() && at->second.holds[waiter.want].waiting;
}

// A pull that has already lasted longer than the new request would wait is not worth waiting for.
bool KvWorkerCore::is_slow_pull(Instant now, const BlockName& name, const Request& request) const {
  const std::optional<Instant>& asked = pending_blocks_.at(name).pull_asked;
  return asked && now - *asked > request.wait_deadline - now;
}

void KvWorkerCore::answer(Serial serial, Effects& effects) {
  Request& request = requests_.at(serial);
  send_grants(request, effects);
  request.answered = true;
  const bool holds = std::any_of(request.holds.begin(), request.holds.end(), [](const Hold& hold) {
    return hold.grant != Grant::none || hold.early != 0;
  });
  if (!holds) take(serial);
}

// Called only for a waiter that still waits.
void KvWorkerCore::decide(Waiter waiter, Hold hold, Effects& effects) {
  Request& request = requests_.at(waiter.request);
  carry_in_flight_read(request.holds[waiter.want], hold);
  request.holds[waiter.want] = hold;
  if (--request.undecided == 0) return answer(waiter.request, effects);
  // The deadline may have passed while a block was in flight.
  if (request.announced) effects.set_timer(waiter.request, request.wait_deadline);
}

void KvWorkerCore::end_wait(Serial serial, Effects& effects) {
  Request& request = requests_.at(serial);
  for (Hold& hold : request.holds) hold.waiting = false;
  request.undecided = 0;
  answer(serial, effects);
}

// ---- release ----

void KvWorkerCore::on_release(Instant now, Address from, const ReleaseBlocks& release, Effects& effects) {
  const auto known = serials_.find(key_of(from, release.id));
  // An unknown id is a duplicate, or arrives after the lease ended.
  if (known != serials_.end()) end_request(now, known->second, release, effects);
}

KvWorkerCore::Request KvWorkerCore::take(Serial serial) {
  Request request = std::move(requests_.extract(serial).mapped());
  serials_.erase(key_of(request.from, request.id));
  remote_reads_ -= request.remote();
  return request;
}

// A block that the release does not name was read without a check, or was not written.
void KvWorkerCore::end_request(Instant now, Serial serial, const ReleaseBlocks& release, Effects& effects) {
  const Request request = take(serial);
  if (request.counts) savings_.served(request.user, request.user_tokens, now - request.received);
  for (const Hold& hold : request.holds)
    if (hold.grant == Grant::read) pool_.prefetch(*hold.block);
  // Outcomes by generation, which identifies one block.
  std::map<std::uint64_t, const BlockOutcome*> outcomes;
  for (const BlockOutcome& outcome : release.outcomes) outcomes[outcome.generation] = &outcome;
  for (std::size_t i = 0; i < request.holds.size(); ++i) {
    const Hold& hold = request.holds[i];
    if (hold.early != 0) end_in_flight_read(hold.early);
    if (hold.grant == Grant::none) continue;
    const auto at = outcomes.empty() ? outcomes.end() : outcomes.find(hold.generation);
    const BlockOutcome* outcome = at == outcomes.end() ? nullptr : at->second;
    if (outcome && hold.grant == Grant::read && !identical(outcome->name, hold.block->name))
      outcome = nullptr;
    if (hold.grant == Grant::read) end_read(request, hold, outcome, effects);
    if (hold.grant == Grant::write) end_write(request, i, outcome, effects);
  }
}

// A block that a remote reader found corrupt may have been damaged on its way. It stays, and is
// verified here.
void KvWorkerCore::end_read(const Request& request, const Hold& hold, const BlockOutcome* outcome,
                            Effects& effects) {
  const PoolBlock& block = *hold.block;
  if (outcome && outcome->outcome == Outcome::corrupt) {
    if (request.remote()) {
      count_corrupt(block.name, "node " + std::to_string(request.from.node), effects);
      scrub_.suspect(block.generation);
    } else if (!block.removed) {
      quarantine(block, "memory", effects);
    }
  } else if (outcome && outcome->outcome == Outcome::done && hold.check) {
    pool_.set_checked(block);
  }
  pool_.unpin(block);
}

// Removes a corrupt block from the pool and the tier; the next request for it computes it again.
void KvWorkerCore::quarantine(const PoolBlock& block, std::string where, Effects& effects) {
  const BlockName name = block.name;
  count_corrupt(name, std::move(where), effects);
  pool_.remove(name, block.generation);
  if (tier_.stored().find(name)) erase_stored({name}, effects);
}

void KvWorkerCore::count_corrupt(const BlockName& name, std::string where, Effects& effects) {
  ++blocks_corrupt_;
  effects.count(Metric::blocks_corrupt);
  effects.log(LogLevel::error, "block_corrupt", {{"block", to_hex(name)}, {"where", std::move(where)}});
}

void KvWorkerCore::end_write(const Request& request, std::size_t index, const BlockOutcome* outcome,
                             Effects& effects) {
  const BlockWant& want = request.ask.wants[index];
  const std::uint64_t generation = request.holds[index].generation;
  const bool written = outcome && outcome->outcome == Outcome::written && identical(outcome->name, want.name);
  if (written && pool_.commit(want.name, generation, outcome->checksum)) {
    finish_block(want.name, generation, effects);
    if (config_.store && want.kind != SegmentKind::user) tier_.want_save(want.name);
  } else if (pool_.abandon(want.name, generation)) {  // false if forgotten while being written
    fail_block(want.name, generation, effects);
  }
}

std::deque<KvWorkerCore::Waiter> KvWorkerCore::take_waiters(const BlockName& name, std::uint64_t generation) {
  const auto at = pending_blocks_.find(name);
  if (at == pending_blocks_.end() || at->second.generation != generation) return {};
  std::deque<Waiter> waiters = std::move(at->second.waiters);
  pending_blocks_.erase(at);
  return waiters;
}

void KvWorkerCore::finish_block(const BlockName& name, std::uint64_t generation, Effects& effects,
                                bool pulled) {
  const PoolBlock& block = *pool_.find(name);
  added_.push_back({block.name, block.kind, block.owner, block.tokens, block.generation});
  for (const Waiter& waiter : take_waiters(name, generation)) {
    if (!waits(waiter)) continue;
    Hold hold = read_hold(block, false, effects);
    hold.pulled = pulled;
    decide(waiter, hold, effects);
  }
}

// The earliest waiter becomes the writer, unless it is an offer. The waiters behind it now wait for
// it.
void KvWorkerCore::fail_block(const BlockName& name, std::uint64_t generation, Effects& effects) {
  std::deque<Waiter> waiters = take_waiters(name, generation);
  while (!waiters.empty()) {
    const Waiter first = waiters.front();
    waiters.pop_front();
    if (!waits(first)) continue;
    if (requests_.at(first.request).offered) {
      decide(first, {}, effects);
      continue;
    }
    const PoolBlock* block = reserve(requests_.at(first.request), first.want, false, false, effects);
    for (const Waiter& waiter : waiters)  // as in decide()
      if (waits(waiter) && requests_.at(waiter.request).announced)
        effects.set_timer(waiter.request, requests_.at(waiter.request).wait_deadline);
    if (block) pending_blocks_.at(name).waiters = std::move(waiters);
    decide(first, block ? Hold{Grant::write, false, false, block, block->generation, 0} : Hold{}, effects);
    if (block || mutated(Mutant::drop_waiters)) return;
  }
}

}  // namespace troupe::actors
