// Pulls blocks from other nodes. A wanted block that is absent here and held elsewhere is reserved
// here. The owner is asked to pin it, and the port copies it. A block that arrived whole before the
// owner's lease ended is committed. If any step fails, the block is abandoned, and the first request
// that waits for it becomes its writer.
#include <algorithm>

#include "actors/kv_worker/kv_worker_core.h"
#include "kernels/base/check.h"
#include "runtime/actor/block_name.h"
#include "runtime/actor/mutants.h"

namespace troupe::actors {

bool KvWorkerCore::may_pull(Instant now, const BlockWant& want, std::size_t pulls_more) const {
  if (!config_.pulls || want.at == 0 || want.at == config_.node) return false;
  return pulls_.may_ask(now, want.at, pulls_more);
}

// The owner gets half of the request's wait time, so that a silent owner leaves time to compute.
void KvWorkerCore::ask_owner(Instant now, const Request& request, NodeId node,
                             const std::vector<const PoolBlock*>& blocks, Effects& effects) {
  const Serial serial = next_serial_++;
  Pull& pull = pulls_.ask(serial, {});
  pull.node = node;
  pull.asked = now;
  pull.late_from = request.wait_deadline;
  pull.background = !request.offered && (request.ask.retention.belongs || !request.ask.may_evict);
  pull.offered = request.offered;
  pull.wait_deadline = now + Duration{(request.wait_deadline - now).us / 2};
  AcquireBlocks ask{serial, (pull.wait_deadline - now).us};
  ask.may_evict = false;
  ask.read_only = true;
  ask.trace = pull.trace = request.ask.trace;
  for (const PoolBlock* block : blocks) {
    ask.wants.push_back({block->name, block->kind, block->owner, block->tokens});
    pull.blocks.push_back({block->name, block->tokens, block->generation, {}});
    pending_blocks_.at(block->name).pull_asked = now;
  }
  effects.send({node, Role::kv_worker}, std::move(ask));
  effects.set_timer(serial, pull.wait_deadline);
}

void KvWorkerCore::on_acquired(Instant now, Address from, const BlocksAcquired& acquired, Effects& effects) {
  if (from.role != Role::kv_worker || from.node == config_.node)
    return effects.count(Metric::protocol_errors);
  if (migration_.on_answer(now, from, acquired)) return effects.send(from, ReleaseBlocks{acquired.id, {}});
  Pull* const found = pulls_.find(acquired.id);
  if (!found || found->node != from.node)
    return effects.send(from, ReleaseBlocks{acquired.id, {}});  // too late: release the pins
  Pull& pull = *found;
  if (pull.stage != Pull::Stage::asked) return;  // duplicate
  pull.stage = Pull::Stage::granted;
  pull.incarnation = acquired.incarnation;
  const std::int64_t lease_us = std::clamp<std::int64_t>(acquired.lease_us, 0, config_.read_lease.us);
  pull.lease_ends = pull.asked + Duration{lease_us};
  if (now >= pull.lease_ends) pulls_.back_off(now, pull.node);
  keep_granted(pull, acquired, effects);
  run_pulls(now, effects);
}

// Keeps only blocks that the owner has as wanted here, in as many pages.
void KvWorkerCore::keep_granted(Pull& pull, const BlocksAcquired& acquired, Effects& effects) {
  const bool answers = acquired.grants.size() == pull.blocks.size();
  if (!answers) effects.count(Metric::protocol_errors);
  std::vector<PullEntry> granted;
  for (std::size_t i = 0; i < pull.blocks.size(); ++i) {
    PullEntry& in_flight = pull.blocks[i];
    if (answers) in_flight.there = acquired.grants[i];
    if (in_flight.there.grant == Grant::read &&
        in_flight.there.pages.size() == pool_.pages_for(in_flight.tokens)) {
      granted.push_back(std::move(in_flight));
    } else {
      end_pull_entry(in_flight, false, effects);
    }
  }
  pull.blocks = std::move(granted);
}

void KvWorkerCore::run_pulls(Instant now, Effects& effects) {
  for (auto next = pulls_.next_to_run(0); next; next = pulls_.next_to_run(*next))
    run_pull(now, *next, effects);
}

void KvWorkerCore::run_pull(Instant now, Serial serial, Effects& effects) {
  Pull& pull = *pulls_.find(serial);
  keep_awaited(pull, effects);
  if (pull.blocks.empty() || now >= pull.lease_ends) return give_up(now, serial, effects);
  pull.stage = Pull::Stage::running;
  PullBlocks work{pull.node, pull.incarnation, (pull.lease_ends - now).us, {}};
  for (const PullEntry& in_flight : pull.blocks)
    work.blocks.push_back({in_flight.name, in_flight.there.generation, in_flight.there.checksum,
                           in_flight.tokens, in_flight.there.pages, pool_.find(in_flight.name)->pages,
                           in_flight.generation});
  if (has_in_flight_reader(pull)) work.parts = config_.pull_parts;
  const bool in_parts = work.parts > 1;
  if (mutated(Mutant::pull_twice)) effects.start(next_serial_++, work);
  effects.start(serial, std::move(work));
  for (const PullEntry& in_flight : pull.blocks)
    if (in_parts) pending_blocks_.at(in_flight.name).in_flight = in_flight.there.checksum;
  for (const PullEntry& in_flight : pull.blocks)
    for (const Waiter& waiter : pending_blocks_.at(in_flight.name).waiters)
      if (in_parts && waits(waiter)) announce_in_flight(waiter.request, effects);
}

// Drops blocks for which no request waits any more, or which were forgotten meanwhile: they are not
// worth a transfer.
void KvWorkerCore::keep_awaited(Pull& pull, Effects& effects) {
  std::vector<PullEntry> awaited;
  for (PullEntry& in_flight : pull.blocks) {
    const auto at = pending_blocks_.find(in_flight.name);
    const bool is_awaited = at != pending_blocks_.end() && at->second.generation == in_flight.generation &&
                            std::any_of(at->second.waiters.begin(), at->second.waiters.end(),
                                        [&](const Waiter& waiter) { return waits(waiter); });
    if (is_awaited) {
      awaited.push_back(std::move(in_flight));
    } else {
      end_pull_entry(in_flight, false, effects);
    }
  }
  pull.blocks = std::move(awaited);
}

// Bytes that arrived after the lease are not trusted. They say nothing about the owner's copy
// either.
void KvWorkerCore::on_pulled(Instant now, Serial serial, const Pull& pull, const JobResult& result,
                             Effects& effects) {
  const bool in_time = now < pull.lease_ends || mutated(Mutant::ignore_read_lease);
  const auto* pulled = std::get_if<PullResult>(&result);
  TROUPE_CHECK(!pulled || pulled->ok.size() == pull.blocks.size(), "the port answers for each block");
  if (const auto* refusal = std::get_if<Refusal>(&result)) {
    std::vector<LogField> fields{{"node", pull.node}, {"why", refusal->what}};
    if (pull.trace.is_there()) fields.push_back({"trace_id", trace_id(pull.trace)});
    effects.log(LogLevel::warning, "pull_failed", std::move(fields));
  }
  const bool brought =
      pulled && std::any_of(pulled->ok.begin(), pulled->ok.end(), [](auto ok) { return ok; });
  if (!brought || !in_time || now >= pull.late_from) pulls_.back_off(now, pull.node);
  ReleaseBlocks release{serial, {}};
  for (std::size_t i = 0; i < pull.blocks.size(); ++i) {
    const PullEntry& in_flight = pull.blocks[i];
    const bool arrived = pulled && in_time && pulled->ok[i];
    if (pulled && in_time)
      release.outcomes.push_back(
          {in_flight.name, in_flight.there.generation, arrived ? Outcome::done : Outcome::corrupt});
    if (pulled && in_time && !arrived) {
      count_corrupt(in_flight.name, "pull from node " + std::to_string(pull.node), effects);
    }
    if (arrived) note_pulled(now, in_flight.name);
    if (arrived && pull.offered)
      effects.count(Metric::user_bytes_moved, in_flight.tokens * config_.token_bytes);
    if (arrived && pull.background)
      effects.count(Metric::item_bytes_moved, in_flight.tokens * config_.token_bytes);
    end_pull_entry(in_flight, arrived, effects);
  }
  effects.send({pull.node, Role::kv_worker}, std::move(release));
}

void KvWorkerCore::note_pulled(Instant now, const BlockName& name) {
  const auto at = pending_blocks_.find(name);
  if (at == pending_blocks_.end()) return;
  for (const Waiter& waiter : at->second.waiters) {
    if (!waits(waiter)) continue;
    Request& request = requests_.at(waiter.request);
    request.pulling = now - request.received;
  }
}

void KvWorkerCore::end_pull_entry(const PullEntry& in_flight, bool arrived, Effects& effects) {
  const PoolBlock* const block = pool_.find(in_flight.name);
  // False if it was forgotten meanwhile.
  const bool found = block && block->generation == in_flight.generation;
  const bool lost = !found && in_flight_readers_.contains(in_flight.generation);
  if (arrived && !lost &&
      pool_.commit(in_flight.name, in_flight.generation, in_flight.there.checksum, true)) {
    ++blocks_pulled_;
    finish_block(in_flight.name, in_flight.generation, effects, true);
  } else if (keep_for_readers(in_flight) || pool_.abandon(in_flight.name, in_flight.generation)) {
    fail_block(in_flight.name, in_flight.generation, effects);
  }
}

// Ends a pull before its job runs. The owner gets a release even if it has not answered: its answer
// may be on the way.
void KvWorkerCore::give_up(Instant now, Serial serial, Effects& effects) {
  const Pull pull = pulls_.take(serial);
  if (pull.stage == Pull::Stage::asked) pulls_.back_off(now, pull.node);
  effects.send({pull.node, Role::kv_worker}, ReleaseBlocks{serial, {}});
  for (const PullEntry& in_flight : pull.blocks) end_pull_entry(in_flight, false, effects);
}

void KvWorkerCore::on_pull_timer(Instant now, Serial serial, Effects& effects) {
  const Pull* pull = pulls_.find(serial);
  if (!pull || pull->stage == Pull::Stage::running) return;
  if (now >= pull->wait_deadline) give_up(now, serial, effects);
}

// Pins of other nodes stay until their leases end. Only pulls from the lost node that do not run
// yet are given up.
void KvWorkerCore::lose(Instant now, NodeId node, Effects& effects) {
  for (const Serial serial : pulls_.not_running(node)) give_up(now, serial, effects);
  migration_.lose(now, node);
  metas_.lose(node);
  pool_.promote_copies_of(node);  // they may be the only copies left
}

}  // namespace troupe::actors
