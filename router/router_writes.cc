// Handles changes of profiles and items: the port stores them, the client gets an answer, and the
// caches are told. Also handles reads of stored data. If a job hangs, its request is answered at
// its deadline, and the caches are told when the job ends.
#include "router/router_core.h"

#include "runtime/actor/mutants.h"
#include "runtime/actor/user_home.h"

namespace troupe::router {
namespace {

Message answer_to(const Write& write, RequestId id, const WriteResult& written) {
  if (std::holds_alternative<AppendEvents>(write.what))
    return Appended{id, written.version, written.appended, written.repeated, written.dropped, written.events};
  return Stored{id, written.version};
}

}  // namespace

// Refuses if no new job may start.
std::optional<Refusal> RouterCore::reject_if_jobs_full(Instant now) const {
  if (draining_) return reject_if_unavailable(now);
  if (writings_.size() + readings_.size() >= config_.writes_in_flight_max)
    return too_many_requests(config_.writes_in_flight_max);
  return std::nullopt;
}

template <class Request>
void RouterCore::on_write(Step step, Address from, const Request& request) {
  if (is_copy(from, request.id)) return;
  const RequestOrigin asked{from, request.id, step.now, step.now + config_.budget};
  const auto fault = validate(request, config_.form, config_.limits);
  if (fault && !mutated(Mutant::take_nonsense)) return refuse(step, asked, *fault);
  if (const auto obstacle = reject_if_jobs_full(step.now)) return refuse(step, asked, *obstacle);
  const Serial serial = next_id_++;
  open_.insert({from, request.id});
  writings_[serial] = {asked, Write{request}};
  step.effects.set_timer(timer_of(serial, TimerKind::deadline), asked.deadline);
  step.effects.start(serial, Write{request});
}

void RouterCore::on_written(Step step, Serial serial, const JobResult& result) {
  const PendingWrite writing = std::move(writings_.at(serial));
  writings_.erase(serial);
  const auto* written = std::get_if<WriteResult>(&result);
  const bool changed =
      written && (written->appended > 0 || !std::holds_alternative<AppendEvents>(writing.write.what));
  if (changed) spread_news(step, writing.write);
  if (writing.answered) return;
  if (!written) return refuse(step, writing.asked, std::get<Refusal>(result));
  settle(writing.asked);
  step.effects.send(writing.asked.from, answer_to(writing.write, writing.asked.id, *written));
}

// Tells caches to forget blocks of the old content. New content has other names, so the old blocks
// are never requested again, and forgetting frees their pages. Whole parts of a generator's history
// may be parts of the new one, so they stay and are evicted when pages are needed. A new item is
// precomputed like the rest of the catalog, possibly before a cache hears of the change.
void RouterCore::spread_news(Step step, const Write& write) {
  Forget forget;
  if (const auto* put = std::get_if<PutUser>(&write.what)) {
    forget = {.kind = SegmentKind::user,
              .owner = owner_of_user(put->tenant, put->user),
              .below = config_.form.history_part};
  } else if (const auto* events = std::get_if<AppendEvents>(&write.what)) {
    forget = {.kind = SegmentKind::user,
              .owner = owner_of_user(events->tenant, events->user),
              .below = config_.form.history_part};
  } else if (const auto* remove = std::get_if<DeleteUser>(&write.what)) {
    forget = {SegmentKind::user, owner_of_user(remove->tenant, remove->user)};
  } else if (const auto* item = std::get_if<PutItem>(&write.what)) {
    const BlockName name = names_of(versions().model_version).item(item->tokens);
    forget = {SegmentKind::item, item->item, 0, name};
    precompute_.add(step, {item->item, item->title, item->tokens, item->identifier, name});
  } else if (const auto* gone = std::get_if<DeleteItem>(&write.what)) {
    forget = {SegmentKind::item, gone->item};
    precompute_.drop(gone->item);
  }
  for (const NodeId node : leader_.leader_or_all(step.now))
    step.effects.send({node, Role::cache_meta}, forget);
}

template <class Request>
void RouterCore::on_read(Step step, Address from, const Request& request) {
  if (is_copy(from, request.id)) return;
  const RequestOrigin asked{from, request.id, step.now, step.now + config_.budget};
  if (const auto fault = validate(request, config_.form, config_.limits)) return refuse(step, asked, *fault);
  if (const auto obstacle = reject_if_jobs_full(step.now)) return refuse(step, asked, *obstacle);
  const Serial serial = next_id_++;
  open_.insert({from, request.id});
  readings_[serial] = {asked};
  step.effects.set_timer(timer_of(serial, TimerKind::deadline), asked.deadline);
  step.effects.start(serial, Read{request});
}

void RouterCore::on_was_read(Step step, Serial serial, const JobResult& result) {
  const PendingRead reading = readings_.at(serial);
  readings_.erase(serial);
  if (reading.answered) return;
  if (const auto* refusal = std::get_if<Refusal>(&result)) return refuse(step, reading.asked, *refusal);
  settle(reading.asked);
  const auto answer = [&](auto reply) {
    reply.id = reading.asked.id;
    step.effects.send(reading.asked.from, std::move(reply));
  };
  if (const auto* user = std::get_if<UserReply>(&result)) return answer(*user);
  answer(std::get<ItemReply>(result));
}

template void RouterCore::on_write(Step, Address, const PutUser&);
template void RouterCore::on_write(Step, Address, const AppendEvents&);
template void RouterCore::on_read(Step, Address, const GetUser&);
template void RouterCore::on_read(Step, Address, const GetItem&);
template void RouterCore::on_write(Step, Address, const DeleteUser&);
template void RouterCore::on_write(Step, Address, const PutItem&);
template void RouterCore::on_write(Step, Address, const DeleteItem&);

}  // namespace troupe::router
