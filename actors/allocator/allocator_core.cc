#include "actors/allocator/allocator_core.h"

#include <algorithm>
#include <string>

#include "kernels/base/check.h"
#include "runtime/actor/planted.h"
#include "runtime/pages/pool_areas.h"

namespace troupe::actors {
namespace {

constexpr std::uint64_t retry_timer = 1;

}  // namespace

AllocatorCore::AllocatorCore(AllocatorConfig config) : config_(std::move(config)) {
  TROUPE_CHECK(config_.shares.size() <= std::size(area_table), "a share is of an area");
  for (const double share : config_.shares)
    TROUPE_CHECK(share == rest_of_pages || (share >= 0 && share <= 1), "a share is 0..1, or the rest");
  split_.epoch = 1;
  for (const std::uint32_t pages : split_pages(config_.pages, config_.shares)) {
    const bool for_blocks = area_table[split_.areas.size()].kinds != 0;
    split_.areas.push_back({pages, for_blocks ? 0 : pages});  // rows lend nothing
  }
}

void AllocatorCore::step(Instant now, const Event& event, Effects& effects) {
  if (const auto* fired = std::get_if<TimerFired>(&event)) {
    if (fired->timer == retry_timer) retrying_ = false;
    if (!settled() && !retrying_) set_split(now, effects);
  } else if (const auto* received = std::get_if<Received>(&event)) {
    if (const auto* report = std::get_if<PoolReport>(&received->message)) {
      on_report(now, received->from, *report, effects);
    } else if (const auto* request = std::get_if<StatusRequest>(&received->message)) {
      effects.send(received->from, status(request->id));
    } else {
      effects.count(Metric::protocol_errors);
    }
  }
}

void AllocatorCore::on_report(Instant now, Address from, const PoolReport& report, Effects& effects) {
  if (from != worker()) return effects.count(Metric::protocol_errors);
  if (report_ && report.incarnation < report_->incarnation) return;  // late, from an earlier process
  const bool restarted = !report_ || report.incarnation > report_->incarnation;
  report_ = report;
  follow(report);
  const bool again = planted(Bug::set_split_again) && report.epoch == split_.epoch;
  if ((!settled() || again) && (restarted || !retrying_)) set_split(now, effects);
}

// What the areas of a worker that has this split have lent to each other since.
void AllocatorCore::follow(const PoolReport& report) {
  if (report.epoch != split_.epoch || report.areas.size() != split_.areas.size()) return;
  for (std::size_t i = 0; i < split_.areas.size(); ++i) split_.areas[i].pages = report.areas[i].pages;
}

// Before the first report it names nobody: the worker does not obey, but reports.
void AllocatorCore::set_split(Instant now, Effects& effects) {
  split_.incarnation = report_ ? report_->incarnation : 0;
  effects.send(worker(), split_);
  if (!retrying_) effects.set_timer(retry_timer, now + config_.retry);
  retrying_ = true;
}

StatusReply AllocatorCore::status(RequestId id) const {
  StatusReply reply{id, config_.node, Role::allocator, settled(), {}};
  reply.fields = {{"split_epoch", std::to_string(split_.epoch)}};
  for (std::size_t i = 0; i < split_.areas.size(); ++i) {
    const std::string area(area_table[i].name);
    reply.fields.push_back({area + "_pages", std::to_string(split_.areas[i].pages)});
    if (!report_ || i >= report_->areas.size()) continue;
    const AreaReport& told = report_->areas[i];
    reply.fields.push_back({area + "_pages_used", std::to_string(told.used)});
    reply.fields.push_back({area + "_hits", std::to_string(told.hits)});
    reply.fields.push_back({area + "_misses", std::to_string(told.misses)});
  }
  return reply;
}

}  // namespace troupe::actors
