// Pulls of blocks from other nodes: the question to the owner, the copy, and its end.
#include "actors/kv_worker/pull_flow.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"

namespace troupe::actors {

PullFlow::PullFlow(const KvWorkerConfig& config, PagePool& pool, Serials& serials, InFlightReads& in_flight,
                   CorruptBlocks& corrupt, PendingBlocks& pending)
    : config_(config),
      pool_(pool),
      serials_(serials),
      in_flight_(in_flight),
      corrupt_(corrupt),
      pending_(pending),
      pulls_(config.pulling) {}

// The owner gets half of the request's wait time, so that a silent owner leaves time to compute.
void PullFlow::ask(Instant now, const Request& request, NodeId owner,
                   const std::vector<const PoolBlock*>& blocks, Effects& effects) {
  const Serial serial = serials_.next();
  Pull& pull = pulls_.ask(serial, {});
  pull.node = owner;
  pull.asked = now;
  pull.late_from = request.wait_deadline;
  pull.background = !request.offered && (request.ask.retention.belongs || !request.ask.may_evict);
  pull.offered = request.offered;
  pull.wait_deadline = now + Duration{(request.wait_deadline - now).us / 2};
  AcquireBlocks ask{serial, (pull.wait_deadline - now).us};
  ask.may_evict = false;
  ask.read_only = true;
  ask.trace = pull.trace = request.ask.trace;
  ask.wants.reserve(blocks.size());
  pull.blocks.reserve(blocks.size());
  for (const PoolBlock* block : blocks) {
    ask.wants.push_back({block->name, block->kind, block->owner, block->tokens});
    pull.blocks.push_back({block->name, block->tokens, block->generation, {}});
    pending_.begin_pull(now, block->name);
  }
  effects.send({owner, Role::kv_worker}, std::move(ask));
  effects.set_timer(serial, pull.wait_deadline);
}

void PullFlow::on_acquired(Instant now, Address from, BlocksAcquired&& acquired, Effects& effects) {
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
  keep_granted(pull, std::move(acquired), effects);
  run(now, effects);
}

// Keeps only blocks that the owner has as wanted here, in as many pages.
void PullFlow::keep_granted(Pull& pull, BlocksAcquired&& acquired, Effects& effects) {
  const bool answers = acquired.grants.size() == pull.blocks.size();
  if (!answers) effects.count(Metric::protocol_errors);
  std::vector<PullEntry> granted;
  for (std::size_t i = 0; i < pull.blocks.size(); ++i) {
    PullEntry& entry = pull.blocks[i];
    if (answers) entry.there = std::move(acquired.grants[i]);
    if (entry.there.grant == Grant::read && entry.there.pages.size() == pool_.pages_for(entry.tokens)) {
      granted.push_back(std::move(entry));
    } else {
      end_entry(entry, false, effects);
    }
  }
  pull.blocks = std::move(granted);
}

// ---- the copy ----

void PullFlow::run(Instant now, Effects& effects) {
  for (auto next = pulls_.next_to_run(0); next; next = pulls_.next_to_run(*next))
    run_one(now, *next, effects);
}

void PullFlow::run_one(Instant now, Serial serial, Effects& effects) {
  Pull& pull = *pulls_.find(serial);
  keep_awaited(pull, effects);
  if (pull.blocks.empty() || now >= pull.lease_ends) return give_up(now, serial, effects);
  pull.stage = Pull::Stage::running;
  PullBlocks work{pull.node, pull.incarnation, (pull.lease_ends - now).us, {}};
  work.blocks.reserve(pull.blocks.size());
  for (PullEntry& entry : pull.blocks)
    work.blocks.push_back({entry.name, entry.there.generation, entry.there.checksum, entry.tokens,
                           std::move(entry.there.pages), pool_.find(entry.name)->pages, entry.generation});
  const bool in_parts = has_in_flight_reader(pull);
  if (in_parts) work.parts = config_.pull_parts;
  effects.start(serial, std::move(work));
  if (!in_parts) return;
  for (const PullEntry& entry : pull.blocks) pending_.begin_copy(entry.name, entry.there.checksum);
  for (const PullEntry& entry : pull.blocks) pending_.announce_to_waiters(entry.name, effects);
}

// Returns true if a request that waits for one of the pull's blocks could read it during the copy.
// Pages are then copied in parts.
bool PullFlow::has_in_flight_reader(const Pull& pull) const {
  return config_.pull_parts > 1 && std::ranges::any_of(pull.blocks, [&](const PullEntry& entry) {
           return pending_.has_in_flight_reader(entry.name);
         });
}

// Drops blocks for which no request waits any more, or which were forgotten meanwhile: they are not
// worth a transfer.
void PullFlow::keep_awaited(Pull& pull, Effects& effects) {
  std::vector<PullEntry> awaited;
  for (PullEntry& entry : pull.blocks) {
    if (pending_.is_awaited(entry.name, entry.generation)) {
      awaited.push_back(std::move(entry));
    } else {
      end_entry(entry, false, effects);
    }
  }
  pull.blocks = std::move(awaited);
}

bool PullFlow::on_done(Instant now, const JobDone& done, Effects& effects) {
  if (!pulls_.find(done.job)) return false;
  on_pulled(now, done.job, pulls_.take(done.job), done.result, effects);
  run(now, effects);
  return true;
}

// Bytes that arrived after the lease are not trusted. They say nothing about the owner's copy
// either.
void PullFlow::on_pulled(Instant now, Serial serial, const Pull& pull, const JobResult& result,
                         Effects& effects) {
  const bool in_time = now < pull.lease_ends;
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
    const PullEntry& entry = pull.blocks[i];
    const bool arrived = pulled && in_time && pulled->ok[i];
    if (pulled && in_time)
      release.outcomes.push_back(
          {entry.name, entry.there.generation, arrived ? Outcome::done : Outcome::corrupt});
    if (pulled && in_time && !arrived)
      corrupt_.report(entry.name, "pull from node " + std::to_string(pull.node), effects);
    if (arrived) count_arrival(now, pull, entry, effects);
    end_entry(entry, arrived, effects);
  }
  effects.send({pull.node, Role::kv_worker}, std::move(release));
}

void PullFlow::count_arrival(Instant now, const Pull& pull, const PullEntry& entry, Effects& effects) {
  pending_.note_arrival(now, entry.name);
  if (pull.offered) effects.count(Metric::user_bytes_moved, entry.tokens * config_.token_bytes);
  if (pull.background) effects.count(Metric::item_bytes_moved, entry.tokens * config_.token_bytes);
}

// ---- ends ----

void PullFlow::end_entry(const PullEntry& entry, bool arrived, Effects& effects) {
  const PoolBlock* const block = pool_.find(entry.name);
  // False if it was forgotten meanwhile.
  const bool found = block && block->generation == entry.generation;
  const bool lost = !found && in_flight_.has_readers(entry.generation);
  if (arrived && !lost && pool_.commit(entry.name, entry.generation, entry.there.checksum, true)) {
    ++blocks_pulled_;
    pending_.finish(entry.name, entry.generation, true, effects);
  } else if (in_flight_.keep_pages(entry.name, entry.generation) ||
             pool_.abandon(entry.name, entry.generation)) {
    pending_.fail(entry.name, entry.generation, effects);
  }
}

// Ends a pull before its job runs. The owner gets a release even if it has not answered: its answer
// may be on the way.
void PullFlow::give_up(Instant now, Serial serial, Effects& effects) {
  const Pull pull = pulls_.take(serial);
  if (pull.stage == Pull::Stage::asked) pulls_.back_off(now, pull.node);
  effects.send({pull.node, Role::kv_worker}, ReleaseBlocks{serial, {}});
  for (const PullEntry& entry : pull.blocks) end_entry(entry, false, effects);
}

void PullFlow::on_timer(Instant now, Serial serial, Effects& effects) {
  const Pull* pull = pulls_.find(serial);
  if (!pull || pull->stage == Pull::Stage::running) return;
  if (now >= pull->wait_deadline) give_up(now, serial, effects);
}

void PullFlow::lose(Instant now, NodeId node, Effects& effects) {
  for (const Serial serial : pulls_.not_running(node)) give_up(now, serial, effects);
}

}  // namespace troupe::actors
