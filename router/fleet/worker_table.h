#pragma once
// What this router knows of each inference worker: from its heartbeats (alive, draining, models, load) and
// from its own experience (what it has sent there lately, how long answers took against the prediction). From
// that it predicts when a worker would be done with a plan, and chooses the earliest, or by another rule
// (routing.h).
//
//   backlog = time of (what waited there at its last heartbeat + half a plan per busy lane) / lanes
//   wait    = what is left of the backlog by now + time of what was sent there since / lanes
//   done in = (wait + time of the plan) * slowness
//
// Beyond what is sent, plans wait at this router for their turn at the worker it has chosen
// (router/tenants/): the wait for one counts those that go before it.
//
// Of what is sent, so much is not answered: the worker has room for more while it has fewer plans than it
// takes to keep its lanes at work, or less work than a window for each lane.
//
// Times are work at the worker's pace (placement/cost/work.h). Slowness is a moving average of observed over
// predicted time. A worker that is `slow_factor` times slower than the median of the others gets only a probe
// now and then until it is normal again (promise 11). A request looks at a few workers, never at the load of
// all of them, so that a thousand workers cost no more than ten.
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
  Duration allowance{1'000};  // on the way there and back; keeps tiny plans from looking slow
  Duration window{2'000};     // of work that is sent and not answered, for each lane; or, if that is more,
  double window_passes = 8;   // as much as so many passes cost beside what they compute: a batch shares that
  placement::Work pass;       // which is this
  std::uint32_t probe_gap_max = 8;  // heartbeats between probes of a worker that stays slow; at first one
  Routing routing;
};

// Of one plan that was sent; given back when it ends.
struct Ticket {
  NodeId node = 0;
  Incarnation process = 0;  // 0: no heartbeat was heard before
  std::uint64_t beat = 0;   // heartbeats heard by then
  placement::Work work;
  double predicted_us = 0;
  Instant sent;
  std::uint64_t life = 0;  // of the row: what is known of the worker since it was last begun anew
  double window_us = 0;    // what it takes of the window; nothing once it has ended
  bool open = true;
};

class WorkerTable {
 public:
  WorkerTable(WorkerTableConfig config, std::vector<NodeId> nodes);

  // ---- what is heard ----
  void start(Instant now);     // from now on every worker is taken for alive, until the first silence
  void excuse(Duration deaf);  // they were not heard for so long because nobody listened
  // Other nodes from now on. Who comes is not alive before its first heartbeat; whoever is not among them is
  // lost for good.
  void follow(std::vector<NodeId> nodes);
  enum class News : std::uint8_t { known, restarted, ignored };
  News hear(Instant now, NodeId node, const Heartbeat& heartbeat);
  bool lose(NodeId node);  // until its next heartbeat. False: it was lost already, or there is none
  // Once per heartbeat: the workers that have fallen silent since. Judges anew who is slow.
  std::vector<NodeId> tick(Instant now);

  // The number of a heartbeat that its present process cannot have sent before now, whatever is on its way.
  std::uint64_t proof_of_life(Instant now, NodeId node) const;

  // ---- what is known ----
  bool has(NodeId node) const { return find(node) != nullptr; }
  bool alive(Instant now, NodeId node) const;
  bool usable(Instant now, NodeId node, std::string_view model) const;  // alive, not draining, has the model
  bool lacks(NodeId node, std::string_view model) const;                // said so last
  bool slow(NodeId node) const;
  bool avoided(Instant now, NodeId node) const;  // slow, or it was not heard when it should have been
  Duration silent_for(Instant now, NodeId node) const;
  double wait_us(Instant now, NodeId node) const;  // behind all that waits here for it, too
  // Until it would be done, were it not slow. `passes_us`: of what waits here, so much goes after it.
  double predicted_us(Instant now, NodeId node, const placement::Work& work, double passes_us = 0) const;
  double slowness(NodeId node) const;
  placement::Pace pace(NodeId node) const;
  const Heartbeat* last_heard(NodeId node) const;  // null: there is no such worker
  std::size_t alive_count(Instant now) const;
  double lanes_alive(Instant now) const;  // of all workers that are, one at least
  bool any_usable(Instant now, std::string_view model) const;
  bool any_has(std::string_view model) const;  // that was heard of since the start, and is not lost
  bool all_have(Instant now,
                std::string_view model) const;              // that are alive and not draining; half are heard
  bool all_follow(Instant now, std::uint64_t epoch) const;  // that are alive
  // Who of those that are alive can never load this next model of these versions, and why; "": nobody.
  std::string load_refusal(Instant now, std::uint64_t epoch, std::string_view model) const;
  const std::vector<NodeId>& nodes() const { return nodes_; }

  // ---- where a plan goes ----
  struct Ask {
    std::uint64_t home = 0;  // hash of the user: the same worker every time while it lives (rendezvous hash)
    std::uint64_t draw = 0;  // hash of the request: which others are looked at
    std::string_view model;
    std::span<const NodeId> tried;
  };
  // The home first, then the two with the shortest wait of a few that were drawn.
  std::vector<NodeId> candidates(Instant now, const Ask& ask) const;
  struct Option {
    NodeId node = 0;
    placement::Work work;
    std::size_t plan = 0;  // of the request, there: for whoever asks
    double passes_us = 0;  // of what waits here for that worker, so much goes after it
    double hit = 0;  // of the plan's blocks, the share that is held there, by the work of computing them
    placement::Work whole{};  // of the plan if nothing were held
    placement::Work kept{};   // if all were held
    double rows_us = 0;       // fetching all its rows of a table that is not in memory
    double rows_found = 0;    // of those, the share that is there
    bool last = false;        // its user was sent there last
  };
  // The option that is best by the rule (where Algorithm 1's is too busy, the least loaded), of those the one
  // that is done first; ties go to the earlier option if it is the home (the first), then to the lower node.
  // A slow one is taken only for its probe, if this may be one, or if all are slow. What is not usable is
  // passed over.
  std::optional<Option> choose(Instant now, std::span<const Option> options, std::string_view model,
                               bool may_probe);
  // Plans wait here for that worker: so much work, in all.
  void line_up(NodeId node, double waiting_us);
  bool has_room(NodeId node) const;
  double lanes(NodeId node) const;
  // The workers that have got room since this was last asked, or may have.
  std::vector<NodeId> take_freed() { return std::exchange(freed_, {}); }
  Ticket send(Instant now, const Option& option);
  // It was answered. The ratio of observed over predicted time, if that says something.
  std::optional<double> finish(Instant now, Ticket& ticket);
  // It was not, for so long: slow at once, unless that is no wonder for such a plan.
  void time_out(Instant now, const Ticket& ticket);
  void fail(Instant now, const Ticket& ticket);  // it was answered badly: slow at once
  void forget(Ticket& ticket);                   // it is not waited for any more

 private:
  struct Row {
    NodeId node = 0;
    std::uint64_t hash = 0;
    Instant heard;
    bool lost = false;        // told dead, or found silent
    bool gone = false;        // it is no member any more; its number is never given again
    Incarnation process = 0;  // 0: never heard
    std::uint64_t beats = 0;
    Heartbeat last;
    placement::Work sent;  // since the last heartbeat, not ended
    std::uint64_t life = 0;
    std::uint32_t open = 0;              // plans sent that have not ended
    double open_us = 0, waiting_us = 0;  // of those; of what waits here
    double slowness = 1;                 // by answers and by what was taken for slow
    double observed = 1;                 // by answers only, so that judgements do not feed on each other
    Instant probe_at;
    std::uint32_t probe_gap = 1;  // heartbeats
  };
  const Row* find(NodeId node) const;
  Row* find(NodeId node);
  bool alive(Instant now, const Row& row) const;
  bool usable(Instant now, const Row& row, std::string_view model) const;
  bool slow(const Row& row) const;
  // A heartbeat is missing: maybe lost, maybe its sender is; others come first until the next one.
  bool overdue(Instant now, const Row& row) const;
  bool avoided(Instant now, const Row& row) const { return slow(row) || overdue(now, row); }
  bool shed(Instant now, const Row& row) const {
    return overdue(now, row) || (slow(row) && now < row.probe_at);
  }
  placement::Pace pace(const Row& row) const;
  static double lanes(const Row& row) { return std::max(1U, row.last.lanes); }
  double sent_wait_us(Instant now, const Row& row) const;
  double wait_us(Instant now, const Row& row) const;
  double done_us(Instant now, const Row& row, const Option& option) const;
  struct Rule {
    Routing routing;
    MissCosts costs;  // of `joint`
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
  double reference_ = 0;          // median of what was observed; 0: nobody to compare with
  placement::Work plan_average_;  // moving, of what is sent
  std::uint64_t lives_ = 0;
  std::vector<NodeId> freed_;
};

}  // namespace troupe::router
