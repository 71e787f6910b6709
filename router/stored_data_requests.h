#pragma once
// Handles writes and reads of profiles and items. A write's job stores them, the client gets an
// answer, and the caches are told. A bounded number of writes is with the store at a time, so that a slow
// disk leaves executors for reads; the others wait here. A write that waits at its deadline is dropped and
// refused: nothing was stored. One that has begun is answered `outcome_unknown` at its deadline, and the
// caches are told when its job ends. The job's number is also the serial of the deadline's timer.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "router/fleet/availability.h"
#include "router/flights/outcomes.h"
#include "router/precompute/precompute.h"
#include "router/recompute/replays.h"
#include "router/request/model_names.h"
#include "router/request/request_check.h"

namespace troupe::router {

class StoredDataRequests {
 public:
  struct Config {
    const PromptForm& form;  // outlives this object, like the next
    const RequestLimits& limits;
    Duration budget{2'000'000};
    std::uint32_t jobs_max = 256;                // writes, and as many reads
    std::uint32_t writes_at_once = 16;           // with the store
    ItemBlockKind blocks = ItemBlockKind::none;  // precomputed of items (router/request/item_block.h)
  };
  // These belong to the router and must outlive this object.
  StoredDataRequests(const Config& config, const Availability& availability, const VersionKeeper& versions,
                     const LeaderView& leader, ModelNames& names, Precompute& precompute, Replays& replays,
                     Outcomes& outcomes)
      : config_(config),
        availability_(availability),
        versions_(versions),
        leader_(leader),
        names_(names),
        precompute_(precompute),
        replays_(replays),
        outcomes_(outcomes) {}

  template <class Request>
  void on_write(Step step, Address from, Request&& request);
  template <class Request>
  void on_read(Step step, Address from, Request&& request);
  // Returns false if this object did not start the job. Otherwise moves from the result.
  bool on_done(Step step, std::uint64_t job, JobResult& result);
  void on_deadline(Step step, std::uint64_t job);

  // Drops the write or read of a client that has gone. A write that has begun is completed. Returns false
  // if there is no such request.
  bool cancel(Step step, Address from, RequestId id);

  std::size_t writes() const { return writes_.size(); }  // that wait or run
  std::size_t running_writes() const { return running_; }
  std::size_t reads() const { return reads_.size(); }  // running jobs
  // Returns the reason for which the store refused the last write; "" = it did not.
  const std::string& write_fault() const { return episode_.reason(); }

 private:
  // A write that lives until its job ends, even after its client was answered at the deadline.
  struct PendingWrite {
    RequestOrigin origin;
    std::optional<Write> waiting;        // not given to the store yet
    Forget forget;                       // what the caches must hear when it is done
    std::optional<Item> put;             // without its block's name, which depends on the model at the end
    bool appends = false;                // it appends events, and may change nothing
    std::optional<RecordOwner> deleted;  // user that it deletes, whose records go too
    bool answered = false;
  };
  struct PendingRead {
    RequestOrigin origin;
    bool answered = false;
  };

  template <class Request>
  PendingWrite pending(const RequestOrigin& origin, const Request& request) const;
  void start_writes(Step step);
  void drop_waiting(Step step, std::uint64_t job, Refusal refusal);
  void on_written(Step step, PendingWrite write, JobResult& result);
  void on_was_read(Step step, const PendingRead& read, JobResult& result);
  void spread_news(Step step, PendingWrite& write);
  std::optional<Refusal> reject_if_jobs_full(Instant now, std::size_t jobs) const;

  Config config_;
  const Availability& availability_;
  const VersionKeeper& versions_;
  const LeaderView& leader_;
  ModelNames& names_;
  Precompute& precompute_;
  Replays& replays_;
  Outcomes& outcomes_;
  std::map<std::uint64_t, PendingWrite> writes_;  // by job
  std::deque<std::uint64_t> queue_;               // jobs of the writes that wait, oldest first
  std::size_t running_ = 0;                       // writes with the store
  std::map<std::uint64_t, PendingRead> reads_;
  StoreEpisode episode_{"writes", true};
};

}  // namespace troupe::router
