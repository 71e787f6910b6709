#include "actors/kv_worker/kv_worker_core.h"

#include <algorithm>

#include "kernels/check.h"
#include "runtime/block_name.h"

namespace troupe::actors {
namespace {

constexpr std::uint64_t report_timer = 1;  // store_timer (2) only wakes the core: see rest_store

BlockGrant read_grant(const PoolBlock& block) {
  return {Grant::read, block.generation, block.checksum, block.pages};
}
BlockGrant write_grant(const PoolBlock& block) { return {Grant::write, block.generation, 0, block.pages}; }

}  // namespace

KvWorkerCore::KvWorkerCore(KvWorkerConfig config)
    : config_(config),
      pool_(config.pool),
      stored_({.blocks_max = config.stored_blocks_max, .saves_waiting_max = config.saves_waiting_max}) {}

void KvWorkerCore::step(Instant now, const Event& event, Effects& effects) {
  if (const auto* received = std::get_if<Received>(&event)) {
    on_message(now, *received, effects);
  } else if (const auto* fired = std::get_if<TimerFired>(&event)) {
    on_timer(now, fired->timer, effects);
  } else if (const auto* done = std::get_if<Done>(&event)) {
    on_done(now, *done, effects);
  } else if (const auto* lost = std::get_if<PeerLost>(&event)) {
    lose(lost->node, effects);
  }
  save_more(now, effects);
  tell_changes(effects);
}

void KvWorkerCore::on_message(Instant now, const Received& received, Effects& effects) {
  const Message& message = received.message;
  if (const auto* ask = std::get_if<AcquireBlocks>(&message)) {
    on_acquire(now, received.from, *ask, effects);
  } else if (const auto* release = std::get_if<ReleaseBlocks>(&message)) {
    on_release(received.from, *release, effects);
  } else if (const auto* request = std::get_if<StatusRequest>(&message)) {
    effects.send(received.from, status(now, request->id));
  } else if (std::holds_alternative<Forget>(message) && received.from == cache_meta()) {
    on_forget(std::get<Forget>(message), effects);
  } else if (std::holds_alternative<SetSplit>(message) && received.from == allocator()) {
    on_split(std::get<SetSplit>(message), effects);
  } else {
    effects.count(Metric::protocol_errors);
  }
}

void KvWorkerCore::on_timer(Instant now, std::uint64_t timer, Effects& effects) {
  if (timer == start_timer) {
    if (config_.store) {
      effects.start(list_job_ = next_serial_++, ListStored{});
    } else {
      ready_ = true;
    }
  }
  if (timer == start_timer || timer == report_timer) return on_report_timer(now, effects);
  const auto at = requests_.find(timer);
  if (at == requests_.end()) return;
  if (now >= at->second.lease_ends) {
    effects.log(
        LogLevel::warning, "lease_ended",
        {{"request", std::to_string(at->second.ask.id)}, {"node", std::to_string(at->second.from.node)}});
    end_request(timer, {}, effects);
  } else if (now >= at->second.patience_ends && !at->second.answered) {
    end_patience(timer, effects);
  }
}

// ---- acquire ----

void KvWorkerCore::on_acquire(Instant now, Address from, const AcquireBlocks& ask, Effects& effects) {
  if (from.role != Role::inference_worker) return effects.count(Metric::protocol_errors);
  const auto known = serials_.find({from, ask.id});
  if (known != serials_.end()) {
    const Request& request = requests_.at(known->second);
    if (request.answered) effects.send(from, BlocksAcquired{ask.id, request.grants});
    return;
  }
  if (requests_.size() >= config_.requests_max) {
    effects.count(Metric::blocks_refused, static_cast<double>(ask.wants.size()));
    return effects.send(from, BlocksAcquired{ask.id, std::vector<BlockGrant>(ask.wants.size())});
  }
  const Serial serial = next_serial_++;
  const std::int64_t patience = std::clamp<std::int64_t>(ask.budget_us, 0, config_.lease.us);
  Request& request = requests_[serial];
  request = {from, ask, std::vector<BlockGrant>(ask.wants.size()), std::vector<bool>(ask.wants.size())};
  request.patience_ends = now + Duration{patience};
  request.lease_ends = request.patience_ends + config_.lease;
  serials_[{from, ask.id}] = serial;

  decide_present(serial, request, effects);  // first, so that no reservation evicts what is wanted too
  decide_absent(now, serial, request, effects);
  effects.set_timer(serial, request.lease_ends);
  if (request.undecided == 0) return answer(serial, effects);
  effects.set_timer(serial, request.patience_ends);
}

void KvWorkerCore::decide_present(Serial serial, Request& request, Effects& effects) {
  std::set<BlockName> seen;
  for (std::size_t i = 0; i < request.ask.wants.size(); ++i) {
    const BlockWant& want = request.ask.wants[i];
    if (!seen.insert(want.name).second) continue;  // a second wish for one block would wait for itself
    const PoolBlock* block = pool_.find(want.name);
    if (!block || block->tokens != want.tokens || block->kind != want.kind) continue;
    if (block->state == BlockState::ready) {
      request.grants[i] = read_grant(*pool_.pin(want.name));
    } else if (request.ask.budget_us > 0) {
      making_.at(want.name).waiters.push_back({serial, i});
      request.waiting[i] = true;
      ++request.undecided;
      effects.count(Metric::blocks_waited);
    }
  }
}

void KvWorkerCore::decide_absent(Instant now, Serial serial, Request& request, Effects& effects) {
  std::vector<const PoolBlock*> loads;
  for (std::size_t i = 0; i < request.ask.wants.size(); ++i) {
    const BlockWant& want = request.ask.wants[i];
    if (pool_.find(want.name)) continue;
    const StoredBlock* stored = stored_.loads_rest(now) ? nullptr : stored_.find(want.name);
    const bool loading = stored && stored->tokens == want.tokens && request.ask.budget_us > 0;
    const PoolBlock* block = reserve(request, i, loading, effects);
    if (!block) continue;
    if (!loading) {
      request.grants[i] = write_grant(*block);
      continue;
    }
    making_.at(want.name).waiters.push_back({serial, i});
    request.waiting[i] = true;
    ++request.undecided;
    loads.push_back(block);
  }
  if (!loads.empty()) load(loads, effects);
}

// Null if there is no room: the request computes the block for itself and keeps nothing.
const PoolBlock* KvWorkerCore::reserve(const Request& request, std::size_t index, bool loading,
                                       Effects& effects) {
  const BlockWant& want = request.ask.wants[index];
  const bool must_evict = pool_.room(area_of(want.kind)) < pool_.pages_for(want.tokens);
  const PoolBlock* block = nullptr;
  if (request.ask.may_evict || !must_evict)
    block = pool_.reserve({want.name, want.kind, want.owner, want.tokens, loading}, request.ask.evict_first);
  if (!block) {
    effects.count(Metric::blocks_refused);
    return nullptr;
  }
  making_[want.name] = {block->generation, {}};
  return block;
}

void KvWorkerCore::answer(Serial serial, Effects& effects) {
  Request& request = requests_.at(serial);
  effects.send(request.from, BlocksAcquired{request.ask.id, request.grants});
  request.answered = true;
  const bool holds = std::any_of(request.grants.begin(), request.grants.end(),
                                 [](const BlockGrant& grant) { return grant.grant != Grant::none; });
  if (holds) return;
  serials_.erase({request.from, request.ask.id});
  requests_.erase(serial);
}

bool KvWorkerCore::waits(const Waiter& waiter) const {
  const auto at = requests_.find(waiter.request);
  return at != requests_.end() && at->second.waiting[waiter.want];
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

// What the release does not name was not used: nothing was read, nothing was written.
void KvWorkerCore::end_request(Serial serial, const ReleaseBlocks& release, Effects& effects) {
  const Request request = std::move(requests_.at(serial));
  serials_.erase({request.from, request.ask.id});
  requests_.erase(serial);

  std::map<std::pair<BlockName, std::uint64_t>, const BlockOutcome*> outcomes;
  for (const BlockOutcome& outcome : release.outcomes)
    outcomes[{outcome.name, outcome.generation}] = &outcome;
  for (std::size_t i = 0; i < request.grants.size(); ++i) {
    const BlockGrant& grant = request.grants[i];
    const BlockWant& want = request.ask.wants[i];
    const auto at = outcomes.find({want.name, grant.generation});
    const BlockOutcome* outcome = at == outcomes.end() ? nullptr : at->second;
    if (grant.grant == Grant::read) end_read(want.name, grant, outcome, effects);
    if (grant.grant == Grant::write) end_write(want, grant, outcome, effects);
  }
}

void KvWorkerCore::end_read(const BlockName& name, const BlockGrant& grant, const BlockOutcome* outcome,
                            Effects& effects) {
  if (outcome && outcome->outcome == Outcome::corrupt && pool_.remove(name, grant.generation)) {
    effects.count(Metric::blocks_corrupt);
    effects.log(LogLevel::error, "block_corrupt", {{"block", to_hex(name)}, {"where", "memory"}});
    if (stored_.find(name)) erase_stored({name}, effects);
  }
  TROUPE_CHECK(pool_.unpin(name, grant.generation), "a read grant is a pin");
}

void KvWorkerCore::end_write(const BlockWant& want, const BlockGrant& grant, const BlockOutcome* outcome,
                             Effects& effects) {
  const bool written = outcome && outcome->outcome == Outcome::written;
  if (written && pool_.commit(want.name, grant.generation, outcome->checksum)) {
    made(want.name, grant.generation, effects);
    if (config_.store && want.kind != SegmentKind::user) stored_.want_save(want.name);
  } else {
    pool_.abandon(want.name, grant.generation);  // without effect if it was forgotten while being written
    not_made(want.name, grant.generation, effects);
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
  announce(*pool_.find(name), effects);
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
    const PoolBlock* block = reserve(requests_.at(first.request), first.want, false, effects);
    if (block) making_.at(name).waiters = std::move(waiters);
    decide(first, block ? write_grant(*block) : BlockGrant{}, effects);
    if (block) return;
  }
}

// ---- owners, areas, reports ----

void KvWorkerCore::on_forget(const Forget& forget, Effects& effects) {
  for (const BlockName& name : pool_.names_of(forget.kind, forget.owner)) {
    const PoolBlock* block = pool_.find(name);
    if (!block) continue;  // evicted for the heir of one before it
    const std::uint64_t generation = block->generation;
    pool_.remove(name);
    not_made(name, generation, effects);  // who waits for it wants this very content, whoever owns it now
  }
  const std::vector<BlockName> stored = stored_.names_of(forget.kind, forget.owner);
  if (!stored.empty()) erase_stored(stored, effects);
}

void KvWorkerCore::lose(NodeId node, Effects& effects) {
  std::vector<Serial> lost;
  for (const auto& [serial, request] : requests_)
    if (request.from.node == node) lost.push_back(serial);
  for (const Serial serial : lost)
    if (requests_.count(serial) > 0)  // one that waits only may have ended with the one before it
      end_request(serial, {}, effects);
}

void KvWorkerCore::on_split(const SetSplit& split, Effects& effects) {
  const std::uint64_t pages = pool_.pages();
  if (split.item_pages > pages || split.user_pages > pages - split.item_pages)
    return effects.count(Metric::protocol_errors);
  if (split.epoch > split_epoch_) {
    split_epoch_ = split.epoch;
    pool_.set_split(static_cast<std::uint32_t>(split.item_pages),
                    static_cast<std::uint32_t>(split.user_pages));
  }
  effects.send(allocator(), report());
}

void KvWorkerCore::on_report_timer(Instant now, Effects& effects) {
  effects.send(allocator(), report());
  effects.send(cache_meta(), told_area_ = user_area());
  announce_again(effects);
  effects.set_timer(report_timer, now + config_.report);
}

void KvWorkerCore::announce(const PoolBlock& block, Effects& effects) const {
  effects.send(cache_meta(), BlockAdded{block.name, block.kind, block.owner, block.tokens, block.generation});
}

// The inventory, a part at a time: what cache-meta has lost or never heard it learns here (promise 8).
void KvWorkerCore::announce_again(Effects& effects) {
  if (inventory_.empty())
    for (const PoolBlock* block : pool_.ready_blocks()) inventory_.push_back(block->name);
  for (std::size_t i = 0; i < config_.announced_per_report && !inventory_.empty(); ++i) {
    const PoolBlock* block = pool_.find(inventory_.back());
    inventory_.pop_back();
    if (block && block->state == BlockState::ready) announce(*block, effects);
  }
}

void KvWorkerCore::tell_changes(Effects& effects) {
  for (const BlockGone& gone : pool_.take_gone()) {
    effects.send(cache_meta(), BlockRemoved{gone.name, gone.generation});
    const bool is_user = gone.kind == SegmentKind::user;
    if (gone.evicted) effects.count(is_user ? Metric::blocks_evicted_user : Metric::blocks_evicted_item);
  }
  if (const UserArea area = user_area(); area != told_area_) effects.send(cache_meta(), told_area_ = area);
  if (const PoolReport pages = report(); pages != told_pages_) {
    told_pages_ = pages;
    effects.count(Metric::item_pages, static_cast<double>(pages.item_pages));
    effects.count(Metric::item_pages_used, static_cast<double>(pages.item_pages_used));
    effects.count(Metric::user_pages, static_cast<double>(pages.user_pages));
    effects.count(Metric::user_pages_used, static_cast<double>(pages.user_pages_used));
  }
}

PoolReport KvWorkerCore::report() const {
  return {split_epoch_, pool_.used(PoolArea::item), pool_.used(PoolArea::user), pool_.cap(PoolArea::item),
          pool_.cap(PoolArea::user)};
}

UserArea KvWorkerCore::user_area() const {
  const std::uint64_t page_tokens = pool_.page_tokens();
  return {pool_.room(PoolArea::user) * page_tokens, pool_.cap(PoolArea::user) * page_tokens};
}

StatusReply KvWorkerCore::status(Instant now, RequestId id) const {
  StatusReply reply{id, config_.node, Role::kv_worker, ready_, {}};
  const auto field = [&](const char* name, std::uint64_t value) {
    reply.fields.push_back({name, std::to_string(value)});
  };
  field("item_pages", pool_.cap(PoolArea::item));
  field("item_pages_used", pool_.used(PoolArea::item));
  field("user_pages", pool_.cap(PoolArea::user));
  field("user_pages_used", pool_.used(PoolArea::user));
  field("page_tokens", pool_.page_tokens());
  field("requests_holding", requests_.size());
  field("blocks_in_the_making", making_.size());
  if (!config_.store) {
    reply.fields.push_back({"store", "off"});
    return reply;
  }
  const bool rests = stored_.loads_rest(now) || stored_.saves_rest(now);
  reply.fields.push_back({"store", rests ? "resting after a failure" : "on"});
  field("blocks_stored", stored_.blocks());
  field("saves_waiting", stored_.saves_waiting() + saves_.size());
  return reply;
}

}  // namespace troupe::actors
