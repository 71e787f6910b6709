// Walks over this node's own shards of embedding tables and fills those that are missing.
#include "actors/inference/own_shards.h"

#include <utility>

namespace troupe::actors {
namespace {

constexpr std::size_t asked_at_once = 128;     // shards acquired at once
constexpr Duration between_walks{10'000'000};  // 10 s

}  // namespace

void OwnShards::advance(Instant now, bool begins, Effects& effects) {
  if (!shards_.any() || job_ != 0) return;
  if (asked_ != 0) {
    if (now < wait_deadline_) return;
    effects.send(kv_worker(), ReleaseBlocks{std::exchange(asked_, 0), {}});
    return acquire_next(now, effects);
  }
  if (!begins || now < next_walk_) return;
  table_ = shard_ = 0;
  chosen_.clear();
  job_ = serials_.next();
  effects.start(job_, FillShards{});  // without shards it only reports which tables there are
}

void OwnShards::acquire_next(Instant now, Effects& effects) {
  chosen_.clear();
  while (table_ < tables_.size() && chosen_.size() < asked_at_once) {
    const ShardsFilled::Table& table = tables_[table_];
    if (shard_ == table.shards) {
      ++table_;
      shard_ = 0;
      continue;
    }
    const TableShard shard{table.name, shard_++};
    if (shards_.is_own(shard)) chosen_.push_back(shard);
  }
  if (chosen_.empty()) {
    next_walk_ = now + between_walks;
    return;
  }
  asked_ = serials_.next();
  wait_deadline_ = now + config_.block_wait + config_.acquire_grace;
  effects.send(kv_worker(), shards_.request(asked_, chosen_, true));
}

bool OwnShards::on_acquired(Instant now, BlocksAcquired& acquired, Effects& effects) {
  if (asked_ == 0 || acquired.id != asked_) return false;
  if (job_ != 0) return true;  // a duplicate
  FillShards work;
  for (GrantedShard& granted : granted_shards(chosen_, std::move(acquired.grants)))
    if (granted.grant.grant == Grant::write) work.shards.push_back(std::move(granted));
  if (work.shards.empty()) {
    effects.send(kv_worker(), ReleaseBlocks{std::exchange(asked_, 0), {}});
    acquire_next(now, effects);
  } else {
    job_ = serials_.next();
    effects.start(job_, std::move(work));
  }
  return true;
}

bool OwnShards::on_job_done(Instant now, JobDone& done, Effects& effects) {
  if (job_ == 0 || done.job != job_) return false;
  job_ = 0;
  auto* filled = std::get_if<ShardsFilled>(&done.result);
  if (filled && asked_ == 0) tables_ = std::move(filled->tables);
  if (asked_ != 0) {
    std::vector<BlockOutcome> outcomes;
    if (filled) outcomes = std::move(filled->outcomes);
    filled_ += outcomes.size();
    effects.send(kv_worker(), ReleaseBlocks{std::exchange(asked_, 0), std::move(outcomes)});
  }
  if (filled)
    acquire_next(now, effects);
  else
    next_walk_ = now + between_walks;
  return true;
}

}  // namespace troupe::actors
