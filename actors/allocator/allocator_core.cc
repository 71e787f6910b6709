#include "actors/allocator/allocator_core.h"

#include <cmath>
#include <string>

#include "kernels/base/check.h"

namespace troupe::actors {
namespace {

constexpr std::uint64_t retry_timer = 1;

}  // namespace

AllocatorCore::AllocatorCore(AllocatorConfig config) : config_(config) {
  TROUPE_CHECK(config.item_share >= 0 && config.item_share <= 1, "item_share is a share; expected 0..1");
  split_.epoch = 1;
  split_.item_pages = static_cast<std::uint64_t>(std::floor(config.pages * config.item_share));
  split_.user_pages = config.pages - split_.item_pages;
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
  if (!settled() && (restarted || !retrying_)) set_split(now, effects);
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
  reply.fields = {{"split_epoch", std::to_string(split_.epoch)},
                  {"item_pages", std::to_string(split_.item_pages)},
                  {"user_pages", std::to_string(split_.user_pages)}};
  if (report_) {
    reply.fields.push_back({"item_pages_used", std::to_string(report_->item_pages_used)});
    reply.fields.push_back({"user_pages_used", std::to_string(report_->user_pages_used)});
  }
  return reply;
}

}  // namespace troupe::actors
