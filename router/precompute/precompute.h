#pragma once
// Precomputes the item blocks of the whole catalog (BAT §5.2, step 3; RcLLM §III-B): those that the
// plans of the configured policy look up (item_block.h), and nothing if they look up none. It waits
// until a KV-cache worker has loaded its blocks from disk, walks the catalog in order, and asks the
// index which blocks are missing. Those are computed as background work, a few chunks at a time, on one
// live worker after the other. A worker whose KV-cache worker is not ready is skipped. A worker
// that kept nothing of two chunks in a row, with a sign of life between them, is full; when all are
// full, the walk ends. Items that are put later are computed the same way, and another model
// restarts the walk. No request waits for it, and answers are right without it. missing_items.h
// lists what is missing where, background_capacity.h says which nodes take chunks; this class does
// the walk and the background jobs.
//
// While it makes missing blocks, approximate plans compute items without a block in their place and
// keep no block of them (flights/planning.h). So a block that was evicted or lost after the walk is
// made anew once a request misses it. If two such chunks in a row are not kept, the item area counts
// as full, and the blocks are left to requests again. So they are while workers are too busy for
// background work.
//
// With ItemAssignment each block goes to its assigned nodes: one computes it, the others pull it.
// Blocks that a node does not take now are left out. After the walk, when that node takes blocks,
// the catalog is walked once more. The assignment changes while requests are served
// (current_assignment.h). A hot item is brought to all nodes and a put item to its own; there they
// evict the least recently used blocks, which the walk may not do. Blocks at their node stay
// untouched. No block is dropped: a block that belongs elsewhere is evicted when its pages are needed.
//
// A node that is lost may have lost its blocks, with an assignment or without. The catalog is walked
// once more when it is ready again, or when it is away for so long that others stand in for it.
//
// An item may kill the worker that computes it. The items of a chunk that was refused, lost or not
// answered are suspects. They are tried again in chunks of half the size (one by one after a loss),
// each alone in its batch and without another background chunk beside it, so only the items in that
// chunk are blamed. An item that fails again by itself is given up on all nodes.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/fleet/leader_view.h"
#include "router/fleet/step.h"
#include "router/fleet/worker_table.h"
#include "router/precompute/background_capacity.h"
#include "router/precompute/current_assignment.h"
#include "router/precompute/missing_items.h"
#include "router/precompute/replication.h"
#include "router/request/block_names.h"
#include "router/request/item_block.h"
#include "router/request/pull_cost.h"

namespace troupe::router {

struct PrecomputeConfig {
  ItemBlockKind blocks = ItemBlockKind::none;  // none = nothing is precomputed
  std::uint32_t page_items = 256;              // catalog items per page of the walk
  std::uint32_t chunk_tokens = 2'000;          // tokens per background plan; it has at least one item
  std::uint32_t running_max = 2;               // background plans at a time
  std::uint32_t blamed_max = 4'096;            // items that are remembered as suspects
  std::uint32_t changed_max = 4'096;  // waiting put, hot and missed items; more are computed only on request
  std::uint32_t asked_max = 16;       // KV-cache workers asked for readiness at a time
  Duration poll{200'000};             // period of asking KV-cache workers and of checking deadlines
  Duration pause{200'000};            // after a refusal
  Duration lookup_wait{1'000'000};
  Duration budget{30'000'000};  // of a background plan
  Duration stalled_after{5'000'000};
  // After a lost node is ready again, until the index should know its blocks. Not awaited with an
  // assignment, where the node itself is asked for them.
  Duration settle{1'000'000};
  Duration plan_every{0};  // period of reading the plan of the assignment anew; 0 = never
  RefreshConfig refresh;
};

class Precompute {
 public:
  // The two views belong to the router and must outlive this object. Without an assignment, workers
  // take turns to compute the blocks that no node has.
  Precompute(PrecomputeConfig config, const WorkerTable& workers, const LeaderView& leader, PromptForm form,
             NameContext names, std::shared_ptr<const ItemAssignment> places = nullptr);

  Precompute(const Precompute&) = delete;
  Precompute& operator=(const Precompute&) = delete;

  void start(Step step);
  void on_timer(Step step);  // handles precompute_timer
  void add(Step step, Item item);
  void drop(const std::string& item);  // the item was deleted
  // Returns true if missing blocks of this kind and model are made in the background, so that requests need
  // not make them. False while nothing was done for `stalled_after` although something is to be done.
  bool makes(Instant now, ItemBlockKind blocks, std::string_view model_version) const;
  // Returns true if some node is to have the item's block.
  bool makes_item(std::string_view item) const;
  // Records that no node has the blocks of these items of a request. Those that the walk has passed are made
  // anew.
  void note_missing(Step step, std::span<const ItemView> items);
  // Records a request's candidates; they are of the model and catalog that are followed. `user_tokens`:
  // tokens of the user's history.
  void note_accesses(Step step, std::span<const ItemView> items, std::uint64_t user_tokens);
  // Called once per heartbeat: decides anew from how many accesses on an item is hot, if that is due.
  void review_hot_items(Step step, const placement::UnitCosts& costs, const PullCost& pulls);
  void follow(Step step, const std::string& model_version, const std::string& catalog_version);
  void lose(Step step, std::span<const NodeId> nodes);  // retries elsewhere what ran there
  // The worker table has new nodes, and those in `leaving` leave. Blocks belong to the others,
  // which pull them from wherever they are.
  void follow_members(Step step, std::set<NodeId> leaving);
  // Returns true if no item's block is missing at its assigned nodes, and none was left out for a
  // node that has not started yet. Such a node is awaited until others stand in for it.
  bool is_migration_done() const { return migration().is_done; }
  struct MigrationProgress {
    bool is_done = false;
    std::uint64_t blocks = 0;     // known to be missing, or being computed or pulled
    std::uint64_t items = 0;      // of the catalog that the present walk has passed
    std::vector<NodeId> awaited;  // nodes that are not ready to take their blocks
  };
  MigrationProgress migration() const;

  // Return false if the answer belongs to another question.
  bool on_status(Step step, const StatusReply& reply);
  bool on_listed(Step step, std::uint64_t job, const JobResult& result);
  bool on_plan_read(Step step, std::uint64_t job, const JobResult& result);
  bool on_found(Step step, const BlocksFound& found);
  bool on_executed(Step step, const Executed& executed);
  bool on_refused(Step step, const Refused& refused);

  bool is_idle() const;  // no item is left to compute
  // off | waiting | running | done | full. It is done once each live node that takes blocks has its own.
  std::string_view state(Instant now) const;
  std::uint64_t items_precomputed() const { return items_precomputed_; }
  std::uint64_t items_given_up() const { return items_given_up_; }
  std::size_t items_hot() const { return assignment_.hot(); }
  // share of the accesses from which an item is hot; 0 = none is
  double hot_share() const {
    return replication_.is_on() ? replication_.decision().hot_share() : config_.refresh.hot_share;
  }
  bool is_planned() const { return stage_ != Stage::off && assignment_.planned(); }
  // Algorithm 1's decision; null = the threshold is configured, or nothing is decided yet
  const ReplicationDecision* replication() const {
    return replication_.decision().accesses > 0 ? &replication_.decision() : nullptr;
  }
  std::string check_bounds() const;

 private:
  enum class Stage : std::uint8_t { off, walking, done, full };
  using Wanted = WantedItem;
  struct BackgroundJob {
    std::uint64_t id = 0;
    NodeId node = 0;  // node of a chunk
    std::vector<Wanted> items;
    Instant deadline;
    bool suspect = false;
    bool pulls = false;  // all items are pulled from other nodes
  };

  void work(Step step);
  bool takes_chunks(Instant now, NodeId node, bool refreshed) const;
  void take_page(Step step, const ItemList& page);
  void look_up(Step step, std::vector<Wanted> items);
  bool may_start() const;
  void compute_chunk(Step step, NodeId node);
  void walk_again(Instant now);
  void watch_nodes(Step step);
  void read_plan(Step step);
  bool follow_plan(Step step, std::shared_ptr<const ItemAssignment> plan);
  void reassign(Step step);
  placement::Pace mean_pace() const;
  void log_replication(Step step);
  void refresh(Item item);
  bool may_catch_up(Instant now) const;
  bool is_done(Instant now) const;
  void log_done(Step step);
  NodeId next_chunk(Instant now);
  void leave_out(NodeId node, bool refreshed);
  void want(Instant now, std::span<const MissingItems::LookedUpItem> seen);
  void want_all(Instant now, const std::vector<Wanted>& items);
  void on_nothing_kept(Step step, const BackgroundJob& chunk);
  void become_full(Step step);
  void blame(Step step, const BackgroundJob& chunk, std::uint32_t blame, std::string_view why);
  void blame_loss(Step step, const BackgroundJob& chunk);
  bool fits(const Item& item) const;
  void become_block(Item& item) const;
  bool begins_with_system() const;

  PrecomputeConfig config_;
  const WorkerTable& workers_;
  const LeaderView& leader_;
  PromptForm form_;
  BlockNames names_;
  CurrentAssignment assignment_;
  Replication replication_;
  double logged_hot_share_ = -1;  // as last logged; -1 = never
  Instant replication_logged_;
  std::uint64_t plan_job_ = 0;                          // reads the plan; 0 = none
  Instant plan_read_at_;                                // when it was started last
  std::shared_ptr<const ItemAssignment> refused_plan_;  // last read plan, for other nodes; null = none
  BackgroundCapacity capacity_;
  MissingItems missing_;  // looked up, not computed yet
  std::string catalog_version_;
  bool renamed_;  // the names in the catalog do not apply: another model's, or another kind of block
  Stage stage_ = Stage::off;
  ItemNumber walked_ = 0;  // catalog position where the walk continues
  bool last_listed_ = false;
  bool walk_due_ = false;  // another walk follows this one: others stand in for an away node
  bool done_logged_ = false;
  std::uint64_t list_job_ = 0;
  bool list_is_stale_ = false;  // it was asked before the walk restarted
  std::optional<BackgroundJob> lookup_;
  std::deque<Item> changed_;                   // put, hot or missed items, not looked up yet
  std::set<std::string, std::less<>> missed_;  // ids of items that requests missed, until they are computed
  std::uint32_t unkept_ = 0;  // chunks after the walk, the last ones, of which nothing was kept
  std::set<NodeId> behind_;   // nodes for which blocks were left out, and lost ones
  Instant catch_up_from_;     // no walk for nodes in `behind_` begins before
  std::set<NodeId> leaving_;
  std::map<std::uint64_t, BackgroundJob> running_;
  Instant paused_until_;
  Instant progressed_;  // when a page or a chunk was last done, or nothing was to be done
  std::uint64_t items_precomputed_ = 0, items_given_up_ = 0;
};

inline constexpr std::uint64_t precompute_timer = 1;

}  // namespace troupe::router
