#pragma once
// Verifies answers while serving: computes a share of the answered requests again, without any
// cached block, and compares the results. A difference that is more than rounding means that an
// answer was made of wrong bytes: a damaged block, a block under a wrong name, a faulty device.
//
// Served requests come first. One verification runs at a time, as background work, and only on a
// worker where no request of this router runs or is about to run, and whose last heartbeat shows a
// free slot and no waiting plan. A request that comes while it runs may have to wait for it.
// Therefore the next verification waits `pause_factor` times as long as the last one took, or until
// no request has come for `quiet_after`. So verifications
// take at most about half a percent of a busy router's time, whatever the share, and few requests
// meet one. Answers that do not fit into that time are left out.
//
// An answer that differs is computed once more, if possible on another worker. It is reported as
// different if the two recomputations agree. If they do not, a device computes unreliably, and that
// is reported instead.
//
// An answer with a repair is not verified: which tokens a repair computes may change by rounding. A
// request with a worker lost during its verification gets a strike, like any request (suspects.h),
// and suspects are not verified.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "router/fleet/step.h"
#include "router/fleet/worker_table.h"
#include "router/flights/attempts.h"
#include "router/flights/flights.h"
#include "router/recompute/answered_plan.h"

namespace troupe::router {

struct VerifyConfig {
  double share = 0;              // of answered requests; 0 = none
  double rounding = 1e-4;        // bound of a difference, relative to the largest value of an answer or to 1
  std::size_t pending_max = 64;  // answers that wait for their verification; more are left out
  Duration budget{10'000'000};   // of one recomputation, from its sending to its result
  std::uint32_t pause_factor = 199;
  Duration quiet_after{5'000'000};
};

class AnswerVerifier {
 public:
  // The references belong to the router and must outlive this object.
  AnswerVerifier(const VerifyConfig& config, const WorkerTable& workers, const Flights& flights,
                 Attempts& attempts)
      : config_(config), workers_(workers), flights_(flights), attempts_(attempts) {}

  // Copies the answer of a flight if it is among the chosen ones. Call it before the flight is
  // answered.
  void note(Step step, const Flight& flight, NodeId node, const Executed& executed);

  // Return false if the message belongs to another question.
  bool on_executed(Step step, Address from, const Executed& executed);
  bool on_refused(Step step, Address from, const Refused& refused);
  void on_beat(Step step);  // called once per heartbeat
  void lose(Step step, std::span<const NodeId> nodes);

  bool is_on() const { return config_.share > 0; }
  bool is_idle() const { return !running_ && pending_.empty(); }
  std::size_t pending() const { return pending_.size(); }  // without the running one
  std::size_t running() const { return running_ ? 1 : 0; }
  std::uint64_t equal() const { return equal_; }  // verified answers since the start, like the next
  std::uint64_t different() const { return different_; }
  std::uint64_t unstable() const { return unstable_; }  // of which two recomputations differ
  std::uint64_t dropped() const { return dropped_; }    // chosen answers that were not verified

 private:
  struct Verification {
    AnsweredPlan answered;
    std::uint64_t fingerprint = 0;  // of the request's content
    std::uint32_t tries = 0;        // recomputations that failed
    // Result of the first recomputation, if it differs from the answer, and its node.
    std::optional<Executed> first;
    NodeId first_node = 0;
  };
  struct Running {
    Verification verification;
    RequestId id = 0;
    NodeId node = 0;
    Incarnation process = 0;  // 0 = no heartbeat was heard before
    Instant sent, deadline;
  };

  bool is_chosen(const Flight& flight) const;
  bool is_idle_worker(Instant now, NodeId node, std::string_view model) const;
  NodeId choose_worker(Instant now, const Verification& verification) const;
  bool is_model_gone(std::string_view model) const;
  bool pauses(Instant now) const;
  void work(Step step);
  Running end_run(Step step);
  void try_again(Step step, Verification&& verification, bool is_last);
  void judge(Step step, Running&& run, const Executed& executed);
  void report(Step step, const Verification& verification, const Executed& second, NodeId node);
  void drop(Step step);

  const VerifyConfig config_;
  const WorkerTable& workers_;
  const Flights& flights_;
  Attempts& attempts_;
  std::deque<Verification> pending_;
  std::optional<Running> running_;
  Instant next_at_;                      // end of the pause
  std::uint64_t admitted_ = 0;           // flights by the last heartbeat
  std::optional<Instant> last_request_;  // heartbeat at which flights had been added; nullopt = never
  std::uint64_t equal_ = 0, different_ = 0, unstable_ = 0, dropped_ = 0;
};

}  // namespace troupe::router
