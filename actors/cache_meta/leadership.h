#pragma once
// Elects the leading cache-meta, which alone relays `Forget` messages to the workers. Each
// cache-meta holds a lease in the coordination service (runtime/coordination/) and tries to create
// one key bound to it. Whoever creates the key leads, with the key's revision as fencing token,
// until the lease can have ended. Every heartbeat renews the lease and then reads the key: the
// leader checks that it still owns the key, the others check whether it is gone.
//
// A leader trusts its lease for only four fifths of its length, counted from when it sent the
// renewal. So it demotes itself before the service can give the key to another. While the service
// is unreachable, a leader keeps its role only until that time. Two leaders are still possible, for
// example with a slow process. Their tokens differ, and whoever has seen the higher token ignores
// the lower one.
#include <cstdint>
#include <string>

#include "runtime/actor/core.h"

namespace troupe::actors {

inline constexpr const char* leader_key = "cache_meta/leader";  // value: "<node> <incarnation>"

class Leadership {
 public:
  // Jobs are numbered from `first_job`.
  Leadership(NodeId node, Incarnation incarnation, Duration lease, std::uint64_t first_job);

  // Called once per heartbeat. Sends nothing while a request is open: there is one request at a
  // time.
  void on_heartbeat(Instant now, Effects& effects);
  // Handles the answer to a request. Ignores any other job.
  void on_done(Instant now, const JobDone& done, Effects& effects);
  // While `on`, gives leadership up at once and does not seek it.
  void drain(bool on, Instant now, Effects& effects);

  bool leads(Instant now) const { return !draining_ && token_ != 0 && now < leads_until_; }
  // 0 = this cache-meta does not own the key, as far as it knows
  std::uint64_t token() const { return token_; }
  bool drained() const { return draining_ && token_ == 0 && open_job_ == 0; }

 private:
  void ask(Instant now, decltype(Coordinate::what) what, Effects& effects);
  void on_answer(Instant now, const CoordinationReply& answer, Effects& effects);
  void on_lease(Instant now, const CoordinationReply& answer, Effects& effects);
  void on_read(Instant now, const CoordinationReply& answer, Effects& effects);
  void on_write(const CoordinationReply& answer);
  void give_up(Instant now, Effects& effects);

  std::string name_;  // value of the key while this cache-meta leads
  Duration lease_length_;
  std::uint64_t next_job_, open_job_ = 0;
  decltype(Coordinate::what) open_request_;  // valid while open_job_ != 0
  Instant requested_at_;
  LeaseId lease_ = 0;
  std::uint64_t token_ = 0;
  Instant leads_until_;
  bool draining_ = false;
};

}  // namespace troupe::actors
