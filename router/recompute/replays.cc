// Records answered requests in the order of their answers, finds a record, has a worker compute its
// plan, and compares the result with what was answered.
#include "router/recompute/replays.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "router/flights/answer_check.h"
#include "router/flights/timers.h"

namespace troupe::router {
namespace {

constexpr std::size_t request_id_bytes_max = 128;  // of x-request-id

Refusal replay_off() {
  return {RefusalKind::not_found, "replay_off", "this cluster does not record its answers", "replay.keep",
          "replay.keep above 0, set before the request was answered"};
}

std::string seconds_text(Duration time) {
  constexpr std::int64_t us_per_s = 1'000'000;
  return std::to_string(time.us / us_per_s) + " s";
}

Refusal no_record(const std::string& request_id, Duration keep) {
  return {RefusalKind::not_found, "no_record", "there is no record of request \"" + request_id + "\"",
          "request_id",
          "the x-request-id of an answer to this tenant of the last " + seconds_text(keep) +
              " (replay.keep) whose user was not deleted since; beyond replay.bytes_max the oldest records "
              "are dropped"};
}

Refusal suspect() {
  return {RefusalKind::unprocessable, "poison", "workers were lost while they ran this request", "request",
          "another request"};
}

std::uint64_t tokens_of(const Plan& plan) {
  std::uint64_t tokens = 0;
  for (const Segment& segment : plan.segments) tokens += segment.tokens.size() + 2 * segment.features.size();
  return tokens;
}

std::string path_text(std::span<const Token> path) {
  std::string text;
  for (const Token token : path) text += (text.empty() ? "" : " ") + std::to_string(token);
  return text;
}

// Names the values of an answer, in the order in which `recorded_values` lists them.
std::vector<std::string> names_of(const AnsweredPlan& answered, const Request& request,
                                  const PromptForm& form) {
  std::vector<std::string> names;
  for (const Beam& beam : answered.beams) names.push_back(path_text(beam.path));
  if (!answered.beams.empty()) return names;
  for (const ItemView& item : request.items()) {
    if (form.tasks.empty()) names.emplace_back(item.id);
    for (const std::string& task : form.tasks) names.push_back(std::string(item.id) + " (" + task + ")");
  }
  if (!names.empty()) return names;
  for (std::size_t i = 0; i < answered.plan.readouts.size(); ++i)
    for (const Token row : answered.plan.readouts[i].rows)
      names.push_back("items[" + std::to_string(i) + "], token " + std::to_string(row));
  return names;
}

// Returns all scores. With two for each of `count` names they are yes and no, whose difference is the
// candidate's score.
std::vector<double> scores_of(const std::vector<ScoreRow>& rows, std::size_t count) {
  std::vector<double> scores;
  for (const ScoreRow& row : rows) scores.insert(scores.end(), row.scores.begin(), row.scores.end());
  if (scores.size() != 2 * count) return scores;
  for (std::size_t i = 0; i < count; ++i) scores[i] = scores[2 * i] - scores[2 * i + 1];
  scores.resize(count);
  return scores;
}

std::vector<double> recorded_values(const AnsweredPlan& answered, std::size_t count) {
  if (answered.beams.empty()) return scores_of(answered.rows, count);
  std::vector<double> values;
  for (const Beam& beam : answered.beams) values.push_back(beam.log_probability);
  return values;
}

// Returns the values in the order of the recorded ones. A recorded path that the replay did not find
// has the value of the path with its rank.
std::vector<double> replayed_values(const Executed& recorded, const Executed& again, std::size_t count) {
  if (recorded.beams.empty()) return scores_of(again.readouts, count);
  std::vector<double> values;
  for (std::size_t rank = 0; rank < recorded.beams.size() && rank < again.beams.size(); ++rank) {
    const auto same = std::ranges::find(again.beams, recorded.beams[rank].path, &Beam::path);
    values.push_back((same != again.beams.end() ? *same : again.beams[rank]).log_probability);
  }
  return values;
}

AnswerRecord record_of(AnsweredPlan&& answered, const Request& request, const PromptForm& form) {
  AnswerRecord record{.plan = recompute(answered, 0, {0})};
  ReplayReply& reply = record.reply;
  const std::vector<std::string> names = names_of(answered, request, form);
  const std::vector<double> values = recorded_values(answered, names.size());
  for (std::size_t i = 0; i < names.size() && i < values.size(); ++i)
    reply.values.push_back({names[i], values[i], 0});
  reply.request_id = std::move(answered.request_id);
  reply.kind = answered.kind;
  reply.tenant = std::move(answered.tenant);
  reply.user = std::move(answered.user);
  reply.model_version = answered.model_version;
  reply.catalog_version = std::move(answered.catalog_version);
  reply.profile_version = answered.profile_version;
  reply.plan = answered.plan_name;
  record.answer = {.readouts = std::move(answered.rows),
                   .model_version = std::move(answered.model_version),
                   .beams = std::move(answered.beams)};
  return record;
}

}  // namespace

// ---- records ----

// A request without any id could not be asked for.
void Replays::note(Step step, const Flight& flight, NodeId node, const Executed& executed) {
  if (!is_on()) return;
  const Request& request = *flight.request;
  if (request.client_request_id().empty() && !request.trace().is_there()) return;
  if (was_deleted_since(flight)) return;
  const std::uint64_t tokens = tokens_of(flight.plans.front().candidate.plan);
  if (noted_.size() >= config_.replay.pending_max ||
      (!noted_.empty() && noted_tokens_ + tokens > config_.replay.pending_tokens_max))
    return lose_records(step, 1, "");
  noted_.push_back(record_of(answered_plan(flight, node, executed), request, config_.form));
  noted_.back().fingerprint = flight.fingerprint;
  noted_tokens_ += tokens;
  start_next(step);
}

// The answer may be made of the profile that was deleted.
bool Replays::was_deleted_since(const Flight& flight) const {
  const Request& request = *flight.request;
  const auto at = deleted_lately_.find({std::string(request.tenant()), std::string(request.named_user())});
  return at != deleted_lately_.end() && flight.origin.received <= at->second;
}

// If too many deletions wait, the next sweep finds that these users have no profiles.
void Replays::forget_user(Step step, const std::string& tenant, const std::string& user) {
  if (!is_on()) return;
  std::erase_if(noted_, [&](const AnswerRecord& record) {
    return record.reply.user == user && record.reply.tenant == tenant;
  });
  if (deleted_lately_.size() < config_.replay.deleted_max) deleted_lately_[{tenant, user}] = step.now;
  if (deleted_.size() < config_.replay.deleted_max)
    deleted_.push_back({tenant, user});
  else
    must_sweep_ = true;
  start_next(step);
}

void Replays::on_beat(Step step) {
  if (!is_on()) return;
  std::erase_if(deleted_lately_,
                [&](const auto& deleted) { return deleted.second + config_.budget < step.now; });
  if (step.now >= next_sweep_) {
    must_sweep_ = true;
    next_sweep_ = step.now + config_.replay.sweep_every;
  }
  start_next(step);
}

void Replays::start_next(Step step) {
  if (job_ != 0) return;
  if (auto next = next_job()) step.effects.start(job_ = step.next_id++, *std::move(next));
}

std::optional<Job> Replays::next_job() {
  job_records_ = 0;
  job_replay_ = 0;
  if (!deleted_.empty()) return DropRecords{std::exchange(deleted_, {})};
  for (; !finds_.empty(); finds_.pop_front()) {
    const auto at = replays_.find(finds_.front());
    if (at == replays_.end()) continue;  // its deadline has passed
    job_replay_ = at->first;
    finds_.pop_front();
    return FindRecord{at->second.request.tenant, at->second.request.request_id};
  }
  if (must_sweep_ && (noted_.empty() || !swept_last_)) {
    must_sweep_ = false;
    swept_last_ = true;
    return SweepRecords{};
  }
  if (noted_.empty()) return std::nullopt;
  swept_last_ = false;
  job_records_ = noted_.size();
  noted_tokens_ = 0;
  return KeepRecords{std::exchange(noted_, {})};
}

bool Replays::on_done(Step step, std::uint64_t job, JobResult& result) {
  if (job_ == 0 || job != job_) return false;
  job_ = 0;
  if (auto* found = std::get_if<FoundRecord>(&result))
    on_found(step, job_replay_, std::move(found->record));
  else if (auto* refusal = std::get_if<Refusal>(&result))
    on_failed(step, std::move(*refusal));
  else
    on_changed(step, std::get<RecordsChanged>(result));
  start_next(step);
  return true;
}

// Records that could not be erased are erased by the next sweep.
void Replays::on_changed(Step step, const RecordsChanged& changed) {
  records_ = changed.records;
  bytes_ = changed.bytes;
  must_sweep_ = must_sweep_ || changed.more;
  if (job_records_ == 0) return;
  const std::uint64_t lost = std::min(changed.lost, job_records_);
  step.effects.count(Metric::replay_recorded, static_cast<double>(job_records_ - lost));
  if (lost > 0) return lose_records(step, lost, changed.why);
  failing_ = false;
}

void Replays::on_failed(Step step, Refusal&& refusal) {
  if (job_records_ > 0) return lose_records(step, job_records_, refusal.what);
  if (const auto at = replays_.find(job_replay_); at != replays_.end()) refuse(step, at, std::move(refusal));
}

// Logs the first of several failures. `why` is empty if answers only came too fast.
void Replays::lose_records(Step step, std::uint64_t count, const std::string& why) {
  lost_ += count;
  step.effects.count(Metric::replay_dropped, static_cast<double>(count));
  if (!why.empty() && !std::exchange(failing_, true))
    step.effects.log(LogLevel::warning, "records_lost", {{"records", count}, {"why", why}});
}

const AnswerRecord* Replays::find_noted(const ReplayRequest& request) const {
  const auto at = std::find_if(noted_.rbegin(), noted_.rend(), [&](const AnswerRecord& record) {
    return record.reply.request_id == request.request_id && record.reply.tenant == request.tenant;
  });
  return at == noted_.rend() ? nullptr : &*at;
}

// ---- replays ----

std::optional<Refusal> Replays::reject(Instant now, const ReplayRequest& request) const {
  if (auto refusal = availability_.refusal(now)) return refusal;
  if (!is_on()) return replay_off();
  const std::string& id = request.request_id;
  if (id.empty() || id.size() > request_id_bytes_max)
    return Refusal{RefusalKind::malformed, "bad_request_id", "the request id is empty or too long",
                   "request_id", "1.." + std::to_string(request_id_bytes_max) + " bytes, as in x-request-id"};
  if (replays_.size() < config_.replay.replays_max) return std::nullopt;
  return Refusal{RefusalKind::unavailable, "overloaded",
                 std::to_string(config_.replay.replays_max) + " replays are running", "router",
                 "a retry after a pause"};
}

void Replays::on_request(Step step, Address from, ReplayRequest&& request) {
  if (outcomes_.is_copy(from, request.id)) return;
  const RequestOrigin origin{from, request.id, step.now, step.now + config_.budget};
  if (auto refusal = reject(step.now, request)) return outcomes_.refuse(step, origin, std::move(*refusal));
  const Serial serial = step.next_id++;
  outcomes_.open(origin);
  step.effects.set_timer(timer_of(serial, TimerKind::deadline), origin.deadline);
  const AnswerRecord* noted = find_noted(request);
  Replay& replay =
      replays_.emplace(serial, Replay{.origin = origin, .request = std::move(request)}).first->second;
  if (noted) {
    replay.record = *noted;
    return compute(step, serial, replay);
  }
  finds_.push_back(serial);
  start_next(step);
}

void Replays::on_found(Step step, Serial serial, std::optional<AnswerRecord> record) {
  const auto at = replays_.find(serial);
  if (at == replays_.end()) return;
  if (!record) return ask_others(step, serial, at->second);
  at->second.record = std::move(record);
  compute(step, serial, at->second);
}

void Replays::ask_others(Step step, Serial serial, Replay& replay) {
  if (!replay.request.forwarded)
    for (const NodeId node : others_.nodes()) replay.asked.insert(node);
  if (!replay.asked.empty())
    others_.send(step, ReplayRequest{serial, replay.request.request_id, true, replay.request.tenant});
  refuse_if_nobody_has_it(step, replays_.find(serial));
}

// A router that drains or is busy may have the record.
void Replays::refuse_if_nobody_has_it(Step step, Running::iterator at) {
  Replay& replay = at->second;
  if (!replay.asked.empty()) return;
  if (replay.refusal) return refuse(step, at, *std::move(replay.refusal));
  refuse(step, at, no_record(replay.request.request_id, config_.replay.keep));
}

std::optional<Refusal> Replays::reject_if_gone(const AnswerRecord& record) const {
  const Versions& served = versions_.versions();
  const std::string& version = record.plan.model_version;
  if (version == served.model_version || (!served.next_model.empty() && version == served.next_model))
    return std::nullopt;
  return Refusal{RefusalKind::conflict, "version_gone",
                 "the request was answered by model " + version + ", which is no longer served", "model",
                 "model " + version + " served again (served now: " + served.model_version +
                     (served.next_model.empty() ? "" : " and " + served.next_model) + ")"};
}

// Returns the worker with the shortest wait, a slow one only if there is no other; 0 = none.
NodeId Replays::choose_worker(Instant now, const Replay& replay) const {
  NodeId chosen = 0;
  const auto rank = [&](NodeId node) {
    return std::pair(workers_.avoided(now, node), workers_.wait_us(now, node));
  };
  for (const NodeId node : workers_.nodes())
    if (workers_.usable(now, node, replay.record->plan.model_version) && !replay.tried.contains(node) &&
        (chosen == 0 || rank(node) < rank(chosen)))
      chosen = node;
  return chosen;
}

void Replays::compute(Step step, Serial serial, Replay& replay) {
  if (auto gone = reject_if_gone(*replay.record))
    return refuse(step, replays_.find(serial), std::move(*gone));
  if (attempts_.is_suspect(step.now, replay.record->fingerprint))
    return refuse(step, replays_.find(serial), suspect());
  replay.node = choose_worker(step.now, replay);
  if (replay.node == 0)
    return refuse(step, replays_.find(serial),
                  {RefusalKind::unavailable, "no_worker",
                   "no worker can compute with model " + replay.record->plan.model_version + " now", "router",
                   "a live worker that has loaded it"});
  replay.process = workers_.last_heard(replay.node)->incarnation;
  Execute execute = replay.record->plan;
  execute.id = serial;
  execute.budget_us = (replay.origin.deadline - step.now).us;
  execute.alone = true;
  step.effects.send({replay.node, Role::inference_worker}, std::move(execute));
}

// ---- ends ----

void Replays::refuse(Step step, Running::iterator at, Refusal refusal) {
  const RequestOrigin origin = at->second.origin;
  replays_.erase(at);
  outcomes_.refuse(step, origin, std::move(refusal));
}

bool Replays::on_executed(Step step, Address from, const Executed& executed) {
  const auto at = replays_.find(executed.id);
  if (at == replays_.end()) return false;
  const Replay& replay = at->second;
  if (replay.node == 0 || from.node != replay.node) return true;
  if (auto fault = validate_answer(replay.record->plan.plan, replay.record->plan.model_version, executed)) {
    refuse(step, at, std::move(*fault));
    return true;
  }
  ReplayReply reply = reply_of(replay, executed);
  const RequestOrigin origin = replay.origin;
  replays_.erase(at);
  outcomes_.answer(step, origin, std::move(reply));
  return true;
}

// The difference is that of the logits and log probabilities, from which the values are made.
ReplayReply Replays::reply_of(const Replay& replay, const Executed& executed) const {
  const Executed& recorded = replay.record->answer;
  ReplayReply reply = replay.record->reply;
  reply.id = replay.origin.id;
  reply.node = replay.node;
  const std::vector<double> values = replayed_values(recorded, executed, reply.values.size());
  for (std::size_t i = 0; i < reply.values.size() && i < values.size(); ++i)
    reply.values[i].replayed = values[i];
  AnsweredPlan answered;
  answered.rows = recorded.readouts;
  answered.beams = recorded.beams;
  const Difference difference = compare(answered, executed, config_.replay.rounding);
  // JSON has no infinity, which stands for results of another shape
  reply.largest_difference = std::min(difference.largest, std::numeric_limits<double>::max());
  reply.bound = difference.bound;
  reply.equal = difference.is_rounding();
  return reply;
}

// A worker that is busy, drains or lacks the version sends the replay to another one. A device that
// failed does not: it may have failed because of the request.
bool Replays::on_refused(Step step, Address from, const Refused& refused) {
  const auto at = replays_.find(refused.id);
  if (at == replays_.end()) return false;
  Replay& replay = at->second;
  const Refusal& refusal = refused.refusal;
  if (from.role == Role::router) {
    if (replay.asked.erase(from.node) == 0) return true;
    if (refusal.code != "no_record" && refusal.code != "replay_off" && !replay.refusal)
      replay.refusal = refusal;
    refuse_if_nobody_has_it(step, at);
    return true;
  }
  if (replay.node == 0 || from.node != replay.node) return true;
  replay.tried.insert(from.node);
  const bool passes = refusal.kind == RefusalKind::unavailable && !refusal.code.starts_with("device_");
  if (passes && choose_worker(step.now, replay) != 0)
    compute(step, at->first, replay);
  else if (refusal.code == "wrong_catalog")
    refuse(step, at,
           {RefusalKind::conflict, "version_gone",
            "the request was answered with catalog " + replay.record->plan.catalog_version +
                ", which no worker has any more",
            "catalog", "the catalog of that version"});
  else
    refuse(step, at, refusal);
  return true;
}

void Replays::on_reply(Step step, Address from, ReplayReply&& reply) {
  const auto at = replays_.find(reply.id);
  if (at == replays_.end() || !at->second.asked.contains(from.node)) return;
  const RequestOrigin origin = at->second.origin;
  replays_.erase(at);
  reply.id = origin.id;
  outcomes_.answer(step, origin, std::move(reply));
}

void Replays::on_deadline(Step step, std::uint64_t serial) {
  const auto at = replays_.find(serial);
  if (at == replays_.end()) return;
  const Replay& replay = at->second;
  if (replay.node != 0)
    return refuse(step, at,
                  {RefusalKind::deadline_exceeded, "deadline_exceeded",
                   "no worker was idle for long enough to compute the request again", "router",
                   "a retry when there is less load"});
  if (replay.asked.empty()) return refuse(step, at, deadline_passed());
  Refusal refusal = no_record(replay.request.request_id, config_.replay.keep);
  refusal.what +=
      " at the routers that answered; router " + std::to_string(*replay.asked.begin()) + " did not";
  refuse(step, at, std::move(refusal));
}

// A worker may have died of the request, so no other one gets it.
void Replays::lose(Step step, std::span<const NodeId> workers) {
  for (auto at = replays_.begin(); at != replays_.end();) {
    const auto replay = at++;
    const auto& [serial, lost] = *replay;
    if (lost.node == 0 || std::ranges::find(workers, lost.node) == workers.end()) continue;
    if (lost.process != 0)
      attempts_.strike(step, lost.record->fingerprint,
                       {lost.node, lost.process, workers_.proof_of_life(step.now, lost.node)});
    refuse(step, replay,
           {RefusalKind::unavailable, "worker_lost", "the worker that computed the request again was lost",
            "inference worker", "a retry, unless workers are lost again"});
  }
}

void Replays::lose_router(Step step, NodeId node) {
  for (auto at = replays_.begin(); at != replays_.end();) {
    const auto replay = at++;
    if (replay->second.asked.erase(node) > 0) refuse_if_nobody_has_it(step, replay);
  }
}

}  // namespace troupe::router
