// Starts the jobs of writes and reads of stored data, and answers when they end.
#include "router/stored_data_requests.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "router/flights/timers.h"
#include "runtime/actor/user_home.h"

namespace troupe::router {

namespace {

Refusal outcome_unknown() {
  return {RefusalKind::unavailable, "outcome_unknown",
          "the write had begun when its deadline passed; whether it is stored is not known", "store",
          "to read it, or to repeat the write"};
}

}  // namespace

// Refuses if no more than `jobs` of a kind may wait or run.
std::optional<Refusal> StoredDataRequests::reject_if_jobs_full(Instant now, std::size_t jobs) const {
  if (availability_.draining()) return availability_.refusal(now);
  if (jobs >= config_.jobs_max) return too_many_requests(config_.jobs_max);
  return std::nullopt;
}

// ---- writes ----

template <class Request>
void StoredDataRequests::on_write(Step step, Address from, Request&& request) {
  if (outcomes_.is_copy(from, request.id)) return;
  const RequestOrigin origin{from, request.id, step.now, step.now + config_.budget};
  auto fault = validate(request, config_.form, config_.limits);
  if (fault) return outcomes_.refuse(step, origin, std::move(*fault));
  if (auto obstacle = reject_if_jobs_full(step.now, writes_.size()))
    return outcomes_.refuse(step, origin, std::move(*obstacle));
  const std::uint64_t job = step.next_id++;
  outcomes_.open(origin);
  PendingWrite& write = writes_.emplace(job, pending(origin, request)).first->second;
  write.waiting = Write{std::move(request)};
  queue_.push_back(job);
  step.effects.set_timer(timer_of(job, TimerKind::deadline), origin.deadline);
  start_writes(step);
}

// A write whose time is over is not begun, whenever the timer of its deadline fires.
void StoredDataRequests::start_writes(Step step) {
  while (running_ < config_.writes_at_once && !queue_.empty()) {
    const std::uint64_t job = queue_.front();
    PendingWrite& write = writes_.at(job);
    if (step.now >= write.origin.deadline) {
      drop_waiting(step, job, deadline_passed());
      continue;
    }
    queue_.pop_front();
    ++running_;
    step.effects.start(job, *std::exchange(write.waiting, std::nullopt));
  }
}

void StoredDataRequests::drop_waiting(Step step, std::uint64_t job, Refusal refusal) {
  std::erase(queue_, job);
  outcomes_.refuse(step, writes_.at(job).origin, std::move(refusal));
  writes_.erase(job);
}

// Keeps what the end of the write needs, not the whole request. New content has other names, so the
// old blocks are never requested again, and forgetting them frees their pages. Whole parts of a
// generator's history may be parts of the new one, so they stay and are evicted when pages are
// needed.
template <class Request>
StoredDataRequests::PendingWrite StoredDataRequests::pending(const RequestOrigin& origin,
                                                             const Request& request) const {
  PendingWrite write{.origin = origin};
  if constexpr (std::is_same_v<Request, PutItem>) {
    write.forget = {.kind = SegmentKind::item, .owner = request.item};
    write.put = Item{request.item, request.title, request.tokens, request.identifier, {}};
  } else if constexpr (std::is_same_v<Request, DeleteItem>) {
    write.forget = {.kind = SegmentKind::item, .owner = request.item};
  } else {
    write.forget = {.kind = SegmentKind::user, .owner = owner_of_user(request.tenant, request.user)};
    if (!std::is_same_v<Request, DeleteUser>) write.forget.below = config_.form.history_part;
    write.appends = std::is_same_v<Request, AppendEvents>;
    if (std::is_same_v<Request, DeleteUser>) write.deleted = RecordOwner{request.tenant, request.user};
  }
  return write;
}

void StoredDataRequests::on_written(Step step, PendingWrite write, JobResult& result) {
  const auto* written = std::get_if<WriteResult>(&result);
  episode_.note(step, std::get_if<Refusal>(&result));
  const bool changed = written && (written->appended > 0 || !write.appends);
  if (changed) spread_news(step, write);
  if (write.answered) return;
  if (!written) return outcomes_.refuse(step, write.origin, std::move(std::get<Refusal>(result)));
  const RequestId id = write.origin.id;
  if (write.appends)
    return outcomes_.answer(step, write.origin,
                            Appended{id, written->version, written->appended, written->repeated,
                                     written->dropped, written->events});
  outcomes_.answer(step, write.origin, Stored{id, written->version});
}

// Tells caches to forget blocks of the old content. A new item is precomputed like the rest of the
// catalog, possibly before a cache hears of the change.
void StoredDataRequests::spread_news(Step step, PendingWrite& write) {
  if (write.put) {
    const ItemBlockKind kind = config_.blocks == ItemBlockKind::none ? ItemBlockKind::prefix : config_.blocks;
    write.forget.present = item_block_name(kind, config_.form, names_.of(versions_.versions().model_version),
                                           item_block_tokens(kind, config_.form, write.put->tokens));
    precompute_.add(step, std::move(*write.put));
  } else if (write.forget.kind == SegmentKind::item) {
    precompute_.drop(write.forget.owner);
  }
  if (write.deleted) replays_.forget_user(step, write.deleted->tenant, write.deleted->user);
  for (const NodeId node : leader_.leader_or_all(step.now))
    step.effects.send({node, Role::cache_meta}, write.forget);
}

// ---- reads ----

template <class Request>
void StoredDataRequests::on_read(Step step, Address from, Request&& request) {
  if (outcomes_.is_copy(from, request.id)) return;
  const RequestOrigin origin{from, request.id, step.now, step.now + config_.budget};
  if (auto fault = validate(request, config_.form, config_.limits))
    return outcomes_.refuse(step, origin, std::move(*fault));
  if (auto obstacle = reject_if_jobs_full(step.now, reads_.size()))
    return outcomes_.refuse(step, origin, std::move(*obstacle));
  const std::uint64_t job = step.next_id++;
  outcomes_.open(origin);
  reads_.emplace(job, PendingRead{origin});
  step.effects.set_timer(timer_of(job, TimerKind::deadline), origin.deadline);
  step.effects.start(job, Read{std::move(request)});
}

void StoredDataRequests::on_was_read(Step step, const PendingRead& read, JobResult& result) {
  if (read.answered) return;
  if (auto* refusal = std::get_if<Refusal>(&result))
    return outcomes_.refuse(step, read.origin, std::move(*refusal));
  const auto answer = [&](auto& reply) {
    reply.id = read.origin.id;
    outcomes_.answer(step, read.origin, std::move(reply));
  };
  if (auto* user = std::get_if<UserReply>(&result)) return answer(*user);
  answer(std::get<ItemReply>(result));
}

// ---- ends ----

bool StoredDataRequests::on_done(Step step, std::uint64_t job, JobResult& result) {
  if (auto write = writes_.extract(job); !write.empty()) {
    --running_;
    on_written(step, std::move(write.mapped()), result);
    start_writes(step);
    return true;
  }
  const auto read = reads_.extract(job);
  if (read.empty()) return false;
  on_was_read(step, read.mapped(), result);
  return true;
}

void StoredDataRequests::on_deadline(Step step, std::uint64_t job) {
  const auto write = writes_.find(job);
  if (write != writes_.end() && write->second.waiting)
    drop_waiting(step, job, deadline_passed());
  else if (write != writes_.end() && !std::exchange(write->second.answered, true))
    outcomes_.refuse(step, write->second.origin, outcome_unknown());
  const auto read = reads_.find(job);
  if (read != reads_.end() && !std::exchange(read->second.answered, true))
    outcomes_.refuse(step, read->second.origin, deadline_passed());
}

bool StoredDataRequests::cancel(Step step, Address from, RequestId id) {
  const auto is_of_client = [&](const auto& entry) {
    return entry.second.origin.from == from && entry.second.origin.id == id;
  };
  if (const auto write = std::ranges::find_if(writes_, is_of_client); write != writes_.end()) {
    if (write->second.waiting) drop_waiting(step, write->first, client_gone());
    return true;
  }
  const auto read = std::ranges::find_if(reads_, is_of_client);
  if (read == reads_.end()) return false;
  if (!std::exchange(read->second.answered, true)) outcomes_.refuse(step, read->second.origin, client_gone());
  return true;
}

template void StoredDataRequests::on_write(Step, Address, PutUser&&);
template void StoredDataRequests::on_write(Step, Address, AppendEvents&&);
template void StoredDataRequests::on_write(Step, Address, DeleteUser&&);
template void StoredDataRequests::on_write(Step, Address, PutItem&&);
template void StoredDataRequests::on_write(Step, Address, DeleteItem&&);
template void StoredDataRequests::on_read(Step, Address, GetUser&&);
template void StoredDataRequests::on_read(Step, Address, GetItem&&);

}  // namespace troupe::router
