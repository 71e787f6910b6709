// Measures, without faults, how long a simulated cluster needs to bring item blocks to other nodes
// after a change, and what requests notice.
#include "sim/runs/refresh_load.h"

#include <algorithm>
#include <cmath>

#include "router/request/block_names.h"
#include "sim/base/quantile.h"
#include "sim/runs/calm_run.h"

namespace troupe::sim {
namespace {

constexpr Duration watch_every{2'000}, all_made_max{600'000'000}, second{1'000'000};

class RefreshLoad : CalmRun {
 public:
  RefreshLoad(PlacementChange change, const RefreshLoadOptions& options)
      : CalmRun(precomputed(options.scenario)), change_(change), options_(options) {}

  RefreshLoadResult go() {
    cluster_.start();
    prepare();
    const Instant begin = next_second();
    const Instant changes = begin + options_.warm_up + options_.before;
    const Instant end = changes + options_.during + options_.after;
    clients_.start(begin, end);
    advance(changes);
    const double computed = metric(Metric::item_blocks_precomputed), moved = metric(Metric::item_bytes_moved);
    const double refreshed = metric(Metric::items_refreshed);
    change();
    if (is_of_items()) count_wants();
    watch(changes, end);
    result_.before = window(begin + options_.warm_up, changes);
    result_.during = window(changes, changes + options_.during);
    result_.after = window(changes + options_.during, end);
    result_.computed = metric(Metric::item_blocks_precomputed) - computed;
    result_.moved_bytes = metric(Metric::item_bytes_moved) - moved;
    result_.refreshed = metric(Metric::items_refreshed) - refreshed;
    result_.hot = metric(Metric::items_hot);
    result_.violations = CalmRun::end();
    return std::move(result_);
  }

 private:
  static Scenario precomputed(Scenario scenario) {
    scenario.precompute = true;
    return scenario;
  }
  bool is_of_items() const { return change_ <= PlacementChange::new_item; }
  Instant next_second() const { return {(cluster_.now().us / second.us + 1) * second.us}; }
  void advance(Instant until) { cluster_.host().run_until(until); }

  // Runs until the catalog's blocks are where they belong; the worker that will return has left by then.
  void prepare() {
    const NodeId last = cluster_.scenario().worker(cluster_.scenario().workers - 1);
    advance(Instant{} + second);
    await_all_made();
    if (change_ != PlacementChange::worker_returns) return;
    cluster_.kill(last);
    advance(cluster_.now() + options_.scenario.refresh.away_after + second);
    await_all_made();
  }
  void await_all_made() { await_precomputed(cluster_.now() + all_made_max, watch_every); }

  void change() {
    const Scenario& s = cluster_.scenario();
    const NodeId last = s.worker(s.workers - 1);
    if (change_ == PlacementChange::worker_leaves) {
      note_blocks_of(last);
      cluster_.kill(last);
    } else if (change_ == PlacementChange::worker_returns) {
      note_blocks_of(last);
      cluster_.restart(last);
    } else {
      make_hot();
    }
  }

  // Makes items popular that few requests name and that only one worker has, or an item that does not exist
  // yet.
  void make_hot() {
    const Scenario& s = cluster_.scenario();
    const bool is_campaign = change_ == PlacementChange::campaign;
    items_ = is_campaign ? options_.campaign_items : 1;
    first_ = s.items - items_;
    while (first_ > s.items / 2 && !is_candidate(first_)) --first_;
    const double share = is_campaign ? options_.campaign_share : options_.burst_share;
    const double in_request = std::min(0.999, share * s.candidates);  // at most once per request
    cluster_.world().item_flash = {is_campaign ? share : 1 - std::pow(1 - in_request, 1.0 / s.candidates),
                                   first_, items_};
    if (change_ == PlacementChange::new_item)
      clients_.ask(PutItem{
          0, WorldData::item_id(first_), "new", {11, 12, 13, 14, 15, 16, 17}, static_cast<Token>(first_)});
    result_.blocks = items_ * static_cast<double>(s.workers - (change_ != PlacementChange::new_item));
  }
  bool is_candidate(std::uint32_t number) {
    const std::string id = WorldData::item_id(number);
    const bool there = cluster_.world().item(id, cluster_.versions().catalog_version).has_value();
    return cluster_.places()->nodes_of(id).size() == 1 && there == (change_ != PlacementChange::new_item);
  }

  BlockName block(const Item& item) const {
    const NameContext names{cluster_.versions().model_version,
                            "toy pages of " + std::to_string(cluster_.scenario().page_tokens)};
    return router::BlockNames(cluster_.form(), names).item(item.tokens);
  }
  bool holds(NodeId node, const BlockName& name) {
    const Node& worker = cluster_.node(node);
    const PoolBlock* found = worker.kv_worker ? worker.kv_worker->pool().find(name) : nullptr;
    return found && found->state == BlockState::ready;
  }

  // Collects the blocks that belong on the node; if it leaves, only those that no other node has.
  void note_blocks_of(NodeId node) {
    const std::string catalog = cluster_.versions().catalog_version;
    for (std::uint32_t number = 0; number < cluster_.scenario().items; ++number) {
      const std::string id = WorldData::item_id(number);
      const auto item = cluster_.world().item(id, catalog);
      const std::vector<NodeId> nodes = cluster_.places()->nodes_of(id);
      if (!item || std::ranges::count(nodes, node) == 0) continue;
      if (change_ == PlacementChange::worker_leaves && nodes.size() > 1) continue;
      blocks_.push_back(block(*item));
    }
    result_.blocks = static_cast<double>(blocks_.size());
  }

  bool is_through() {
    const Scenario& s = cluster_.scenario();
    std::vector<NodeId> workers;
    for (std::uint32_t i = 0; i < s.workers; ++i)
      if (cluster_.host().alive(s.worker(i))) workers.push_back(s.worker(i));
    if (is_of_items())
      return knows_blocks() && std::ranges::all_of(workers, [&](NodeId node) {
               return std::ranges::all_of(blocks_, [&](const BlockName& name) { return holds(node, name); });
             });
    if (change_ == PlacementChange::worker_returns) workers = {s.worker(s.workers - 1)};
    while (!blocks_.empty() &&  // blocks seen once are not checked again
           std::ranges::any_of(workers, [&](NodeId node) { return holds(node, blocks_.back()); }))
      blocks_.pop_back();
    return blocks_.empty();
  }

  // A new item has no block before it is stored.
  bool knows_blocks() {
    if (!blocks_.empty()) return true;
    const std::string catalog = cluster_.versions().catalog_version;
    for (std::uint32_t number = first_; number < first_ + items_; ++number)
      if (const auto item = cluster_.world().item(WorldData::item_id(number), catalog))
        blocks_.push_back(block(*item));
    return !blocks_.empty();
  }

  // Counts the items' blocks that requests need. Background requests do not count: their blocks belong
  // there or may not displace others.
  void count_wants() {
    const Instant changed = cluster_.now();
    cluster_.host().watch_events([this, changed](Instant now, Address to, const Event& event) {
      const auto* received = std::get_if<Received>(&event);
      const auto* ask =
          received && to.role == Role::kv_worker && received->from.role == Role::inference_worker
              ? std::get_if<AcquireBlocks>(&received->message)
              : nullptr;
      if (!ask || ask->retention.belongs || !ask->may_evict || !knows_blocks()) return;
      for (const BlockWant& want : ask->wants) {
        if (std::ranges::find(blocks_, want.name) == blocks_.end()) continue;
        ++result_.wanted;
        if (holds(to.node, want.name)) continue;
        ++result_.missed;
        result_.last_missed_ms = static_cast<double>((now - changed).us) * 1e-3;
      }
    });
  }

  void watch(Instant changed, Instant end) {
    while (cluster_.now() < end) {
      advance(std::min(end, cluster_.now() + watch_every));
      if (!std::isnan(result_.through_ms) || !is_through()) continue;
      result_.through_ms = static_cast<double>((cluster_.now() - changed).us) * 1e-3;
      if (is_of_items()) advance(end);
    }
  }

  RefreshWindow window(Instant from, Instant to) {
    RefreshWindow sum;
    std::vector<float> latencies = latencies_ms(static_cast<std::size_t>(from.us / second.us),
                                                static_cast<std::size_t>(to.us / second.us));
    const auto& rows = clients_.seconds();
    for (std::int64_t i = from.us / second.us; i < to.us / second.us; ++i) {
      if (i >= std::ssize(rows)) break;
      const Second& row = rows[static_cast<std::size_t>(i)];
      sum.requests += row.sent;
      sum.failed += row.refused + row.expired;
    }
    sum.p50_ms = quantile(latencies, 0.5);
    sum.p99_ms = quantile(std::move(latencies), 0.99);
    return sum;
  }

  const PlacementChange change_;
  const RefreshLoadOptions& options_;
  std::uint32_t first_ = 0, items_ = 0;  // items that become popular
  std::vector<BlockName> blocks_;        // blocks of those items, or of a worker, that have not arrived yet
  RefreshLoadResult result_;
};

}  // namespace

std::string_view name_of(PlacementChange change) {
  constexpr std::string_view names[] = {"an item becomes hot", "fifty items become hot",
                                        "a new item is hot at once", "a worker leaves", "a worker returns"};
  return names[static_cast<std::size_t>(change)];
}

RefreshLoadResult run_refresh_load(PlacementChange change, const RefreshLoadOptions& options) {
  return RefreshLoad(change, options).go();
}

}  // namespace troupe::sim
