// Rows of embedding tables. The KV-cache worker lends pages of the pool for rows and demands them
// back. Free row slots in these pages are refilled with rows that passes did not ask for yet, at a
// lower priority than rows that passes miss.
//
// For tables that are spread over nodes' memory, a batch that missed rows acquires their shards
// from the KV-cache worker. That worker has the shards, pulls them from their owners, or lets the
// batch fill them from the table. Then the batch runs once more, in its executor slot. This node's
// own shards are filled in the background, in free pages.
#include <algorithm>
#include <utility>

#include "actors/inference/inference_core.h"
#include "kernels/base/hash.h"
#include "runtime/actor/block_name.h"
#include "runtime/actor/mutants.h"
#include "runtime/actor/table_shard.h"

namespace troupe::actors {
namespace {

// Numbered as a task's acquire_timer: tasks and requests for shards share one counter of serials.
constexpr std::uint64_t wait_timer(std::uint64_t serial) { return serial * 2 + 1; }

constexpr std::size_t asked_at_once = 128;  // own shards acquired at once
// Pause between walks: 10 s. The next walk fills evicted or corrupt shards again.
constexpr Duration between_walks{10'000'000};

std::vector<GrantedShard> granted_of(const std::vector<TableShard>& shards,
                                     const std::vector<BlockGrant>& grants) {
  std::vector<GrantedShard> granted;
  for (std::size_t i = 0; i < std::min(shards.size(), grants.size()); ++i)
    granted.push_back({shards[i], grants[i]});
  return granted;
}

}  // namespace

// Repeats the answer to a message that was answered before. A message being worked on is answered
// when its job ends.
void InferenceCore::on_lend(Address from, const LendPages& lend, Effects& effects) {
  if (from != kv_worker()) return effects.count(Metric::protocol_errors);
  if (lend.incarnation != config_.incarnation || lend.number < rows_.answer.number || rows_.job != 0) return;
  if (lend.number == rows_.answer.number) return effects.send(kv_worker(), rows_.answer);
  rows_.answer = {
      lend.incarnation, lend.number, {}, 0, 0, rows_.answer.saved_us, std::move(rows_.answer.savings)};
  rows_.lent = lend.pages;
  rows_.job = next_serial_++;
  effects.start(rows_.job, ChangeRowPages{lend.pages, lend.give_back});
}

bool InferenceCore::on_rows_done(const JobDone& done, Effects& effects) {
  if (done.job == rows_.job) {
    rows_.job = 0;
    end_lend(done.result, effects);
  } else if (done.job == rows_.refill_job) {
    rows_.refill_job = 0;
    if (const auto* refilled = std::get_if<RowsRefilled>(&done.result)) count_rows(refilled->rows, effects);
  } else {
    return false;
  }
  return true;
}

// A device that cannot take the pages gives all of them back.
void InferenceCore::end_lend(const JobResult& result, Effects& effects) {
  if (const auto* changed = std::get_if<RowPages>(&result)) {
    rows_.answer.given_back = changed->given_back;
    rows_.answer.saved_us = changed->saved_us;
    rows_.answer.savings = changed->savings;
    count_rows(changed->rows, effects);
  } else {
    rows_.answer.given_back = rows_.lent;
  }
  rows_.answer.hits = rows_.counted.hits;
  rows_.answer.misses = rows_.counted.misses;
  rows_.lent.clear();
  effects.send(kv_worker(), rows_.answer);
}

// Slots end in any order, so totals may be older than those already known.
void InferenceCore::count_rows(const RowTotals& now, Effects& effects) {
  RowTotals& counted = rows_.counted;
  const auto count = [&](Metric metric, std::uint64_t RowTotals::*of) {
    if (now.*of <= counted.*of) return;
    effects.count(metric, static_cast<double>(now.*of - counted.*of));
    if (of == &RowTotals::bytes_missed || of == &RowTotals::bytes_refilled)
      rows_.pace.spend(now.*of - counted.*of);
    counted.*of = now.*of;
  };
  count(Metric::rows_hit, &RowTotals::hits);
  count(Metric::rows_missed, &RowTotals::misses);
  count(Metric::rows_repeated, &RowTotals::repeats);
  count(Metric::rows_evicted, &RowTotals::evicted);
  count(Metric::rows_dropped, &RowTotals::dropped);
  count(Metric::rows_corrupt, &RowTotals::corrupt);
  count(Metric::row_bytes_missed, &RowTotals::bytes_missed);
  count(Metric::row_bytes_refilled, &RowTotals::bytes_refilled);
  count(Metric::rows_from_here, &RowTotals::from_here);
  count(Metric::rows_from_nodes, &RowTotals::from_nodes);
  count(Metric::rows_from_table, &RowTotals::from_table);
  counted.wants_refill = now.wants_refill;
  counted.shards = now.shards;
}

void InferenceCore::refill_rows(Instant now, Effects& effects) {
  if (!rows_.counted.wants_refill || rows_.refill_job != 0) return;
  const std::uint64_t bytes = rows_.pace.allowed(now);
  if (bytes == 0) return;
  rows_.refill_job = next_serial_++;
  effects.start(rows_.refill_job, RefillRows{bytes});
}

// ---- tables that are spread over nodes' memory ----

// Returns the owner by rendezvous hashing, the same on all nodes that know the same workers.
NodeId InferenceCore::owner_of(const TableShard& shard) const {
  return owners_->nodes()[owners_->owner(hash_of(shard.table) ^ spread(shard.shard))];
}

// The owner keeps its shards as its own blocks. Shards acquired ahead of need take free pages only.
AcquireBlocks InferenceCore::acquire_request(Serial serial, std::span<const TableShard> shards,
                                             bool ahead) const {
  AcquireBlocks ask{serial, config_.block_wait.us};
  ask.may_evict = !ahead;
  for (const TableShard& shard : shards) {
    const NodeId owner = owner_of(shard);
    ask.wants.push_back({block_of(shard), SegmentKind::item, "table", config_.page_tokens,
                         owner == config_.node ? 0 : owner});
  }
  return ask;
}

// ---- shards of a batch ----

void InferenceCore::await_shards(Instant now, Batch batch, std::vector<TableShard> away, Effects& effects) {
  Instant deadline = tasks_.at(batch.tasks.front()).deadline;
  for (const Serial task : batch.tasks) deadline = std::min(deadline, tasks_.at(task).deadline);
  const Serial serial = next_serial_++;
  AcquireBlocks ask = acquire_request(serial, away, false);
  ask.budget_us = std::clamp<std::int64_t>((deadline - now).us / 2, 0, ask.budget_us);
  batch.asked = serial;
  batch.missed = std::move(away);
  effects.set_timer(wait_timer(serial), now + Duration{ask.budget_us} + config_.acquire_grace);
  effects.send(kv_worker(), std::move(ask));
  batches_[serial] = std::move(batch);
}

bool InferenceCore::on_shards_acquired(Instant now, const BlocksAcquired& acquired, Effects& effects) {
  if (acquired.id == own_shard_walk_.asked && own_shard_walk_.asked != 0) {
    if (own_shard_walk_.job == 0) fill_own(now, acquired, effects);
    return true;
  }
  const auto of =
      std::ranges::find_if(batches_, [&](const auto& entry) { return entry.second.asked == acquired.id; });
  if (of == batches_.end() || acquired.id == 0) return false;
  Batch& batch = of->second;
  if (of->first != acquired.id) {  // it runs already: a duplicate, or it gave up waiting
    if (batch.granted.empty()) effects.send(kv_worker(), ReleaseBlocks{acquired.id, {}});
    return true;
  }
  if (acquired.grants.size() == batch.missed.size()) batch.granted = acquired.grants;
  if (batch.granted.empty()) effects.send(kv_worker(), ReleaseBlocks{acquired.id, {}});
  run_with_shards(now, acquired.id, effects);
  return true;
}

bool InferenceCore::on_shards_timer(Instant now, Serial serial, Effects& effects) {
  const auto at = batches_.find(serial);
  if (at == batches_.end() || at->second.asked != serial) return false;
  effects.send(kv_worker(), ReleaseBlocks{serial, {}});  // no answer: the table has all rows
  run_with_shards(now, serial, effects);
  return true;
}

void InferenceCore::run_with_shards(Instant now, Serial asked, Effects& effects) {
  Batch batch = std::move(batches_.extract(asked).mapped());
  RunBatch work;
  work.shards = granted_of(batch.missed, batch.granted);
  // Always verifies shards. A corrupt row would be copied into the row cache and computed into kept
  // blocks, and their checksums, taken afterwards, would not reveal it.
  for (GrantedShard& shard : work.shards)
    shard.grant.check = shard.grant.check || !mutated(Mutant::trust_shards);
  for (const Serial serial : batch.tasks) {
    work.requests.push_back(batch_request(now, tasks_.at(serial), batch.tasks.size() > 1));
  }
  batch.started = now;
  const Serial job = next_serial_++;
  if (mutated(Mutant::release_shards_early)) {
    release_shards(batch, {}, effects);
    batch.granted.clear();
  }
  batches_[job] = std::move(batch);
  effects.start(job, std::move(work));
}

void InferenceCore::release_shards(const Batch& batch, std::vector<BlockOutcome> outcomes,
                                   Effects& effects) const {
  if (!batch.granted.empty()) effects.send(kv_worker(), ReleaseBlocks{batch.asked, std::move(outcomes)});
}

// ---- this node's own shards ----

void InferenceCore::advance_own_shards(Instant now, Effects& effects) {
  OwnShardWalk& own = own_shard_walk_;
  if (!is_sharded() || own.job != 0) return;
  if (own.asked != 0) {
    if (now < own.wait_deadline) return;
    effects.send(kv_worker(), ReleaseBlocks{std::exchange(own.asked, 0), {}});
    return acquire_own_shards(now, effects);
  }
  if (draining_ || now < own.next_walk) return;
  own.table = own.shard = 0;
  own.batch_shards.clear();
  own.job = next_serial_++;
  effects.start(own.job, FillShards{});  // without shards it only reports which tables there are
}

// Acquires the next own shards of the walk.
void InferenceCore::acquire_own_shards(Instant now, Effects& effects) {
  OwnShardWalk& own = own_shard_walk_;
  own.batch_shards.clear();
  while (own.table < own.tables.size() && own.batch_shards.size() < asked_at_once) {
    const ShardsFilled::Table& table = own.tables[own.table];
    if (own.shard == table.shards) {
      ++own.table;
      own.shard = 0;
      continue;
    }
    const TableShard shard{table.name, own.shard++};
    if (owner_of(shard) == config_.node) own.batch_shards.push_back(shard);
  }
  if (own.batch_shards.empty()) {
    own.next_walk = now + between_walks;
    return;
  }
  own.asked = next_serial_++;
  own.wait_deadline = now + config_.block_wait + config_.acquire_grace;
  effects.send(kv_worker(), acquire_request(own.asked, own.batch_shards, true));
}

void InferenceCore::fill_own(Instant now, const BlocksAcquired& acquired, Effects& effects) {
  OwnShardWalk& own = own_shard_walk_;
  FillShards work;
  for (GrantedShard& granted : granted_of(own.batch_shards, acquired.grants))
    if (granted.grant.grant == Grant::write) work.shards.push_back(std::move(granted));
  if (work.shards.empty()) {
    effects.send(kv_worker(), ReleaseBlocks{std::exchange(own.asked, 0), {}});
    return acquire_own_shards(now, effects);
  }
  own.job = next_serial_++;
  effects.start(own.job, std::move(work));
}

bool InferenceCore::on_shards_filled(Instant now, const JobDone& done, Effects& effects) {
  OwnShardWalk& own = own_shard_walk_;
  if (own.job == 0 || done.job != own.job) return false;
  own.job = 0;
  const auto* filled = std::get_if<ShardsFilled>(&done.result);
  if (filled && own.asked == 0) own.tables = filled->tables;
  if (own.asked != 0) {
    std::vector<BlockOutcome> outcomes;
    if (filled) outcomes = filled->outcomes;
    own.filled += outcomes.size();
    effects.send(kv_worker(), ReleaseBlocks{std::exchange(own.asked, 0), std::move(outcomes)});
  }
  if (filled)
    acquire_own_shards(now, effects);
  else
    own.next_walk = now + between_walks;
  return true;
}

}  // namespace troupe::actors
