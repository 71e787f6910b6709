#include "router/router_core.h"

#include <algorithm>

#include "kernels/check.h"

namespace troupe::router {
namespace {

Refusal overloaded(std::uint32_t most) {
  return {503, "overloaded", std::to_string(most) + " requests are in flight", "router",
          "a retry after a pause"};
}

Refusal too_late() {
  return {504, "deadline_exceeded", "the request's time is over", "router", "a larger budget or less load"};
}

}  // namespace

RouterCore::RouterCore(RouterConfig config)
    : config_(std::move(config)),
      next_id_(config_.first_id),
      precompute_(config_.precompute,
                  {{config_.kv_node, Role::kv_worker},
                   {config_.cache_meta_node, Role::cache_meta},
                   {config_.workers.at(0), Role::inference_worker}},
                  config_.form, config_.names) {
  TROUPE_CHECK(next_id_ > 0, "a request's timers lie above the precomputation's");
}

void RouterCore::step(Instant now, const Event& event, Effects& effects) {
  const Turn turn{now, next_id_, effects};
  if (const auto* received = std::get_if<Received>(&event)) {
    on_message(turn, *received);
  } else if (const auto* fired = std::get_if<TimerFired>(&event)) {
    on_timer(turn, fired->timer);
  } else if (const auto* done = std::get_if<Done>(&event)) {
    on_done(turn, *done);
  } else if (const auto* lost = std::get_if<PeerLost>(&event)) {
    on_worker_lost(turn, lost->node);
  }
}

void RouterCore::on_message(Turn turn, const Received& received) {
  const Message& message = received.message;
  const Address from = received.from;
  if (const auto* rank = std::get_if<RankRequest>(&message)) {
    on_rank(turn, from, *rank);
  } else if (const auto* score = std::get_if<ScoreRequest>(&message)) {
    on_score(turn, from, *score);
  } else if (const auto* put_user = std::get_if<PutUser>(&message)) {
    on_write(turn, from, *put_user);
  } else if (const auto* delete_user = std::get_if<DeleteUser>(&message)) {
    on_write(turn, from, *delete_user);
  } else if (const auto* put_item = std::get_if<PutItem>(&message)) {
    on_write(turn, from, *put_item);
  } else if (const auto* delete_item = std::get_if<DeleteItem>(&message)) {
    on_write(turn, from, *delete_item);
  } else if (const auto* request = std::get_if<StatusRequest>(&message)) {
    turn.effects.send(from, status(request->id));
  } else {
    on_answer(turn, received);
  }
}

// Answers to what this router asked. What finds nothing is late or doubled.
void RouterCore::on_answer(Turn turn, const Received& received) {
  const auto runs_at = [&](NodeId worker) {
    return received.from == Address{worker, Role::inference_worker};
  };
  if (const auto* found = std::get_if<BlocksFound>(&received.message)) {
    if (!precompute_.on_found(turn, *found)) on_found(turn, *found);
  } else if (const auto* executed = std::get_if<Executed>(&received.message)) {
    const auto ranking = rankings_.find(executed->id);
    const auto scoring = scorings_.find(executed->id);
    if (ranking != rankings_.end() && runs_at(ranking->second.worker)) {
      on_ranked(turn, executed->id, *executed);
    } else if (scoring != scorings_.end() && runs_at(scoring->second.worker)) {
      on_scored(turn, executed->id, *executed);
    } else {
      precompute_.on_executed(turn, *executed);
    }
  } else if (const auto* refused = std::get_if<Refused>(&received.message)) {
    if (!precompute_.on_refused(turn, *refused)) refuse_request(turn, refused->id, refused->refusal);
  } else if (const auto* reply = std::get_if<StatusReply>(&received.message)) {
    precompute_.on_status(turn, *reply);
  } else {
    turn.effects.count(Metric::protocol_errors);
  }
}

void RouterCore::on_done(Turn turn, const Done& done) {
  if (feature_jobs_.erase(done.job) > 0) return on_features(turn, done.job, done.result);
  if (writings_.count(done.job) > 0) return on_written(turn, done.job, done.result);
  TROUPE_CHECK(precompute_.on_listed(turn, done.job, done.result), "a job that ends was started");
}

// Timer 2 · serial is a request's deadline, timer 2 · serial + 1 the end of its wait for the index.
void RouterCore::on_timer(Turn turn, std::uint64_t timer) {
  if (timer == start_timer) return precompute_.start(turn);
  if (timer == precompute_timer) return precompute_.on_timer(turn);
  const Serial serial = timer / 2;
  const auto ranking = rankings_.find(serial);
  if (timer % 2 == 1) {
    if (ranking != rankings_.end() && ranking->second.stage == Stage::lookup)
      execute(turn, serial, ranking->second, std::nullopt);
    return;
  }
  const auto writing = writings_.find(serial);
  if (writing == writings_.end()) return refuse_request(turn, serial, too_late());
  if (writing->second.answered) return;
  refuse(turn, writing->second.asked, too_late());
  writing->second.answered = true;
}

void RouterCore::on_worker_lost(Turn turn, NodeId node) {
  std::vector<Serial> lost;
  for (const auto& [serial, ranking] : rankings_)
    if (ranking.worker == node) lost.push_back(serial);
  for (const auto& [serial, scoring] : scorings_)
    if (scoring.worker == node) lost.push_back(serial);
  const Refusal refusal{503, "worker_lost", "node " + std::to_string(node) + " is gone", "inference worker",
                        "a retry after a pause"};
  for (const Serial serial : lost) refuse_request(turn, serial, refusal);
}

// ---- writes ----

template <class Request>
void RouterCore::on_write(Turn turn, Address from, const Request& request) {
  if (open_.count({from, request.id}) > 0) return;
  const Asked asked{from, request.id, turn.now, turn.now + config_.budget};
  if (const auto fault = find_fault(request, config_.form, config_.limits))
    return refuse(turn, asked, *fault);
  if (writings_.size() >= config_.writes_in_flight_max)
    return refuse(turn, asked, overloaded(config_.writes_in_flight_max));
  const Serial serial = next_id_++;
  open_.insert({from, request.id});
  writings_[serial] = {asked, Write{request}};
  turn.effects.set_timer(serial * 2, asked.deadline);
  turn.effects.start(serial, Write{request});
}

void RouterCore::on_written(Turn turn, Serial serial, const JobResult& result) {
  const Writing writing = std::move(writings_.at(serial));
  writings_.erase(serial);
  const auto* written = std::get_if<Written>(&result);
  if (written) spread_news(turn, writing.write);
  if (writing.answered) return;
  if (!written) return refuse(turn, writing.asked, std::get<Refusal>(result));
  open_.erase({writing.asked.from, writing.asked.id});
  turn.effects.send(writing.asked.from, Stored{writing.asked.id, written->version});
}

// Blocks of the old content are never asked for again, since they have another name; telling the cache frees
// their pages. A new item is computed ahead like the rest of the catalog.
void RouterCore::spread_news(Turn turn, const Write& write) {
  if (const auto* put = std::get_if<PutUser>(&write.what)) {
    turn.effects.send(cache_meta(), Forget{SegmentKind::user, user_key(put->tenant, put->user)});
  } else if (const auto* remove = std::get_if<DeleteUser>(&write.what)) {
    turn.effects.send(cache_meta(), Forget{SegmentKind::user, user_key(remove->tenant, remove->user)});
  } else if (const auto* item = std::get_if<PutItem>(&write.what)) {
    turn.effects.send(cache_meta(), Forget{SegmentKind::item, item->item});
    precompute_.add(turn, {item->item, item->title, item->tokens, item->identifier,
                           item_block(config_.form, config_.names, item->tokens)});
  } else if (const auto* gone = std::get_if<DeleteItem>(&write.what)) {
    turn.effects.send(cache_meta(), Forget{SegmentKind::item, gone->item});
    precompute_.drop(gone->item);
  }
}

// ---- admission and ends ----

bool RouterCore::admit(Turn turn, Address from, RequestId id, const std::optional<Refusal>& fault) {
  if (open_.count({from, id}) > 0) return false;  // doubled
  const Asked asked{from, id, turn.now, turn.now};
  if (fault) {
    refuse(turn, asked, *fault);
  } else if (rankings_.size() + scorings_.size() >= config_.in_flight_max ||
             feature_jobs_.size() >= config_.in_flight_max) {
    refuse(turn, asked, overloaded(config_.in_flight_max));
  } else {
    return true;
  }
  return false;
}

RouterCore::Asked RouterCore::ask(Turn turn, Address from, RequestId id, Serial serial,
                                  std::int64_t budget_us) {
  const Asked asked{from, id, turn.now, turn.now + budget_of(budget_us)};
  open_.insert({from, id});
  turn.effects.set_timer(serial * 2, asked.deadline);
  return asked;
}

Duration RouterCore::budget_of(std::int64_t budget_us) const {
  return {std::min(budget_us > 0 ? budget_us : config_.budget.us, config_.budget_max.us)};
}

void RouterCore::refuse(Turn turn, const Asked& asked, Refusal refusal) {
  turn.effects.count(refusal.status == 504 ? Metric::requests_expired : Metric::requests_refused);
  ++refused_;
  open_.erase({asked.from, asked.id});
  turn.effects.send(asked.from, Refused{asked.id, std::move(refusal)});
}

void RouterCore::refuse_request(Turn turn, Serial serial, const Refusal& refusal) {
  const auto ranking = rankings_.find(serial);
  const auto scoring = scorings_.find(serial);
  if (ranking != rankings_.end()) {
    refuse(turn, ranking->second.asked, refusal);
  } else if (scoring != scorings_.end()) {
    refuse(turn, scoring->second.asked, refusal);
  } else {
    return;  // it has its outcome
  }
  rankings_.erase(serial);
  scorings_.erase(serial);
  count_in_flight(turn);
}

// After its answer was sent.
void RouterCore::close(Turn turn, const Asked& asked, Serial serial) {
  ++answered_;
  turn.effects.count(Metric::request_seconds, static_cast<double>((turn.now - asked.received).us) * 1e-6);
  open_.erase({asked.from, asked.id});
  rankings_.erase(serial);
  scorings_.erase(serial);
  count_in_flight(turn);
}

void RouterCore::count_in_flight(Turn turn) const {
  turn.effects.count(Metric::requests_in_flight, static_cast<double>(rankings_.size() + scorings_.size()));
}

std::vector<RouterCore::SentSegment> RouterCore::remember(const std::vector<PlannedSegment>& segments) {
  std::vector<SentSegment> sent;
  for (const PlannedSegment& segment : segments)
    sent.push_back(
        {segment.kind, static_cast<std::uint32_t>(segment.tokens.size()), segment.block.has_value()});
  return sent;
}

TokenCount RouterCore::count_tokens(Turn turn, const std::vector<SentSegment>& sent,
                                    const Executed& executed) {
  TokenCount count;
  double hits[2] = {}, misses[2] = {};  // of items (and the system prompt), of users
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const bool reused = executed.reused[i] != 0;
    count.total += sent[i].tokens;
    (reused ? count.reused : count.computed) += sent[i].tokens;
    count.blocks_reused += reused;
    if (sent[i].named) ++(reused ? hits : misses)[sent[i].kind == SegmentKind::user];
  }
  turn.effects.count(Metric::tokens_total, count.total);
  turn.effects.count(Metric::tokens_computed, count.computed);
  turn.effects.count(Metric::tokens_reused, count.reused);
  turn.effects.count(Metric::blocks_hit_item, hits[0]);
  turn.effects.count(Metric::blocks_hit_user, hits[1]);
  turn.effects.count(Metric::blocks_computed_item, misses[0]);
  turn.effects.count(Metric::blocks_computed_user, misses[1]);
  return count;
}

StatusReply RouterCore::status(RequestId id) const {
  StatusReply reply{id, config_.node, Role::router, true, {}};
  const auto field = [&](const char* name, std::string value) {
    reply.fields.push_back({name, std::move(value)});
  };
  field("model_version", config_.names.model_version);
  field("catalog_version", catalog_version_);
  field("policy", std::string(name_of(config_.policy)));
  field("requests_in_flight", std::to_string(rankings_.size() + scorings_.size()));
  field("writes_in_flight", std::to_string(writings_.size()));
  field("requests_answered", std::to_string(answered_));
  field("requests_refused", std::to_string(refused_));
  field("precompute", std::string(precompute_.state()));
  field("items_precomputed", std::to_string(precompute_.items_precomputed()));
  return reply;
}

}  // namespace troupe::router
