#pragma once
// Which cache-meta leads. Each of them holds a lease in the Coordination and tries to create one key bound to
// it; who did leads, with the key's revision as fencing token, until the lease can have ended. Every
// heartbeat the lease is kept, and then the key is read: the leader sees that it is still its own, the others
// that it is gone.
//
// The lease counts from the moment when the question was sent, less a fifth, so a leader demotes itself
// before the Coordination can give the key to another. A Coordination that is away changes nothing by itself.
// Two leaders are possible all the same (a slow process): their tokens differ, and whoever has seen the
// higher one ignores the lower.
#include <cstdint>
#include <string>

#include "runtime/actor/core.h"

namespace troupe::actors {

inline constexpr const char* leader_key = "cache_meta/leader";  // value: "<node> <incarnation>"

class Leadership {
 public:
  // Jobs are numbered from `first_job`.
  Leadership(NodeId node, Incarnation incarnation, Duration lease, std::uint64_t first_job);

  // Once per heartbeat. One question at a time: while one is open nothing more is asked.
  void on_heartbeat(Instant now, Effects& effects);
  // The answer to a question; any other job is ignored.
  void on_done(Instant now, const Done& done, Effects& effects);
  // Gives leadership up, at once, and does not seek it while `on`.
  void drain(bool on, Instant now, Effects& effects);

  bool leads(Instant now) const { return !draining_ && token_ != 0 && now < leads_until_; }
  std::uint64_t token() const { return token_; }  // 0: the key is not ours, as far as known
  bool drained() const { return draining_ && token_ == 0 && job_asked_ == 0; }

 private:
  void ask(Instant now, decltype(Coordinate::what) what, Effects& effects);
  void on_answer(Instant now, const Coordinated& answer, Effects& effects);
  void on_lease(Instant now, const Coordinated& answer, Effects& effects);
  void on_read(Instant now, const Coordinated& answer, Effects& effects);
  void on_write(const Coordinated& answer);
  void give_up(Instant now, Effects& effects);

  std::string name_;  // the key's value when we lead
  Duration lease_length_;
  std::uint64_t next_job_, job_asked_ = 0;
  decltype(Coordinate::what) asked_;  // while job_asked_ != 0
  Instant asked_at_;
  LeaseId lease_ = 0;
  std::uint64_t token_ = 0;
  Instant leads_until_;
  bool draining_ = false;
};

}  // namespace troupe::actors
