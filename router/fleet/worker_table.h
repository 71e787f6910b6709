#pragma once
// Keeps what this router knows of each inference worker. The facts come from its heartbeats (alive,
// draining, models, load) and from the router's own experience (recent sends, answer times against
// the prediction). From this the table predicts when a worker would finish a plan, and chooses the
// earliest, or by another rule (routing.h).
//
//   backlog = time of (work that waited there at its last heartbeat + half a plan per busy slot) / slots
//   wait    = what is left of the backlog by now + time of what was sent there since / slots
//   done in = (wait + time of the plan) * slowness
//
// Further plans wait at this router in a queue for the chosen worker (router/tenants/). The
// predicted wait for a plan includes those that go before it.
//
// Unanswered work is bounded. A worker has capacity for more while it has fewer plans than keep its
// executor slots busy, or less work than a window per slot.
//
// Times are work at the worker's pace (placement/cost/work.h). Slowness is a moving average of
// observed over predicted time. A worker that is `slow_factor` times slower than the median of the
// others gets only an occasional probe until it is normal again (promise 11). A request looks at a
// few workers, never at all of them, so a thousand workers cost no more than ten.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "placement/cost/work.h"
#include "router/fleet/routing.h"
#include "runtime/actor/core.h"

namespace troupe::router {

struct WorkerTableConfig {
  Duration heartbeat{200'000};
  placement::Pace pace{.us_per_operation = 20};  // of a worker that has not reported its own
  double slow_factor = 3;
  Duration allowance{1'000};  // round trip; keeps tiny plans from looking slow
  // unanswered work allowed per executor slot; the larger of this and `window_passes` applies
  Duration window{2'000};
  double window_passes = 8;  // minimum window, as a multiple of the fixed cost `pass` of one pass
  placement::Work pass;      // fixed cost of a pass, which plans of one batch share
  // maximum heartbeats between probes of a worker that stays slow; starts at 1
  std::uint32_t probe_gap_max = 8;
  Routing routing;
  // The worker in the router's own process; 0 = none. It lives as long as the router does: its silence only
  // says that the process has too little CPU.
  NodeId own = 0;
};

// Accounts for one plan that was sent. It is given back when the plan ends.
struct Ticket {
  NodeId node = 0;
  Incarnation process = 0;  // 0 = no heartbeat was heard before
  std::uint64_t beat = 0;   // heartbeats heard by then
  placement::Work work;
  double predicted_us = 0;
  Instant sent;
  std::uint64_t life = 0;  // id of the row's current state; changes when the worker's row is reset
  double window_us = 0;    // its part of the window; not counted once the ticket has ended
  bool open = true;
};

class WorkerTable {
 public:
  WorkerTable(WorkerTableConfig config, std::vector<NodeId> nodes);

  // ---- what is heard ----
  void start(Instant now);             // treats every worker as alive until its first silence
  void forgive_stall(Duration stall);  // the process was stalled for that long and heard nobody
  // Replaces the list of nodes. A new node is not alive before its first heartbeat; a removed one
  // is lost for good.
  void follow(std::vector<NodeId> nodes);
  enum class News : std::uint8_t { known, restarted, ignored };
  News hear(Instant now, NodeId node, const Heartbeat& heartbeat);
  // lost until its next heartbeat; returns false if it was lost already or is unknown
  bool lose(NodeId node);
  // Called once per heartbeat: returns the workers that fell silent since then. Updates which
  // workers are slow.
  std::vector<NodeId> tick(Instant now);

  // Returns a heartbeat number that the present process cannot have sent before now, whatever is in
  // flight.
  std::uint64_t proof_of_life(Instant now, NodeId node) const;

  // ---- what is known ----
  bool has(NodeId node) const { return find(node) != nullptr; }
  bool alive(Instant now, NodeId node) const;
  // alive, not draining, has the model
  bool usable(Instant now, NodeId node, std::string_view model) const;
  bool lacks(NodeId node, std::string_view model) const;  // it said so in its last heartbeat
  bool slow(NodeId node) const;
  bool avoided(Instant now, NodeId node) const;  // slow, or its heartbeat is overdue
  Duration silent_for(Instant now, NodeId node) const;
  double wait_us(Instant now, NodeId node) const;  // including everything that waits here for it
  // Returns the time until it would be done, without slowness. `passes_us`: part of the work
  // waiting here that goes after it.
  double predicted_us(Instant now, NodeId node, const placement::Work& work, double passes_us = 0) const;
  double slowness(NodeId node) const;
  placement::Pace pace(NodeId node) const;
  const Heartbeat* last_heard(NodeId node) const;  // null = unknown worker
  std::size_t alive_count(Instant now) const;
  double live_slots(Instant now) const;  // executor slots of all live workers; at least 1
  bool any_usable(Instant now, std::string_view model) const;
  bool all_heard() const;                      // since the start, lost or not
  bool any_has(std::string_view model) const;  // a worker that was heard since the start and is not lost
  bool all_have(Instant now,
                // all workers that are alive and not draining; at least half must be heard
                std::string_view model) const;
  bool all_follow(Instant now, std::uint64_t epoch) const;  // all live workers
  // Returns which live worker can never load this next model of these versions, and why; "" = none.
  std::string load_refusal(Instant now, std::uint64_t epoch, std::string_view model) const;
  const std::vector<NodeId>& nodes() const { return nodes_; }

  // ---- where a plan goes ----
  struct Ask {
    std::uint64_t home = 0;  // hash of the user; gives the same worker while it lives (rendezvous hash)
    std::uint64_t draw = 0;  // hash of the request; selects which other workers are looked at
    std::string_view model;
    std::span<const NodeId> tried;
  };
  // Returns the home first, then the two with the shortest wait among a few that were drawn.
  std::vector<NodeId> candidates(Instant now, const Ask& ask) const;
  struct Option {
    NodeId node = 0;
    placement::Work work;
    std::size_t plan = 0;  // plan of the request to use there; the table does not read it
    double passes_us = 0;  // part of the work waiting here for that worker that goes after this request
    double hit = 0;        // fraction of the plan's blocks held there, weighted by the work to compute them
    placement::Work whole{};  // work of the plan if nothing were held
    placement::Work kept{};   // work of the plan if all blocks were held
    double rows_us = 0;       // time to fetch all its rows of a table on disk
    double rows_found = 0;    // fraction of those rows that are in memory there
    bool last = false;        // its user was last sent there
  };
  // Returns the best option by the rule; if Algorithm 1's best is too busy, the least loaded. Ties
  // go to the earliest finish, then to the home if it is the earlier option (the first), then to
  // the lower node. A slow worker is taken only for its probe, if this request may be one, or if
  // all are slow. Unusable workers are skipped.
  std::optional<Option> choose(Instant now, std::span<const Option> options, std::string_view model,
                               bool may_probe);
  // Sets the total work that waits here for that worker.
  void enqueue(NodeId node, double waiting_us);
  bool has_capacity(NodeId node) const;
  double slots(NodeId node) const;
  // Returns and clears the workers that gained capacity, or may have, since the last call.
  std::vector<NodeId> take_freed() { return std::exchange(freed_, {}); }
  Ticket send(Instant now, const Option& option);
  // Ends an answered plan. Returns observed over predicted time if the ratio is meaningful.
  std::optional<double> finish(Instant now, Ticket& ticket);
  // Timed out without an answer: marks the worker slow now, unless the plan was expected to take
  // that long.
  void time_out(Instant now, const Ticket& ticket);
  void fail(Instant now, const Ticket& ticket);  // a bad answer: marks the worker slow now
  void forget(Ticket& ticket);                   // gives the ticket back without a judgement

 private:
  struct Row {
    NodeId node = 0;
    std::uint64_t hash = 0;
    Instant heard;
    bool lost = false;        // reported dead, or found silent
    bool gone = false;        // no member any more; its number is never reused
    Incarnation process = 0;  // 0 = never heard
    std::uint64_t beats = 0;
    Heartbeat last;
    placement::Work sent;  // since the last heartbeat, without ended plans
    std::uint64_t life = 0;
    std::uint32_t open = 0;              // plans sent that have not ended
    double open_us = 0, waiting_us = 0;  // work of those plans; work waiting here
    double slowness = 1;                 // from answers and from marks as slow
    double observed = 1;                 // from answers only, so that judgements do not feed on each other
    Instant probe_at;
    std::uint32_t probe_gap = 1;  // heartbeats
  };
  const Row* find(NodeId node) const;
  Row* find(NodeId node);
  bool alive(Instant now, const Row& row) const;
  bool usable(Instant now, const Row& row, std::string_view model) const;
  bool slow(const Row& row) const;
  // A heartbeat is missing: it or its sender may be lost. Other workers are preferred until the
  // next one.
  bool overdue(Instant now, const Row& row) const;
  bool avoided(Instant now, const Row& row) const { return slow(row) || overdue(now, row); }
  bool shed(Instant now, const Row& row) const {
    return overdue(now, row) || (slow(row) && now < row.probe_at);
  }
  placement::Pace pace(const Row& row) const;
  static double slots(const Row& row) { return std::max(1U, row.last.slots); }
  double sent_wait_us(Instant now, const Row& row) const;
  double wait_us(Instant now, const Row& row) const;
  double done_us(Instant now, const Row& row, const Option& option) const;
  struct Rule {
    Routing routing;
    MissCosts costs;  // used by `joint`
  };
  double load(Instant now, const Row& row, const Option& option) const;
  double score(Instant now, const Rule& rule, const Row& row, const Option& option) const;
  bool goes_before(Instant now, const Rule& rule, const Row& a, const Option& option_a, const Row& b,
                   const Option& option_b, NodeId home) const;
  MissCosts costs_of(std::span<const Option> options) const;
  const Option* best_of(Instant now, std::span<const Option> options, std::string_view model,
                        const Rule& rule) const;
  const Row* home_of(Instant now, const Ask& ask, bool may_be_slow) const;
  std::vector<const Row*> draw(Instant now, const Ask& ask, bool may_be_slow, const Row* home) const;
  void judge(Instant now, Row& row, double ratio);
  void end(Row& row, Ticket& ticket);

  WorkerTableConfig config_;
  Duration silence_;
  std::vector<NodeId> nodes_;
  std::vector<Row> rows_;         // in order of node
  double reference_ = 0;          // median of what was observed; 0 = no other worker to compare with
  placement::Work plan_average_;  // moving average of the work that is sent
  std::uint64_t lives_ = 0;
  std::vector<NodeId> freed_;
};

}  // namespace troupe::router
