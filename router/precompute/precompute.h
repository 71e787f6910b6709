#pragma once
// Computes the item-prefix blocks of the whole catalog ahead of time (BAT §5.2, step 3): waits until a
// KV-cache worker has loaded what it had on disk, walks the catalog in order, asks the index what is missing,
// and has that computed as background work, a few chunks at a time, by one live worker after the other. A
// worker whose KV-cache worker is not ready is passed over. One that kept nothing of two chunks in a row,
// with a sign of life between them, is full; when all are, the walk ends. Items that are put later are
// computed the same way, and another model begins the walk anew. Nothing waits for it and nothing is wrong
// without it. What is missing where is in missing_items.h, who takes chunks in rooms.h; here are the walk and
// the background jobs.
//
// With ItemPlaces each block goes to the nodes where it belongs: computed by one of them, pulled from there
// by the others. What a node does not take now is left out; once the walk is over and the node takes some,
// the catalog is walked once more. Where blocks belong changes while requests are served (current_places.h):
// a hot item is brought to all nodes, a put one to its own, and there they displace what was used longest
// ago, as the walk may not. When a node is away or back the catalog is walked once more; what is in its place
// is left alone. Nothing is dropped: what belongs elsewhere leaves a node when that needs the room.
//
// Some item may kill whoever computes it. The items of a chunk that was refused, lost or not answered are
// suspects: they are tried again in chunks of half as many (one by one after a loss), each alone in its batch
// and none beside another of ours, so that only what was there is blamed. An item that fails by itself again
// is given up, wherever else it was to be.
#include <cstdint>
#include <deque>
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
#include "router/precompute/current_places.h"
#include "router/precompute/missing_items.h"
#include "router/precompute/rooms.h"
#include "router/request/block_names.h"

namespace troupe::router {

struct PrecomputeConfig {
  bool on = true;
  std::uint32_t page_items = 256;      // of the catalog, per look
  std::uint32_t chunk_tokens = 2'000;  // per background plan; at least one item
  std::uint32_t running_max = 2;       // background plans at a time
  std::uint32_t blamed_max = 4'096;    // items that are remembered as suspects
  std::uint32_t changed_max = 4'096;   // put and hot items that wait; more are left to those who ask for them
  std::uint32_t asked_max = 16;        // KV-cache workers that are asked at a time whether they are ready
  Duration poll{200'000};              // between two looks at the KV-cache workers, and at what is overdue
  Duration pause{200'000};             // after a refusal
  Duration lookup_wait{1'000'000};
  Duration budget{30'000'000};  // of a background plan
  RefreshConfig refresh;
};

class Precompute {
 public:
  // The two views belong to the router and outlive this.
  // Without places, one worker after the other takes what is missing everywhere.
  Precompute(PrecomputeConfig config, const WorkerTable& workers, const LeaderView& leader, PromptForm form,
             NameContext names, std::shared_ptr<const ItemPlaces> places = nullptr);

  Precompute(const Precompute&) = delete;
  Precompute& operator=(const Precompute&) = delete;

  void start(Step step);
  void on_timer(Step step);  // precompute_timer
  void add(Step step, Item item);
  void drop(const std::string& item);  // it was deleted
  // A request's candidates, of the model and the catalog that are followed.
  void note_accesses(Step step, std::span<const ItemView> items);
  void follow(Step step, const std::string& model_version, const std::string& catalog_version);
  void lose(Step step, std::span<const NodeId> nodes);  // what ran there is tried elsewhere
  // The table has other nodes, and of those some leave: blocks belong to the others, who get them from
  // wherever they are.
  void follow_members(Step step, std::set<NodeId> leaving);
  // No item's block is missing where it belongs, nor was left out for a node that has not begun yet: that one
  // is waited for until others stand in for it.
  bool is_handed_on() const;

  // False if the answer is to somebody else's question.
  bool on_status(Step step, const StatusReply& reply);
  bool on_listed(Step step, std::uint64_t job, const JobResult& result);
  bool on_found(Step step, const BlocksFound& found);
  bool on_executed(Step step, const Executed& executed);
  bool on_refused(Step step, const Refused& refused);

  bool at_rest() const;            // nothing is left to be computed
  std::string_view state() const;  // off | waiting | running | done | full
  std::uint64_t items_precomputed() const { return items_precomputed_; }
  std::uint64_t items_given_up() const { return items_given_up_; }
  std::size_t items_hot() const { return places_.hot(); }
  std::string check_bounds() const;

 private:
  enum class Stage : std::uint8_t { off, walking, done, full };
  using Wanted = WantedItem;
  struct Asked {
    std::uint64_t id = 0;
    NodeId node = 0;  // of a chunk
    std::vector<Wanted> items;
    Instant deadline;
    bool suspect = false;
    bool pulls = false;  // all of it from other nodes
  };

  void work(Step step);
  bool takes_chunks(Instant now, NodeId node, bool refreshed) const;
  void take_page(Step step, const ItemList& page);
  void look_up(Step step, std::vector<Wanted> items);
  bool may_start() const;
  void compute_chunk(Step step, NodeId node);
  void walk_again();
  void watch_nodes(Step step);
  void refresh(Item item);
  bool may_catch_up(Instant now) const;
  NodeId next_chunk(Instant now);
  void leave_out(NodeId node, bool refreshed);
  void want(Instant now, std::span<const MissingItems::Seen> seen);
  void want_all(Instant now, const std::vector<Wanted>& items);
  void on_fruitless(Step step, const Asked& chunk);
  void blame(Step step, const Asked& chunk, std::uint32_t blame, std::string_view why);
  void blame_loss(Step step, const Asked& chunk);
  bool fits(const Item& item) const;

  PrecomputeConfig config_;
  const WorkerTable& workers_;
  const LeaderView& leader_;
  PromptForm form_;
  BlockNames names_;
  CurrentPlaces places_;
  Rooms rooms_;
  MissingItems missing_;  // looked up; not computed yet
  std::string catalog_version_;
  bool renamed_ = false;  // the model is not the port's own: its names of blocks are not ours
  Stage stage_ = Stage::off;
  ItemNumber walked_ = 0;  // in the catalog: the walk goes on there
  bool last_listed_ = false;
  bool walk_due_ = false;  // after this one: others stand in for a node that is away
  std::uint64_t list_job_ = 0;
  bool list_is_stale_ = false;  // it was asked before the walk began anew
  std::optional<Asked> lookup_;
  std::deque<Item> changed_;  // put, or hot; not looked up yet
  std::set<NodeId> behind_;   // that something was left out for
  std::set<NodeId> leaving_;
  std::map<std::uint64_t, Asked> running_;
  Instant paused_until_;
  std::uint64_t items_precomputed_ = 0, items_given_up_ = 0;
};

inline constexpr std::uint64_t precompute_timer = 1;

}  // namespace troupe::router
