#pragma once
// Records answered requests, and computes recorded ones again when an operator asks (replay.keep).
// A record has the plan with its tokens, so a replay needs neither the user's profile nor the
// catalog, only the model version that answered. It is computed without any cached block, as
// background work.
//
// A recorded plan may kill workers when it is computed without a cache. It runs alone, on one worker,
// whose loss is a strike against the request's content (suspects.h); suspects are not replayed.
//
// Records must not delay requests: answers wait here for one job at a time that stores them, and what
// does not fit is left out. All jobs about records run one after the other, so that a user's deletion
// is never overtaken by an earlier answer. A router that has no record of a request asks the others.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "router/fleet/availability.h"
#include "router/fleet/other_routers.h"
#include "router/fleet/versions.h"
#include "router/fleet/worker_table.h"
#include "router/flights/attempts.h"
#include "router/flights/flight.h"
#include "router/flights/outcomes.h"
#include "router/recompute/answered_plan.h"

namespace troupe::router {

struct ReplayConfig {
  Duration keep{0};              // age at which a record is erased; 0 = nothing is recorded
  double rounding = 1e-5;        // bound of a difference, relative to the largest value of an answer or to 1
  std::size_t pending_max = 64;  // answers that wait to be stored; more are left out
  std::uint64_t pending_tokens_max = 1 << 20;  // of their plans together, unless it is a single one
  std::size_t deleted_max = 4'096;             // deleted users whose records wait to be erased
  std::uint32_t replays_max = 4;               // at a time; more are refused
  Duration sweep_every{60'000'000};            // interval at which old records are erased
};

class Replays {
 public:
  struct Config {
    const ReplayConfig& replay;  // outlives this object, like the next
    const PromptForm& form;
    Duration budget{10'000'000};  // of a replay, from its receipt to its outcome
  };
  // The references belong to the router and must outlive this object.
  Replays(const Config& config, const Availability& availability, const VersionKeeper& versions,
          const WorkerTable& workers, OtherRouters others, Attempts& attempts, Outcomes& outcomes)
      : config_(config),
        availability_(availability),
        versions_(versions),
        workers_(workers),
        others_(others),
        attempts_(attempts),
        outcomes_(outcomes) {}

  // ---- records ----
  // Copies the answer of a flight. Call it before the flight is answered.
  void note(Step step, const Flight& flight, NodeId node, const Executed& executed);
  void forget_user(Step step, const std::string& tenant, const std::string& user);
  void on_beat(Step step);  // called once per heartbeat
  // Returns false if this object did not start the job. Otherwise moves from the result.
  bool on_done(Step step, std::uint64_t job, JobResult& result);

  // ---- replays ----
  void on_request(Step step, Address from, ReplayRequest&& request);
  // Return false if the message belongs to another question.
  bool on_executed(Step step, Address from, const Executed& executed);
  bool on_refused(Step step, Address from, const Refused& refused);
  void on_reply(Step step, Address from, ReplayReply&& reply);  // of another router
  void on_deadline(Step step, std::uint64_t serial);
  void lose(Step step, std::span<const NodeId> workers);
  void lose_router(Step step, NodeId node);

  bool is_on() const { return config_.replay.keep.us > 0; }
  std::size_t running() const { return replays_.size(); }
  std::size_t pending() const { return noted_.size(); }  // answers that wait to be stored
  std::size_t deleted() const { return deleted_.size(); }
  std::uint64_t records() const { return records_; }  // as the last job found them, like the next
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t lost() const { return lost_; }  // answers left out since the start

 private:
  using Serial = std::uint64_t;
  struct Replay {
    RequestOrigin origin;
    ReplayRequest request;
    std::optional<AnswerRecord> record;  // once it is found
    NodeId node = 0;                     // worker that computes it; 0 = none yet
    Incarnation process = 0;             // of that worker; 0 = no heartbeat was heard before
    std::set<NodeId> tried;              // workers that refused it
    std::set<NodeId> asked;              // routers that have not answered
    std::optional<Refusal> refusal;      // of another router that may have the record
  };
  using Running = std::map<Serial, Replay>;

  std::optional<Refusal> reject(Instant now, const ReplayRequest& request) const;
  bool was_deleted_since(const Flight& flight) const;
  const AnswerRecord* find_noted(const ReplayRequest& request) const;
  void start_next(Step step);
  std::optional<Job> next_job();
  void on_changed(Step step, const RecordsChanged& changed);
  void on_failed(Step step, Refusal&& refusal);
  void lose_records(Step step, std::uint64_t count, const std::string& why);
  void on_found(Step step, Serial serial, std::optional<AnswerRecord> record);
  void ask_others(Step step, Serial serial, Replay& replay);
  void refuse_if_nobody_has_it(Step step, Running::iterator at);
  void compute(Step step, Serial serial, Replay& replay);
  std::optional<Refusal> reject_if_gone(const AnswerRecord& record) const;
  NodeId choose_worker(Instant now, const Replay& replay) const;
  void refuse(Step step, Running::iterator at, Refusal refusal);
  ReplayReply reply_of(const Replay& replay, const Executed& executed) const;

  Config config_;
  const Availability& availability_;
  const VersionKeeper& versions_;
  const WorkerTable& workers_;
  OtherRouters others_;
  Attempts& attempts_;
  Outcomes& outcomes_;

  // Jobs: the running one, and what the next ones do.
  std::uint64_t job_ = 0;          // 0 = none
  std::uint64_t job_records_ = 0;  // records that it stores
  Serial job_replay_ = 0;          // replay whose record it finds
  std::vector<RecordOwner> deleted_;
  // Users that were deleted lately: requests received before that may still be answered.
  std::map<std::pair<std::string, std::string>, Instant> deleted_lately_;  // by tenant and user
  std::deque<Serial> finds_;
  bool must_sweep_ = true;   // at the start, what was deleted meanwhile
  bool swept_last_ = false;  // sweeping and storing take turns
  std::vector<AnswerRecord> noted_;
  std::uint64_t noted_tokens_ = 0;
  Instant next_sweep_;

  Running replays_;
  std::uint64_t records_ = 0, bytes_ = 0, lost_ = 0;
  bool failing_ = false;  // the last job that stored records lost some
};

}  // namespace troupe::router
