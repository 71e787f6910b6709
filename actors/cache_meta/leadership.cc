// Elects one leader among the cache-metas. The leader holds a key bound to a lease in the
// coordination service. The key's revision tells its messages from those of a former leader.
#include "actors/cache_meta/leadership.h"

#include <algorithm>

namespace troupe::actors {

Leadership::Leadership(NodeId node, Incarnation incarnation, Duration lease, std::uint64_t first_job)
    : name_(std::to_string(node) + " " + std::to_string(incarnation)),
      lease_length_(lease),
      next_job_(std::max<std::uint64_t>(first_job, 1)) {}

void Leadership::ask(Instant now, decltype(Coordinate::what) what, Effects& effects) {
  open_request_ = what;
  requested_at_ = now;
  open_job_ = next_job_++;
  effects.start(open_job_, Coordinate{std::move(what)});
}

void Leadership::on_heartbeat(Instant now, Effects& effects) {
  if (open_job_ != 0) return;
  if (draining_) {
    give_up(now, effects);
  } else if (lease_ != 0) {
    ask(now, KeepLease{lease_}, effects);
  } else {
    ask(now, ReadKey{leader_key}, effects);
  }
}

void Leadership::on_done(Instant now, const JobDone& done, Effects& effects) {
  if (open_job_ == 0 || done.job != open_job_) return;
  open_job_ = 0;
  if (const auto* answer = std::get_if<CoordinationReply>(&done.result)) on_answer(now, *answer, effects);
  // Retried at the next heartbeat.
  const bool refused = std::holds_alternative<Refusal>(done.result);
  if (draining_ && !refused && open_job_ == 0) give_up(now, effects);
}

void Leadership::on_answer(Instant now, const CoordinationReply& answer, Effects& effects) {
  if (std::holds_alternative<OpenLease>(open_request_) || std::holds_alternative<KeepLease>(open_request_)) {
    on_lease(now, answer, effects);
  } else if (std::holds_alternative<ReadKey>(open_request_)) {
    on_read(now, answer, effects);
  } else if (std::holds_alternative<WriteKey>(open_request_)) {
    on_write(answer);
  } else {
    token_ = 0;  // the key is erased, or no longer ours
  }
}

// A lease that has ended has taken its key with it.
void Leadership::on_lease(Instant now, const CoordinationReply& answer, Effects& effects) {
  lease_ = answer.ok ? answer.lease : 0;
  if (!answer.ok) token_ = 0;
  if (answer.ok) leads_until_ = requested_at_ + Duration{lease_length_.us - lease_length_.us / 5};
  if (!draining_) ask(now, ReadKey{leader_key}, effects);
}

// The key may be ours although we do not know it, if the answer to our write was lost. The key is
// bound to the lease that we hold: a key of an earlier lease would be gone.
void Leadership::on_read(Instant now, const CoordinationReply& answer, Effects& effects) {
  const bool ours = answer.revision != 0 && lease_ != 0 && answer.value == name_;
  token_ = ours ? answer.revision : 0;
  if (draining_ || (ours && !answer.outdated)) return;
  if (ours) {
    // Other nodes know larger tokens, of a leader before the store lost its data.
    ask(now, WriteKey{leader_key, name_, answer.revision, lease_}, effects);
  } else if (answer.revision != 0) {
    lease_ = 0;  // another cache-meta leads: let our lease end
  } else if (lease_ == 0) {
    ask(now, OpenLease{lease_length_.us}, effects);
  } else {
    ask(now, WriteKey{leader_key, name_, 0, lease_}, effects);
  }
}

void Leadership::on_write(const CoordinationReply& answer) {
  token_ = answer.ok ? answer.revision : 0;
  if (!answer.ok) lease_ = 0;
}

void Leadership::drain(bool on, Instant now, Effects& effects) {
  draining_ = on;
  if (on && open_job_ == 0) give_up(now, effects);
}

void Leadership::give_up(Instant now, Effects& effects) {
  lease_ = 0;
  leads_until_ = now;
  if (token_ != 0) ask(now, EraseKey{leader_key, token_}, effects);
}

}  // namespace troupe::actors
