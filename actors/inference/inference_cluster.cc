// The worker as a part of the cluster: heartbeats, followed versions, drain and status.
#include <algorithm>

#include "actors/inference/inference_core.h"

namespace troupe::actors {

void InferenceCore::on_heartbeat_timer(Instant now, Effects& effects) {
  if (now < next_heartbeat_) return;
  next_heartbeat_ = now + config_.heartbeat;
  effects.set_timer(heartbeat_timer, next_heartbeat_);
  send_heartbeat(now, effects);
  lent_pages_.refill(now, effects);
  own_shards_.advance(now, !draining_, effects);
}

// Leaves background plans out of the waiting work: they do not overtake serving plans, and the
// router estimates how long its own request would take.
void InferenceCore::send_heartbeat(Instant now, Effects& effects) {
  Heartbeat beat;
  beat.incarnation = config_.incarnation;
  beat.sequence = ++heartbeats_;
  beat.draining = draining_;
  beat.slots = config_.slots;
  beat.slots_busy = std::min(static_cast<std::uint32_t>(batches_.size()), config_.slots);
  beat.plans_waiting = schedule_.waiting(false).plans;
  const placement::Work waiting = times_.work_of(schedule_.waiting(false));
  beat.operations_waiting = waiting.operations;
  beat.bytes_waiting = waiting.bytes;
  beat.passes_waiting = waiting.passes;
  const placement::Pace pace = times_.pace();
  beat.us_per_operation = pace.us_per_operation;
  beat.us_per_byte = pace.us_per_byte;
  beat.us_per_pass = pace.us_per_pass;
  beat.plans_executed = tasks_.executed();
  beat.versions_epoch = models_.models().versions().epoch;
  beat.models = models_.models().served(now);
  if (const auto& refused = models_.models().refused_next()) {
    beat.refused_model = refused->model;
    beat.refused_why = refused->why;
  }
  lent_pages_.report(beat);
  for (const NodeId router : routers_.nodes()) effects.send({router, Role::router}, beat);
}

void InferenceCore::on_versions(Instant now, Address from, const Versions& versions, Effects& effects) {
  models_.follow(now, versions);
  // The router has joined, and waits for a heartbeat.
  if (routers_.hear(from.node)) send_heartbeat(now, effects);
}

void InferenceCore::on_drain(Instant now, Address from, const Drain& drain, Effects& effects) {
  const bool is_news = drain.on != draining_;
  draining_ = drain.on;
  if (is_news) {
    send_heartbeat(now, effects);
    effects.log(LogLevel::info, draining_ ? "drain_begins" : "drain_ends");
  }
  effects.send(from, status(now, drain.id));
}

StatusReply InferenceCore::status(Instant now, RequestId id) const {
  StatusReply reply{id, config_.node, Role::inference_worker, !draining_ && models_.models().ready(now), {}};
  const auto field = [&](const char* name, std::uint64_t value) {
    reply.fields.push_back({name, std::to_string(value)});
  };
  if (!reply.ready)
    reply.fields.push_back(
        {"not_ready", draining_ ? "the worker is draining" : "the model that is served is not loaded"});
  field("incarnation", config_.incarnation);
  field("lanes", config_.slots);
  field("lanes_busy", batches_.size());
  field("plans_waiting", schedule_.waiting(false).plans);
  field("background_plans_waiting", schedule_.waiting(true).plans);
  field("plans_executed", tasks_.executed());
  field("versions_epoch", models_.models().versions().epoch);
  const RowTotals& rows = lent_pages_.totals();
  if (lent_pages_.were_lent()) {
    field("rows_hit", rows.hits);
    field("rows_missed", rows.misses);
    field("row_bytes_missed", rows.bytes_missed);
    field("row_bytes_refilled", rows.bytes_refilled);
  }
  if (shards_.any()) {
    field("rows_from_here", rows.from_here);
    field("rows_from_nodes", rows.from_nodes);
    field("rows_from_table", rows.from_table);
    field("shards_filled", own_shards_.filled());
  }
  std::string models;
  for (const std::string& model : models_.models().served(now)) models += (models.empty() ? "" : " ") + model;
  reply.fields.push_back({"models", models});
  reply.fields.push_back({"draining", draining_ ? "yes" : "no"});
  reply.fields.push_back({"drained", draining_ && tasks_.size() == 0 ? "yes" : "no"});
  return reply;
}

}  // namespace troupe::actors
