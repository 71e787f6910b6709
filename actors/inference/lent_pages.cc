// Takes and returns pages for rows of embedding tables, and keeps them filled.
#include "actors/inference/lent_pages.h"

#include <utility>

namespace troupe::actors {

// Repeats the answer to a message that was answered before. A message being worked on is answered
// when its job ends.
void LentPages::on_lend(LendPages& lend, Effects& effects) {
  if (lend.incarnation != config_.incarnation || lend.number < answer_.number || job_ != 0) return;
  if (lend.number == answer_.number) return effects.send(kv_worker(), answer_);
  answer_ = {lend.incarnation, lend.number, {}, 0, 0, answer_.saved_us, std::move(answer_.savings)};
  lent_ = lend.pages;
  job_ = serials_.next();
  effects.start(job_, ChangeRowPages{std::move(lend.pages), lend.give_back});
}

bool LentPages::on_job_done(JobDone& done, Effects& effects) {
  if (done.job == job_) {
    job_ = 0;
    end_lend(done.result, effects);
  } else if (done.job == refill_job_) {
    refill_job_ = 0;
    if (const auto* refilled = std::get_if<RowsRefilled>(&done.result)) count(refilled->rows, effects);
  } else {
    return false;
  }
  return true;
}

// A device that cannot take the pages gives all of them back.
void LentPages::end_lend(JobResult& result, Effects& effects) {
  if (auto* changed = std::get_if<RowPages>(&result)) {
    answer_.given_back = std::move(changed->given_back);
    answer_.saved_us = changed->saved_us;
    answer_.savings = std::move(changed->savings);
    count(changed->rows, effects);
  } else {
    answer_.given_back = lent_;
  }
  answer_.hits = counted_.hits;
  answer_.misses = counted_.misses;
  lent_.clear();
  effects.send(kv_worker(), answer_);
}

// Slots end in any order, so totals may be older than those already known.
void LentPages::count(const RowTotals& now, Effects& effects) {
  const auto add = [&](Metric metric, std::uint64_t RowTotals::*of) {
    if (now.*of <= counted_.*of) return;
    effects.count(metric, static_cast<double>(now.*of - counted_.*of));
    if (of == &RowTotals::bytes_missed || of == &RowTotals::bytes_refilled)
      pace_.spend(now.*of - counted_.*of);
    counted_.*of = now.*of;
  };
  add(Metric::rows_hit, &RowTotals::hits);
  add(Metric::rows_missed, &RowTotals::misses);
  add(Metric::rows_repeated, &RowTotals::repeats);
  add(Metric::rows_evicted, &RowTotals::evicted);
  add(Metric::rows_dropped, &RowTotals::dropped);
  add(Metric::rows_corrupt, &RowTotals::corrupt);
  add(Metric::row_bytes_missed, &RowTotals::bytes_missed);
  add(Metric::row_bytes_refilled, &RowTotals::bytes_refilled);
  add(Metric::rows_from_here, &RowTotals::from_here);
  add(Metric::rows_from_nodes, &RowTotals::from_nodes);
  add(Metric::rows_from_table, &RowTotals::from_table);
  counted_.wants_refill = now.wants_refill;
  counted_.shards = now.shards;
}

void LentPages::refill(Instant now, Effects& effects) {
  if (!counted_.wants_refill || refill_job_ != 0) return;
  const std::uint64_t bytes = pace_.allowed(now);
  if (bytes == 0) return;
  refill_job_ = serials_.next();
  effects.start(refill_job_, RefillRows{bytes});
}

// Sends no trailing shards of which no rows were wanted.
void LentPages::report(Heartbeat& beat) const {
  const ShardHitRates& shards = counted_.shards;
  if (shards.shard_rows == 0) return;
  beat.us_per_row = shards.us_per_row;
  beat.shard_rows = shards.shard_rows;
  beat.rows_found.assign(shards.hundredths.begin(), shards.hundredths.end());
  while (!beat.rows_found.empty() && beat.rows_found.back() == 0) beat.rows_found.pop_back();
}

}  // namespace troupe::actors
