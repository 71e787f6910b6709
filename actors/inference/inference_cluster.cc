// The worker as a part of the cluster: heartbeats, followed versions, drain and status.
#include <algorithm>

#include "actors/inference/inference_core.h"
#include "runtime/actor/mutants.h"

namespace troupe::actors {

void InferenceCore::on_heartbeat(Instant now, Effects& effects) {
  if (now < next_heartbeat_) return;
  next_heartbeat_ = now + config_.heartbeat;
  effects.set_timer(heartbeat_timer, next_heartbeat_);
  send_heartbeat(now, effects);
  refill_rows(now, effects);
  advance_own_shards(now, effects);
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
  beat.plans_waiting = waiting_[0].plans;
  const placement::Work waiting = work_of(waiting_[0]);
  beat.operations_waiting = waiting.operations;
  beat.bytes_waiting = waiting.bytes;
  beat.passes_waiting = waiting.passes;
  const placement::Pace pace = config_.nominal_pace * slowness_.times();
  beat.us_per_operation = pace.us_per_operation;
  beat.us_per_byte = pace.us_per_byte;
  beat.us_per_pass = pace.us_per_pass;
  beat.plans_executed = executed_;
  beat.versions_epoch = models_.versions().epoch;
  beat.models = models_.served(now);
  if (const auto& refused = models_.refused_next()) {
    beat.refused_model = refused->model;
    beat.refused_why = refused->why;
  }
  report_shards(beat);
  for (const NodeId router : routers_.nodes()) effects.send({router, Role::router}, beat);
}

// Sends no trailing shards of which no rows were wanted.
void InferenceCore::report_shards(Heartbeat& beat) const {
  const ShardHitRates& shards = rows_.counted.shards;
  if (shards.shard_rows == 0) return;
  beat.us_per_row = shards.us_per_row;
  beat.shard_rows = shards.shard_rows;
  beat.rows_found.assign(shards.hundredths.begin(), shards.hundredths.end());
  while (!beat.rows_found.empty() && beat.rows_found.back() == 0) beat.rows_found.pop_back();
}

void InferenceCore::on_versions(Instant now, Address from, const Versions& versions, Effects& effects) {
  if (from.role != Role::router) return effects.count(Metric::protocol_errors);
  models_.follow(now, versions);
  // The router has joined, and waits for a heartbeat.
  if (routers_.hear(from.node)) send_heartbeat(now, effects);
}

void InferenceCore::change_models(Instant now, Effects& effects) {
  const auto needed = [this](const std::string& model) {
    return std::any_of(tasks_.begin(), tasks_.end(),
                       [&](const auto& entry) { return model_of(entry.second.plan) == model; });
  };
  auto change = models_.next_change(now, needed);
  if (!change) return;
  model_job_ = next_serial_++;
  effects.start(model_job_, std::move(*change));
}

void InferenceCore::on_model_changed(Instant now, const JobDone& done, Effects& effects) {
  const auto* refusal = std::get_if<Refusal>(&done.result);
  const std::string model = models_.end_change(now, refusal == nullptr);
  model_job_ = 0;
  if (!refusal) {
    logged_refusal_.clear();
    const char* event = models_.has(model) ? "model_loaded" : "model_dropped";
    return effects.log(LogLevel::info, event, {{"model", model}});
  }
  models_.note_refusal(model, *refusal);
  const std::string counted = model + ": " + refusal->what;
  if (counted == logged_refusal_) return;  // retries are ever rarer, and log nothing new
  logged_refusal_ = counted;
  effects.log(
      LogLevel::warning, "model_change_failed",
      {{"model", model}, {"code", refusal->code}, {"what", refusal->what}, {"expected", refusal->expected}});
}

void InferenceCore::on_drain(Instant now, Address from, const Drain& drain, Effects& effects) {
  const bool is_news = drain.on != draining_;
  draining_ = drain.on;
  if (draining_ && mutated(Mutant::drop_on_drain)) drop_waiting([](const Task&) { return true; }, effects);
  if (is_news) {
    send_heartbeat(now, effects);
    effects.log(LogLevel::info, draining_ ? "drain_begins" : "drain_ends");
  }
  effects.send(from, status(now, drain.id));
}

StatusReply InferenceCore::status(Instant now, RequestId id) const {
  StatusReply reply{id, config_.node, Role::inference_worker, !draining_ && models_.ready(now), {}};
  const auto field = [&](const char* name, std::uint64_t value) {
    reply.fields.push_back({name, std::to_string(value)});
  };
  if (!reply.ready)
    reply.fields.push_back(
        {"not_ready", draining_ ? "the worker is draining" : "the model that is served is not loaded"});
  field("incarnation", config_.incarnation);
  field("lanes", config_.slots);
  field("lanes_busy", batches_.size());
  field("plans_waiting", waiting_[0].plans);
  field("background_plans_waiting", waiting_[1].plans);
  field("plans_executed", executed_);
  field("versions_epoch", models_.versions().epoch);
  if (rows_.answer.number > 0) {
    field("rows_hit", rows_.counted.hits);
    field("rows_missed", rows_.counted.misses);
    field("row_bytes_missed", rows_.counted.bytes_missed);
    field("row_bytes_refilled", rows_.counted.bytes_refilled);
  }
  if (is_sharded()) {
    field("rows_from_here", rows_.counted.from_here);
    field("rows_from_nodes", rows_.counted.from_nodes);
    field("rows_from_table", rows_.counted.from_table);
    field("shards_filled", own_shard_walk_.filled);
  }
  std::string models;
  for (const std::string& model : models_.served(now)) models += (models.empty() ? "" : " ") + model;
  reply.fields.push_back({"models", models});
  reply.fields.push_back({"draining", draining_ ? "yes" : "no"});
  reply.fields.push_back({"drained", draining_ && tasks_.empty() ? "yes" : "no"});
  return reply;
}

}  // namespace troupe::actors
