// Reads a router's placement plan again when its file has changed.
#include "deploy/node/placement_port.h"

#include <system_error>

#include "runtime/config/config.h"

namespace troupe::deploy {

PlacementPort::PlacementPort(PlanName plan, Port& next)
    : plan_(std::move(plan)), next_(next), seen_(stamp()) {}

JobResult PlacementPort::run(const Job& job, std::uint32_t slot) {
  if (!std::holds_alternative<ReadPlacement>(job)) return next_.run(job, slot);
  const std::lock_guard lock(mutex_);
  return read();
}

std::optional<PlacementPort::Stamp> PlacementPort::stamp() const {
  std::error_code fault;
  Stamp stamp{.written = std::filesystem::last_write_time(plan_.file, fault)};
  if (fault) return std::nullopt;
  stamp.bytes = std::filesystem::file_size(plan_.file, fault);
  return fault ? std::nullopt : std::optional(stamp);
}

// A missing file is about to be replaced: the plan is kept. An invalid one is reported once.
PlacementRead PlacementPort::read() {
  before_.reset();
  const std::optional<Stamp> now = stamp();
  if (!now || now == seen_) return {};
  seen_ = now;
  try {
    PlacementRead plan = read_item_plan(plan_);
    before_ = std::exchange(last_, plan.items);
    return plan;
  } catch (const ConfigError& error) {
    return {.why = error.what()};
  }
}

}  // namespace troupe::deploy
