// The KV-cache worker's grants: what a request gets of the blocks it wants, whom it waits for, and what
// becomes of them when it lets go.
#include <algorithm>
#include <cstring>

#include "actors/kv_worker/kv_worker_core.h"
#include "kernels/base/check.h"
#include "runtime/actor/block_name.h"

namespace troupe::actors {
namespace {

constexpr std::int64_t patience_us_max = 3'600'000'000;

std::uint64_t sketch_key(const BlockName& name) {  // a name is a hash
  std::uint64_t key;
  std::memcpy(&key, name.bytes.data(), sizeof key);
  return key;
}

BlockGrant read_grant(const PoolBlock& block) {
  return {Grant::read, block.generation, block.checksum, block.pages};
}
BlockGrant write_grant(const PoolBlock& block) { return {Grant::write, block.generation, 0, block.pages}; }

}  // namespace

// Null if the block is absent; another block that is found by a colliding name counts as that.
const PoolBlock* KvWorkerCore::find(const BlockName& name) const {
  const PoolBlock* block = pool_.find(name);
  return block && same_block(block->name, name) ? block : nullptr;
}

// ---- acquire ----

void KvWorkerCore::on_acquire(Instant now, Address from, const AcquireBlocks& ask, Effects& effects) {
  const bool remote = from.role == Role::kv_worker && from.node != config_.node && ask.read_only;
  if (!remote && from != inference_worker()) return effects.count(Metric::protocol_errors);
  const auto known = serials_.find({from, ask.id});
  if (known != serials_.end()) {
    const Request& request = requests_.at(known->second);
    if (request.answered) send_grants(request, effects);
    return;
  }
  if (requests_.size() >= config_.requests_max || (remote && remote_reads_ >= config_.remote_reads_max))
    return refuse(from, ask, effects);
  const Serial serial = next_serial_++;
  Request& request = requests_[serial];
  request = {from, ask, std::vector<BlockGrant>(ask.wants.size()), std::vector<bool>(ask.wants.size())};
  request.ask.copy_worth =
      ask.copy_worth >= 0 ? std::min(ask.copy_worth, 1.0) : 0;  // what is no number is none
  request.received = now;
  request.patience_ends = now + Duration{std::clamp<std::int64_t>(ask.budget_us, 0, patience_us_max)};
  request.lease_ends = now + Duration{config_.read_lease.us + config_.read_lease.us / 10};
  serials_[{from, ask.id}] = serial;
  remote_reads_ += remote;

  count_wants(ask);
  decide_present(now, serial, request, effects);  // first, so that no reservation evicts what is wanted too
  if (!ask.read_only) decide_absent(now, serial, request, effects);
  if (remote) effects.set_timer(serial, request.lease_ends);
  if (request.undecided == 0) return answer(serial, effects);
  effects.set_timer(serial, request.patience_ends);
}

void KvWorkerCore::refuse(Address from, const AcquireBlocks& ask, Effects& effects) const {
  effects.count(Metric::blocks_refused, static_cast<double>(ask.wants.size()));
  send_grants({from, ask, std::vector<BlockGrant>(ask.wants.size()), {}}, effects);
}

void KvWorkerCore::send_grants(const Request& request, Effects& effects) const {
  const std::int64_t lease_us = request.remote() ? config_.read_lease.us : 0;
  effects.send(request.from, BlocksAcquired{request.ask.id, config_.incarnation, lease_us, request.grants,
                                            request.pulling.us});
}

void KvWorkerCore::decide_present(Instant now, Serial serial, Request& request, Effects& effects) {
  std::set<BlockName> seen;
  for (std::size_t i = 0; i < request.ask.wants.size(); ++i) {
    const BlockWant& want = request.ask.wants[i];
    if (!seen.insert(want.name).second) continue;  // a second wish for one block would wait for itself
    const PoolBlock* block = find(want.name);
    if (!block || block->tokens != want.tokens || block->kind != want.kind) continue;
    if (block->state == BlockState::ready) {
      request.grants[i] = read_grant(*pool_.pin(want.name));
    } else if (request.ask.budget_us > 0 && !request.ask.read_only &&
               !is_slow_pull(now, want.name, request)) {
      wait_for(want.name, serial, i, request);
      effects.count(Metric::blocks_waited);
    }
  }
}

// What another node has is pulled rather than loaded: a disk is slower.
void KvWorkerCore::decide_absent(Instant now, Serial serial, Request& request, Effects& effects) {
  std::vector<const PoolBlock*> loads;
  std::map<NodeId, std::vector<const PoolBlock*>> pulls;
  for (std::size_t i = 0; i < request.ask.wants.size(); ++i) {
    const BlockWant& want = request.ask.wants[i];
    if (pool_.find(want.name)) continue;  // this very block or, rarely, another one that has its place
    const bool patient = request.ask.budget_us > 0;
    const bool pulled = patient && may_pull(now, want, pulls.count(want.at) > 0 ? 0 : pulls.size() + 1);
    const bool loaded = patient && !pulled && is_stored(now, want);
    const PoolBlock* block = reserve(request, i, pulled, loaded, effects);
    if (!block) continue;
    if (pulled) pulls[want.at].push_back(block);
    if (loaded) loads.push_back(block);
    if (pulled || loaded) {
      wait_for(want.name, serial, i, request);
    } else {
      request.grants[i] = write_grant(*block);
    }
  }
  if (!loads.empty()) load(loads, effects);
  for (const auto& [node, blocks] : pulls) ask_owner(now, request, node, blocks, effects);
}

// Null if there is no room: the request computes the block for itself and keeps nothing.
const PoolBlock* KvWorkerCore::reserve(const Request& request, std::size_t index, bool pulled, bool loaded,
                                       Effects& effects) {
  const BlockWant& want = request.ask.wants[index];
  const AcquireBlocks& ask = request.ask;
  const PagePool::Want block_of{want.name, want.kind, want.owner, want.tokens, pulled || loaded};
  const bool one_area = ask.keep_hotter && ask.may_evict;
  const PoolBlock* block =
      one_area ? reserve_anywhere(block_of, ask, pulled) : reserve_in_area(block_of, ask, pulled);
  if (!block) {
    effects.count(Metric::blocks_refused);
    return nullptr;
  }
  making_[want.name] = {block->generation, {}};
  return block;
}

// What another node has only passes through a full area, unless it belongs here too: it is kept there
// already, and may not wear away what is kept here.
const PoolBlock* KvWorkerCore::reserve_in_area(PagePool::Want want, const AcquireBlocks& ask, bool pulled) {
  const bool must_evict = pool_.room(area_of(want.kind)) < pool_.pages_for(want.tokens);
  if (must_evict && !ask.may_evict) return nullptr;
  want.copy = pulled && must_evict && !ask.belongs;
  return pool_.reserve(want, ask.evict_first);
}

// An item's block has to be hotter than what would go for it. A user's need not, since whoever sent the plan
// weighed it; nor a copy, which is worth less itself from now on.
const PoolBlock* KvWorkerCore::reserve_anywhere(PagePool::Want want, const AcquireBlocks& ask, bool pulled) {
  want.copy = pulled && !ask.belongs;
  if (want.kind != SegmentKind::user && !want.copy && !is_hotter(want, ask)) return nullptr;
  return pool_.reserve_anywhere(want, ask.copy_worth);
}

// Those who decide by hotness make it count; the others need not pay for it. What other nodes read here is
// used, too.
void KvWorkerCore::count_wants(const AcquireBlocks& ask) {
  if (ask.keep_hotter && !sketch_) sketch_.emplace(config_.pool.pages);
  if (!sketch_ || (!ask.may_evict && !ask.read_only)) return;
  for (const BlockWant& want : ask.wants) sketch_->touch(sketch_key(want.name));
}

// Than what would go, token by token; of a user only as far as the block needs his room, for the rest of it
// goes to others. A user who would go is away for longer than all items there are worth: of him is expected
// what is of an item that was wanted once. What may stay is not asked about again at once: those behind it in
// the order of use come first.
bool KvWorkerCore::is_hotter(const PagePool::Want& want, const AcquireBlocks& ask) {
  const PagePool::Room room = pool_.room_anywhere(want.tokens, ask.copy_worth);
  double theirs = 0;
  for (const PoolBlock* block : room.displaced) {
    const bool is_user = block->kind == SegmentKind::user;
    const double uses = is_user ? 1 : sketch_->count(sketch_key(block->name));
    theirs += (block->copy ? ask.copy_worth : 1) * uses *
              (is_user ? std::min(want.tokens, block->tokens) : block->tokens);
  }
  if (room.displaced.empty() || sketch_->count(sketch_key(want.name)) * double{want.tokens} > theirs)
    return true;
  for (const PoolBlock* block : room.displaced)
    if (block->kind != SegmentKind::user && !block->copy) pool_.pass_over(BlockName(block->name));
  return false;
}

// A request waits for a block once. Those that gave up are swept only when there are too many of them.
void KvWorkerCore::wait_for(const BlockName& name, Serial serial, std::size_t want, Request& request) {
  std::deque<Waiter>& waiters = making_.at(name).waiters;
  if (waiters.size() >= config_.requests_max)
    std::erase_if(waiters, [&](const Waiter& waiter) { return !waits(waiter); });
  waiters.push_back({serial, want});
  request.waiting[want] = true;
  ++request.undecided;
}

bool KvWorkerCore::waits(const Waiter& waiter) const {
  const auto at = requests_.find(waiter.request);
  return at != requests_.end() && at->second.waiting[waiter.want];
}

// A pull that has lasted for longer than the newcomer would wait is not worth waiting for.
bool KvWorkerCore::is_slow_pull(Instant now, const BlockName& name, const Request& request) const {
  const std::optional<Instant>& asked = making_.at(name).pull_asked;
  return asked && now - *asked > request.patience_ends - now;
}

void KvWorkerCore::answer(Serial serial, Effects& effects) {
  Request& request = requests_.at(serial);
  send_grants(request, effects);
  request.answered = true;
  const bool holds = std::any_of(request.grants.begin(), request.grants.end(),
                                 [](const BlockGrant& grant) { return grant.grant != Grant::none; });
  if (!holds) take(serial);
}

// Only for one that still waits.
void KvWorkerCore::decide(Waiter waiter, BlockGrant grant, Effects& effects) {
  Request& request = requests_.at(waiter.request);
  request.grants[waiter.want] = std::move(grant);
  request.waiting[waiter.want] = false;
  if (--request.undecided == 0) answer(waiter.request, effects);
}

void KvWorkerCore::end_patience(Serial serial, Effects& effects) {
  Request& request = requests_.at(serial);
  request.waiting.assign(request.waiting.size(), false);
  request.undecided = 0;
  answer(serial, effects);
}

// ---- release ----

void KvWorkerCore::on_release(Address from, const ReleaseBlocks& release, Effects& effects) {
  const auto known = serials_.find({from, release.id});
  if (known != serials_.end())
    end_request(known->second, release, effects);  // else: doubled, or after the lease
}

KvWorkerCore::Request KvWorkerCore::take(Serial serial) {
  Request request = std::move(requests_.extract(serial).mapped());
  serials_.erase({request.from, request.ask.id});
  remote_reads_ -= request.remote();
  return request;
}

// What the release does not name was not used: nothing was read, nothing was written.
void KvWorkerCore::end_request(Serial serial, const ReleaseBlocks& release, Effects& effects) {
  const Request request = take(serial);
  std::map<std::uint64_t, const BlockOutcome*> outcomes;  // by generation, which is one block's alone
  for (const BlockOutcome& outcome : release.outcomes) outcomes[outcome.generation] = &outcome;
  for (std::size_t i = 0; i < request.grants.size(); ++i) {
    const BlockGrant& grant = request.grants[i];
    const auto at = outcomes.find(grant.generation);
    const bool named = at != outcomes.end() && identical(at->second->name, request.ask.wants[i].name);
    const BlockOutcome* outcome = named ? at->second : nullptr;
    if (grant.grant == Grant::read) end_read(request, i, outcome, effects);
    if (grant.grant == Grant::write) end_write(request, i, outcome, effects);
  }
}

// A block that a reader elsewhere found to be corrupt may have been damaged on its way: it stays, and is
// checked again by whoever reads it here.
void KvWorkerCore::end_read(const Request& request, std::size_t want, const BlockOutcome* outcome,
                            Effects& effects) {
  const BlockName& name = request.ask.wants[want].name;
  const std::uint64_t generation = request.grants[want].generation;
  const bool corrupt = outcome && outcome->outcome == Outcome::corrupt;
  if (corrupt && (request.remote() || pool_.remove(name, generation))) {
    effects.count(Metric::blocks_corrupt);
    effects.log(LogLevel::error, "block_corrupt",
                {{"block", to_hex(name)},
                 {"where", request.remote() ? "node " + std::to_string(request.from.node) : "memory"}});
    if (!request.remote() && stored_.find(name)) erase_stored({name}, effects);
  }
  TROUPE_CHECK(pool_.unpin(name, generation), "a read grant is a pin");
}

void KvWorkerCore::end_write(const Request& request, std::size_t index, const BlockOutcome* outcome,
                             Effects& effects) {
  const BlockWant& want = request.ask.wants[index];
  const std::uint64_t generation = request.grants[index].generation;
  const bool written = outcome && outcome->outcome == Outcome::written;
  if (written && pool_.commit(want.name, generation, outcome->checksum)) {
    made(want.name, generation, effects);
    if (config_.store && want.kind != SegmentKind::user) stored_.want_save(want.name);
  } else if (pool_.abandon(want.name, generation)) {  // else it was forgotten while being written
    not_made(want.name, generation, effects);
  }
}

std::deque<KvWorkerCore::Waiter> KvWorkerCore::stop_making(const BlockName& name, std::uint64_t generation) {
  const auto at = making_.find(name);
  if (at == making_.end() || at->second.generation != generation) return {};
  std::deque<Waiter> waiters = std::move(at->second.waiters);
  making_.erase(at);
  return waiters;
}

void KvWorkerCore::made(const BlockName& name, std::uint64_t generation, Effects& effects) {
  const PoolBlock& block = *pool_.find(name);
  added_.push_back({block.name, block.kind, block.owner, block.tokens, block.generation});
  for (const Waiter& waiter : stop_making(name, generation))
    if (waits(waiter)) decide(waiter, read_grant(*pool_.pin(name)), effects);
}

// The earliest who waits becomes the writer; those behind it go on waiting, now for it.
void KvWorkerCore::not_made(const BlockName& name, std::uint64_t generation, Effects& effects) {
  std::deque<Waiter> waiters = stop_making(name, generation);
  while (!waiters.empty()) {
    const Waiter first = waiters.front();
    waiters.pop_front();
    if (!waits(first)) continue;
    const PoolBlock* block = reserve(requests_.at(first.request), first.want, false, false, effects);
    if (block) making_.at(name).waiters = std::move(waiters);
    decide(first, block ? write_grant(*block) : BlockGrant{}, effects);
    if (block) return;
  }
}

}  // namespace troupe::actors
