// Rows of embedding tables: the pool's pages that they may fill come from the KV-cache worker, and go back when it asks; pages
// with room are refilled behind what passes miss.
#include <algorithm>
#include <utility>

#include "actors/inference/inference_core.h"

namespace troupe::actors {

// What was told before is answered again; what is being done will be.
void InferenceCore::on_lend(Address from, const LendPages& lend, Effects& effects) {
  if (from != kv_worker()) return effects.count(Metric::protocol_errors);
  if (lend.incarnation != config_.incarnation || lend.number < rows_.answer.number || rows_.job != 0) return;
  if (lend.number == rows_.answer.number) return effects.send(kv_worker(), rows_.answer);
  rows_.answer = {lend.incarnation, lend.number, {}, 0, 0, rows_.answer.saved_us, std::move(rows_.answer.savings)};
  rows_.lent = lend.pages;
  rows_.job = next_serial_++;
  effects.start(rows_.job, ChangeRowPages{lend.pages, lend.give_back});
}

bool InferenceCore::on_rows_done(const Done& done, Effects& effects) {
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

// A device that cannot take them gives all of them back.
void InferenceCore::end_lend(const JobResult& result, Effects& effects) {
  if (const auto* changed = std::get_if<RowPages>(&result)) {
    rows_.answer.given_back = changed->given_back;
    rows_.answer.saved_us = changed->saved_us;
    rows_.answer.savings = changed->savings;
    count_rows(changed->rows, effects);
  } else {
    rows_.answer.given_back = rows_.lent;
  }
  rows_.answer.hits = rows_.told.hits;
  rows_.answer.misses = rows_.told.misses;
  rows_.lent.clear();
  effects.send(kv_worker(), rows_.answer);
}

// Lanes end in any order, so what they tell may be older than what is known.
void InferenceCore::count_rows(const RowTotals& now, Effects& effects) {
  RowTotals& told = rows_.told;
  const auto count = [&](Metric metric, std::uint64_t RowTotals::*of) {
    if (now.*of <= told.*of) return;
    effects.count(metric, static_cast<double>(now.*of - told.*of));
    if (of == &RowTotals::bytes_missed || of == &RowTotals::bytes_refilled) rows_.pace.spend(now.*of - told.*of);
    told.*of = now.*of;
  };
  count(Metric::rows_hit, &RowTotals::hits);
  count(Metric::rows_missed, &RowTotals::misses);
  count(Metric::rows_repeated, &RowTotals::repeats);
  count(Metric::rows_evicted, &RowTotals::evicted);
  count(Metric::rows_dropped, &RowTotals::dropped);
  count(Metric::rows_corrupt, &RowTotals::corrupt);
  count(Metric::row_bytes_missed, &RowTotals::bytes_missed);
  count(Metric::row_bytes_refilled, &RowTotals::bytes_refilled);
  told.wants_refill = now.wants_refill;
  told.shards = now.shards;
}

void InferenceCore::refill_rows(Instant now, Effects& effects) {
  if (!rows_.told.wants_refill || rows_.refill_job != 0) return;
  const std::uint64_t bytes = rows_.pace.allowed(now);
  if (bytes == 0) return;
  rows_.refill_job = next_serial_++;
  effects.start(rows_.refill_job, RefillRows{bytes});
}

}  // namespace troupe::actors
