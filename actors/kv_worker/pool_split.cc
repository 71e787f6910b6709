// Applies the allocator's splits of the pool and reports to it. It also counts the bytes of blocks
// that were copied because a boundary moved.
#include "actors/kv_worker/pool_split.h"

#include <utility>

namespace troupe::actors {

PoolSplit::PoolSplit(const KvWorkerConfig& config, PagePool& pool, const AreaSavings& savings)
    : config_(config),
      pool_(pool),
      savings_(savings),
      rows_(config.rows, config.incarnation, config.pool.pages),
      counted_saved_us_(pool.areas()) {}

// A split for an earlier process changes nothing, but its sender gets a report of this process.
void PoolSplit::on_split(const SetSplit& split, Effects& effects) {
  std::uint64_t left = pool_.pages();
  bool fits = split.areas.size() == pool_.areas();
  for (const AreaSplit& area : split.areas) {
    fits = fits && area.pages <= left;
    if (fits) left -= area.pages;
  }
  if (!fits) return effects.count(Metric::protocol_errors);
  if (split.incarnation == config_.incarnation && split.epoch > epoch_) {
    epoch_ = split.epoch;
    if (!boundary_moves_) boundary_moves_ = pool_.page_hashes();
    pool_.set_split(split.areas);
  }
  effects.send(allocator(), report());
}

// ---- reports ----

void PoolSplit::on_report_timer(Instant now, bool ready, Effects& effects) {
  PoolReport report = this->report();
  count_saved(report, effects);
  effects.send(allocator(), std::move(report));
  lend(now, ready, true, effects);
  effects.set_timer(KvWorkerTimer::report, now + config_.report);
}

PoolReport PoolSplit::report() const {
  PoolReport report{config_.incarnation, epoch_, std::vector<AreaReport>(pool_.areas())};
  for (std::size_t i = 0; i < report.areas.size(); ++i) {
    report.areas[i].pages = pool_.cap(static_cast<PoolArea>(i));
    report.areas[i].used = pool_.used(static_cast<PoolArea>(i));
  }
  savings_.add_to(report.areas);
  report.served = savings_.served();
  if (pool_.has_rows()) rows_.add_to(report.areas[index_of(PoolArea::row)]);
  return report;
}

void PoolSplit::count_saved(const PoolReport& report, Effects& effects) {
  for (std::size_t i = 0; i < report.areas.size(); ++i) {
    const double us = report.areas[i].saved_us - counted_saved_us_[i];
    if (us <= 0) continue;
    effects.count(area_table[i].saved, us / 1e6);
    counted_saved_us_[i] += us;
  }
}

// ---- pages for rows ----

void PoolSplit::on_pages_lent(Instant now, Address from, PagesLent&& answer, Effects& effects) {
  if (from.role != Role::inference_worker || !rows_.answer(now, from.node, std::move(answer), pool_))
    effects.count(Metric::protocol_errors);
}

// `ask`: borrowers without a change get a message, too.
void PoolSplit::lend(Instant now, bool ready, bool ask, Effects& effects) {
  if (!rows_.idle() && ready) {
    auto messages = rows_.next(now, pool_, ask);
    for (auto& [node, lend] : messages) effects.send({node, Role::inference_worker}, std::move(lend));
    if (!messages.empty()) effects.set_timer(KvWorkerTimer::lending, now + rows_.retry());
  }
  if (boundary_moves_ && (rows_.idle() || rows_.settled(pool_))) end_boundary_move(effects);
}

// A boundary move has ended when every borrower has its new share. Pages of blocks that moved
// meanwhile were copied.
void PoolSplit::end_boundary_move(Effects& effects) {
  const std::uint64_t pages = pool_.pages_moved_since(*boundary_moves_);
  boundary_moves_.reset();
  const auto bytes =
      static_cast<std::uint64_t>(static_cast<double>(pages) * config_.token_bytes * pool_.page_tokens());
  boundary_bytes_copied_ += bytes;
  effects.count(Metric::boundary_bytes_copied, static_cast<double>(bytes));
}

}  // namespace troupe::actors
