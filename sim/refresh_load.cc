#include "sim/refresh_load.h"

#include <algorithm>
#include <cmath>

#include "router/plan.h"
#include "sim/clients.h"
#include "sim/cluster.h"
#include "sim/quantile.h"

namespace troupe::sim {
namespace {

constexpr Duration look_every{2'000}, precomputing_max{600'000'000}, second{1'000'000};

class RefreshLoad {
 public:
  RefreshLoad(PlacesChange change, const RefreshLoadOptions& options)
      : change_(change),
        options_(options),
        cluster_(calm(options.scenario), violations_),
        clients_(cluster_, violations_) {}

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
    watch(changes, end);
    result_.before = window(begin + options_.warm_up, changes);
    result_.during = window(changes, changes + options_.during);
    result_.after = window(changes + options_.during, end);
    result_.computed = metric(Metric::item_blocks_precomputed) - computed;
    result_.moved_bytes = metric(Metric::item_bytes_moved) - moved;
    result_.refreshed = metric(Metric::items_refreshed) - refreshed;
    result_.hot = metric(Metric::items_hot);
    clients_.stop();
    advance(end + Duration{cluster_.scenario().deadline.us * 2});
    clients_.check_overdue();
    result_.violations = violations_.kept();
    return std::move(result_);
  }

 private:
  static Scenario calm(Scenario scenario) {
    scenario.faults.clear();
    scenario.precompute = true;
    return scenario;
  }
  bool is_one_item() const { return change_ == PlacesChange::burst || change_ == PlacesChange::new_item; }
  double metric(Metric metric) { return cluster_.metrics().value(metric); }
  Instant next_second() const { return {(cluster_.now().us / second.us + 1) * second.us}; }
  void advance(Instant until) { cluster_.host().run_until(until); }

  // Until the blocks of the catalog are where they belong, and with the worker that will come back gone.
  void prepare() {
    const NodeId last = cluster_.scenario().worker(cluster_.scenario().workers - 1);
    advance(Instant{} + second);
    await_precomputed();
    if (change_ != PlacesChange::worker_returns) return;
    cluster_.kill(last);
    advance(cluster_.now() + options_.scenario.refresh.away_after + second);
    await_precomputed();
  }
  void await_precomputed() {
    const Instant latest = cluster_.now() + precomputing_max;
    while (cluster_.precomputing() && cluster_.now() < latest) advance(cluster_.now() + look_every);
  }

  void change() {
    const Scenario& s = cluster_.scenario();
    const NodeId last = s.worker(s.workers - 1);
    if (change_ == PlacesChange::worker_leaves) {
      note_blocks_of(last);
      cluster_.kill(last);
    } else if (change_ == PlacesChange::worker_returns) {
      note_blocks_of(last);
      cluster_.restart(last);
    } else {
      item_ = find_item();
      const double in_request = std::min(0.999, options_.share * s.candidates);
      cluster_.world().item_flash = {1 - std::pow(1 - in_request, 1.0 / s.candidates), item_, 1};
      if (change_ == PlacesChange::new_item)
        clients_.ask(
            PutItem{0, WorldData::item_id(item_), "new", {11, 12, 13, 14, 15, 16, 17}, Token(item_)});
      result_.blocks = static_cast<double>(s.workers) - (change_ == PlacesChange::burst);
    }
  }

  // One that hardly anybody asks for and that only one worker is to have; or one that is not there yet.
  std::uint32_t find_item() {
    const std::string catalog = cluster_.versions().catalog_version;
    for (std::uint32_t number = cluster_.scenario().items; number-- > 0;) {
      const std::string id = WorldData::item_id(number);
      const bool there = cluster_.world().item(id, catalog).has_value();
      const bool sharded = cluster_.places()->nodes_of(id).size() == 1;
      if (sharded && there == (change_ == PlacesChange::burst)) return number;
    }
    return 0;
  }

  BlockName block(const Item& item) const {
    const NameContext names{cluster_.versions().model_version,
                            "toy pages of " + std::to_string(cluster_.scenario().page_tokens)};
    return router::item_block(cluster_.form(), names, item.tokens);
  }
  bool holds(NodeId node, const BlockName& name) {
    const Node& worker = cluster_.node(node);
    const PoolBlock* found = worker.kv_worker ? worker.kv_worker->pool().find(name) : nullptr;
    return found && found->state == BlockState::ready;
  }

  // What belongs there; if it leaves: there alone.
  void note_blocks_of(NodeId node) {
    const std::string catalog = cluster_.versions().catalog_version;
    for (std::uint32_t number = 0; number < cluster_.scenario().items; ++number) {
      const std::string id = WorldData::item_id(number);
      const auto item = cluster_.world().item(id, catalog);
      const std::vector<NodeId> nodes = cluster_.places()->nodes_of(id);
      if (!item || std::ranges::count(nodes, node) == 0) continue;
      if (change_ == PlacesChange::worker_leaves && nodes.size() > 1) continue;
      blocks_.push_back(block(*item));
    }
    result_.blocks = static_cast<double>(blocks_.size());
  }

  bool is_through() {
    const Scenario& s = cluster_.scenario();
    std::vector<NodeId> workers;
    for (std::uint32_t i = 0; i < s.workers; ++i)
      if (cluster_.host().alive(s.worker(i))) workers.push_back(s.worker(i));
    if (is_one_item()) {
      const auto item = cluster_.world().item(WorldData::item_id(item_), cluster_.versions().catalog_version);
      if (!item) return false;
      const BlockName name = block(*item);
      return std::ranges::all_of(workers, [&](NodeId node) { return holds(node, name); });
    }
    if (change_ == PlacesChange::worker_returns) workers = {s.worker(s.workers - 1)};
    while (!blocks_.empty() &&  // those that were there once are not looked at again
           std::ranges::any_of(workers, [&](NodeId node) { return holds(node, blocks_.back()); }))
      blocks_.pop_back();
    return blocks_.empty();
  }

  void watch(Instant changed, Instant end) {
    while (cluster_.now() < end) {
      advance(std::min(end, cluster_.now() + look_every));
      if (!std::isnan(result_.through_ms) || !is_through()) continue;
      result_.through_ms = static_cast<double>((cluster_.now() - changed).us) * 1e-3;
      if (is_one_item()) advance(end);
    }
  }

  RefreshWindow window(Instant from, Instant to) {
    RefreshWindow sum;
    std::vector<float> latencies;
    const auto& rows = clients_.seconds();
    for (std::int64_t i = from.us / second.us; i < to.us / second.us; ++i) {
      if (i >= std::ssize(rows)) break;
      const Second& row = rows[static_cast<std::size_t>(i)];
      sum.requests += row.sent;
      sum.failed += row.refused + row.expired;
      latencies.insert(latencies.end(), row.latency_ms.begin(), row.latency_ms.end());
    }
    sum.p50_ms = quantile(latencies, 0.5);
    sum.p99_ms = quantile(std::move(latencies), 0.99);
    return sum;
  }

  const PlacesChange change_;
  const RefreshLoadOptions& options_;
  Violations violations_;
  Cluster cluster_;
  Clients clients_;
  std::uint32_t item_ = 0;
  std::vector<BlockName> blocks_;  // that were not seen where they have to come to
  RefreshLoadResult result_;
};

}  // namespace

std::string_view name_of(PlacesChange change) {
  constexpr std::string_view names[] = {"an item becomes hot", "a new item is hot at once", "a worker leaves",
                                        "a worker returns"};
  return names[static_cast<std::size_t>(change)];
}

RefreshLoadResult run_refresh_load(PlacesChange change, const RefreshLoadOptions& options) {
  return RefreshLoad(change, options).go();
}

}  // namespace troupe::sim
