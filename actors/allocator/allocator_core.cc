// Decides how a node's page pool is split between its areas (user blocks, item blocks, rows of
// embedding tables). The KV-cache worker applies the split. By default the item area is sized first
// and users get the rest; with a split policy the sizes change after each window of serving.
#include "actors/allocator/allocator_core.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "kernels/base/check.h"
#include "placement/split/latency_counts.h"
#include "runtime/pool/pool_areas.h"

namespace troupe::actors {
namespace {

constexpr std::uint64_t retry_timer = 1, window_timer = 2;

double rate(std::uint64_t hits, std::uint64_t misses) {
  return hits + misses > 0 ? static_cast<double>(hits) / static_cast<double>(hits + misses) : 0;
}

std::string short_number(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", number);
  return text;
}

// Returns true if the report is from an earlier process, or was overtaken by `known`. All counts of
// one process only grow. The row area is not compared: the inference worker counts its hits.
bool is_older(const PoolReport& report, const PoolReport& known) {
  if (report.incarnation != known.incarnation) return report.incarnation < known.incarnation;
  for (std::size_t i = 0; i < std::min(report.areas.size(), known.areas.size()); ++i) {
    if (area_table[i].kinds == 0) continue;
    if (report.areas[i].hits < known.areas[i].hits || report.areas[i].misses < known.areas[i].misses)
      return true;
  }
  return report.served.requests < known.served.requests;
}

// Returns true if something happened between the two reports that a policy could learn from.
bool is_news(const PoolReport& report, const PoolReport& before) {
  for (std::size_t i = 0; i < std::min(report.areas.size(), before.areas.size()); ++i)
    if (report.areas[i].hits != before.areas[i].hits || report.areas[i].misses != before.areas[i].misses ||
        report.areas[i].savings != before.areas[i].savings)
      return true;
  return report.served.requests != before.served.requests;
}

}  // namespace

AllocatorCore::AllocatorCore(AllocatorConfig config) : config_(std::move(config)) {
  TROUPE_CHECK(config_.shares.size() <= std::size(area_table), "a share is of an area");
  for (const double share : config_.shares)
    TROUPE_CHECK(share == remaining_pages || (share >= 0 && share <= 1), "a share is 0..1, or the rest");
  TROUPE_CHECK(config_.first < config_.shares.size(), "alpha is about an area");
  split_.epoch = 1;
  for (const std::uint32_t pages : split_pages(config_.pages, config_.shares)) {
    const bool lends = area_table[split_.areas.size()].kinds != 0 &&
                       !config_.policy;  // neither the row area nor areas split by a policy lend
    split_.areas.push_back({pages, lends ? 0 : pages});
  }
}

void AllocatorCore::step(Instant now, Event&& event, Effects& effects) {
  if (const auto* fired = std::get_if<TimerFired>(&event)) {
    if (fired->timer == retry_timer) retrying_ = false;
    if (fired->timer == window_timer) return end_window(now, effects);
    if (!settled() && !retrying_) set_split(now, effects);
  } else if (auto* received = std::get_if<Received>(&event)) {
    if (auto* report = std::get_if<PoolReport>(&received->message)) {
      on_report(now, received->from, std::move(*report), effects);
    } else if (const auto* request = std::get_if<StatusRequest>(&received->message)) {
      effects.send(received->from, status(request->id));
    } else {
      effects.count(Metric::protocol_errors);
    }
  }
}

void AllocatorCore::on_report(Instant now, Address from, PoolReport&& report, Effects& effects) {
  if (from != worker()) return effects.count(Metric::protocol_errors);
  if (report_ && is_older(report, *report_)) return;
  const bool restarted = !report_ || report.incarnation > report_->incarnation;
  report_ = std::move(report);
  if (restarted) before_.reset();
  follow_worker();
  if (!window_ends_) {
    window_ends_ = now + config_.window;
    effects.set_timer(window_timer, *window_ends_);
  }
  if (!settled() && (restarted || !retrying_)) set_split(now, effects);
}

// Adopts what the areas have lent to each other since the worker took over this split.
void AllocatorCore::follow_worker() {
  if (report_->epoch != split_.epoch || report_->areas.size() != split_.areas.size()) return;
  for (std::size_t i = 0; i < split_.areas.size(); ++i) split_.areas[i].pages = report_->areas[i].pages;
}

// Names no incarnation before the first report. The worker then ignores the split, but reports.
void AllocatorCore::set_split(Instant now, Effects& effects) {
  split_.incarnation = report_ ? report_->incarnation : 0;
  effects.send(worker(), split_);
  if (!retrying_) effects.set_timer(retry_timer, now + config_.retry);
  retrying_ = true;
}

// ---- windows ----

// Decides nothing before the last decision has arrived. Skips windows in which the worker restarted
// or nothing happened: a window may be shorter than the time between two reports.
void AllocatorCore::end_window(Instant now, Effects& effects) {
  if (!window_ends_ || now < *window_ends_) return;
  window_ends_ = now + config_.window;
  effects.set_timer(window_timer, *window_ends_);
  if (!report_ || !settled() || report_->areas.size() != split_.areas.size()) return;
  if (before_) {
    note_savings();
    count_page_values(effects);
    if (config_.policy && is_news(*report_, *before_)) decide(now, effects);
  }
  before_ = report_;
}

void AllocatorCore::decide(Instant now, Effects& effects) {
  std::vector<double> shares;
  for (const AreaSplit& area : split_.areas)
    shares.push_back(static_cast<double>(area.pages) / config_.pages);
  std::vector<placement::Savings> savings = savings_;
  const auto first = static_cast<std::ptrdiff_t>(config_.first);
  const auto to_front = [&](auto& areas) {
    std::rotate(areas.begin(), areas.begin() + first, areas.begin() + first + 1);
  };
  to_front(shares);  // a policy expects the share that is alpha in front
  to_front(savings);
  config_.policy->decide({measure(), savings}, shares);
  std::rotate(shares.begin(), shares.begin() + 1, shares.begin() + first + 1);
  if (set_shares(std::move(shares)) && !retrying_) set_split(now, effects);
  config_.policy->learn();
}

// An area without a valid savings curve counts as saving nothing. A window without requests says nothing
// about the split, so it does not shorten the memory: else the first requests after a quiet night would
// decide alone.
void AllocatorCore::note_savings() {
  const double kept = is_news(*report_, *before_) ? config_.kept : 1;
  savings_.resize(split_.areas.size());
  windows_ = 1 + kept * windows_;
  for (std::size_t i = 0; i < savings_.size(); ++i) {
    const std::vector<double>&now = report_->areas[i].savings, &before = before_->areas[i].savings;
    for (std::size_t cell = 0; cell < savings_[i].size(); ++cell) {
      const double gained =
          now.size() == savings_[i].size() ? now[cell] - (before.size() == now.size() ? before[cell] : 0) : 0;
      savings_[i][cell] = kept * savings_[i][cell] + (gained > 0 && std::isfinite(gained) ? gained : 0);
    }
  }
}

void AllocatorCore::count_page_values(Effects& effects) {
  values_.assign(savings_.size(), {});
  const double pages_of_cell = static_cast<double>(config_.pages) / placement::split_cells;
  const double seconds = windows_ * static_cast<double>(config_.window.us) / 1e6;
  for (std::size_t i = 0; i < savings_.size(); ++i) {
    const double at =
        std::min(static_cast<double>(split_.areas[i].pages) / pages_of_cell, 1.0 * placement::split_cells);
    const auto below = static_cast<std::size_t>(std::ceil(at)), above = static_cast<std::size_t>(at);
    const auto slope = [&](std::size_t cell) {
      return (savings_[i][cell + 1] - savings_[i][cell]) / pages_of_cell / seconds;
    };
    if (above < placement::split_cells) values_[i].more = slope(above);
    if (below > 0) values_[i].less = slope(below - 1);
    effects.count(area_table[i].page_more, values_[i].more);
    effects.count(area_table[i].page_less, values_[i].less);
  }
}

placement::SplitState AllocatorCore::measure() const {
  placement::SplitState state;
  std::uint64_t hits = 0, misses = 0;  // of all areas but `first`
  for (std::size_t i = 0; i < report_->areas.size(); ++i) {
    const std::uint64_t area_hits = report_->areas[i].hits - before_->areas[i].hits;
    const std::uint64_t area_misses = report_->areas[i].misses - before_->areas[i].misses;
    if (i == config_.first) state.row_hits = rate(area_hits, area_misses);
    if (i == config_.first) continue;
    hits += area_hits;
    misses += area_misses;
  }
  state.kv_hits = rate(hits, misses);
  state.alpha = static_cast<double>(split_.areas[config_.first].pages) / config_.pages;
  measure_served(state);
  return state;
}

void AllocatorCore::measure_served(placement::SplitState& state) const {
  const ServedReport &now = report_->served, &before = before_->served;
  const auto requests = static_cast<double>(now.requests - before.requests);
  std::vector<std::uint64_t> latencies = now.latencies;
  if (now.requests <= before.requests || before.latencies.size() > latencies.size()) return;
  state.hot_share = static_cast<double>(now.hot_requests - before.hot_requests) / requests;
  state.length = std::min(
      1.0, static_cast<double>(now.user_tokens - before.user_tokens) / requests / config_.history_max);
  for (std::size_t i = 0; i < before.latencies.size(); ++i)
    latencies[i] -= std::min(before.latencies[i], latencies[i]);
  const auto objective_us = static_cast<double>(config_.objective.us);
  state.violations = placement::share_beyond(latencies, objective_us);
  state.p99 = std::min(1.0, placement::latency_quantile(latencies, 0.99) / (2 * objective_us));
}

// Returns true if the split changed.
bool AllocatorCore::set_shares(std::vector<double> shares) {
  const std::size_t rest = config_.first == 0 ? shares.size() - 1 : 0;
  shares[rest] = remaining_pages;
  for (double& share : shares)
    if (share != remaining_pages) share = std::clamp(share, 0.0, 1.0);
  const std::vector<std::uint32_t> pages = split_pages(config_.pages, shares);
  bool other = false;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    other = other || pages[i] != split_.areas[i].pages;
    split_.areas[i] = {pages[i], pages[i]};
  }
  if (other) split_.epoch = std::max(split_.epoch, report_->epoch) + 1;
  return other;
}

StatusReply AllocatorCore::status(RequestId id) const {
  StatusReply reply{id, config_.node, Role::allocator, settled(), {}};
  reply.fields = {{"split_epoch", std::to_string(split_.epoch)}};
  if (!config_.item_area.empty()) reply.fields.push_back({"item_area", config_.item_area});
  for (std::size_t i = 0; i < split_.areas.size(); ++i) {
    const std::string area(area_table[i].name);
    reply.fields.push_back({area + "_pages", std::to_string(split_.areas[i].pages)});
    if (!report_ || i >= report_->areas.size()) continue;
    const AreaReport& area_report = report_->areas[i];
    reply.fields.push_back({area + "_pages_used", std::to_string(area_report.used)});
    reply.fields.push_back({area + "_hits", std::to_string(area_report.hits)});
    reply.fields.push_back({area + "_misses", std::to_string(area_report.misses)});
    reply.fields.push_back({area + "_saved_ms", short_number(area_report.saved_us / 1'000)});
    if (split_.areas[i].pages > 0)
      reply.fields.push_back(
          {area + "_saved_us_per_page",
           short_number(area_report.saved_us / static_cast<double>(split_.areas[i].pages))});
    if (i >= values_.size()) continue;
    reply.fields.push_back({area + "_page_more_us_per_s", short_number(values_[i].more)});
    reply.fields.push_back({area + "_page_less_us_per_s", short_number(values_[i].less)});
  }
  return reply;
}

}  // namespace troupe::actors
