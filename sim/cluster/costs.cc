// Judges waste in simulated runs, where answers are right but work was needless: recomputed blocks,
// unneeded pulls or evictions, bad choices of workers.
#include "sim/cluster/costs.h"

#include <algorithm>
#include <cmath>

#include "runtime/actor/block_name.h"

namespace troupe::sim {
namespace {

constexpr double clearly_cheaper = 0.95;  // upper bound of a pull's cost, relative to computing
constexpr int promise = 20;
constexpr std::size_t plans_max = 4'096;  // per node; more than are ever in flight
constexpr Duration until_quarantined{1'000};
constexpr std::uint64_t far_away = ~std::uint64_t{0};
// Guarantees of placement/popularity/frequency_sketch.h and their tolerance: a duplicated request counts
// twice there.
constexpr std::uint64_t sketch_entries_min = 64, sightings_per_entry = 16;
constexpr std::uint32_t hot_from = 8, hot_share = 4;
constexpr double dearer_from = 1.5, dearer_tokens = 20;

template <class Map>
void keep_newest(Map& map) {
  if (map.size() > plans_max) map.erase(map.begin());
}

template <class T>
bool holds(const std::vector<T>& list, const T& one) {
  return std::ranges::find(list, one) != list.end();
}

std::uint32_t tokens_of(const Segment& segment) { return static_cast<std::uint32_t>(segment.tokens.size()); }

bool keeps_user(const Execute& plan) {
  for (std::size_t i = 0; i < plan.blocks.size(); ++i)
    if (plan.plan.segments[i].kind == SegmentKind::user && plan.blocks[i].name) return true;
  return false;
}

}  // namespace

void Costs::report(const char* role, NodeId node, const std::string& what) {
  violations_.report(promise, std::string(role) + "@" + std::to_string(node) + " " + what, cluster_.now());
}

const PoolBlock* Costs::ready(NodeId node, const BlockName& name, SegmentKind kind,
                              std::uint64_t tokens) const {
  const actors::KvWorkerCore* worker = cluster_.node(node).kv_worker;
  const PoolBlock* block = worker ? worker->pool().find(name) : nullptr;
  const bool is_it = block && block->state == BlockState::ready && identical(block->name, name) &&
                     block->kind == kind && block->tokens == tokens;
  return is_it ? block : nullptr;
}

void Costs::on_send(Address from, Address to, const Message& message) {
  if (from.role == Role::kv_worker) {
    on_worker_send(from.node, to, message);
  } else if (from.role == Role::router) {
    on_router_send(from.node, to, message);
  } else if (const auto* executed = std::get_if<Executed>(&message)) {
    judge_reuse(from.node, to, *executed);
  } else if (const auto* split = std::get_if<SetSplit>(&message)) {
    judge_split(from.node, *split);
  }
}

void Costs::on_event(Address to, const Event& event) {
  if (to.role == Role::kv_worker) return on_worker_event(to.node, event);
  if (to.role == Role::router) return on_router_event(to.node, event);
  const auto* received = std::get_if<Received>(&event);
  if (!received) return;
  if (const auto* plan = std::get_if<Execute>(&received->message)) {
    note_plan(to.node, received->from, *plan);
  } else if (const auto* reported = std::get_if<PoolReport>(&received->message)) {
    splits_[to.node] = {reported->incarnation, reported->epoch};
  }
}

void Costs::look() {
  for (auto& [id, worker] : workers_) {
    const Node& node = cluster_.node(id);
    if (!node.kv_worker) continue;
    if (const std::size_t waits = node.kv_worker->waiting_for_nobody(); waits > 0)
      report("kv_worker", id,
             "lets " + std::to_string(waits) + " requests wait for blocks that nobody writes");
    const std::uint64_t granted = worker.granted_pages * cluster_.page_bytes();
    if (node.store->bytes_asked() > granted)
      report("kv_worker", id,
             "has pulled " + std::to_string(node.store->bytes_asked()) + " bytes; it was granted " +
                 std::to_string(granted));
  }
}

// ---- KV-cache workers ----

void Costs::on_worker_event(NodeId node, const Event& event) {
  Worker& worker = workers_[node];
  worker.acquires = false;
  if (const auto* fired = std::get_if<TimerFired>(&event); fired && fired->timer == start_timer) worker = {};
  const auto* received = std::get_if<Received>(&event);
  if (!received) return;
  if (const auto* ask = std::get_if<AcquireBlocks>(&received->message)) {
    note_wants(node, worker, received->from, *ask);
  } else if (const auto* release = std::get_if<ReleaseBlocks>(&received->message)) {
    note_release(node, worker, received->from, *release);
  } else if (const auto* acquired = std::get_if<BlocksAcquired>(&received->message)) {
    for (const BlockGrant& grant : acquired->grants) worker.granted_pages += grant.pages.size();
  }
}

void Costs::note_wants(NodeId node, Worker& worker, Address from, const AcquireBlocks& ask) {
  worker.acquires = true;
  worker.wanted.clear();
  worker.areas_are_one = ask.retention.keep_hotter;
  worker.in_order = ask.retention.evict_first.empty() && !ask.retention.keep_hotter;
  keep_newest(worker.reads);  // reads of other nodes may end without a message
  ActiveReads& reads = worker.reads[{from, ask.id}];
  for (const BlockWant& want : ask.wants) {
    reads.wants.push_back(want.name);
    const PoolBlock* block = ready(node, want.name, want.kind, want.tokens);
    if (!block) continue;
    worker.wanted.push_back(want.name);
    reads.sure.push_back(block->generation);
    if (const auto known = worker.blocks.find(block->generation); known != worker.blocks.end())
      known->second.latest = far_away;
  }
  count_wants(node, worker, ask);
}

void Costs::count_wants(NodeId node, Worker& worker, const AcquireBlocks& ask) {
  worker.counts = worker.counts || ask.retention.keep_hotter;
  if (!worker.counts || (!ask.may_evict && !ask.read_only)) return;
  const actors::KvWorkerCore& core = *cluster_.node(node).kv_worker;
  const std::uint64_t halved_after =
      std::max<std::uint64_t>(core.pool().pages(), sketch_entries_min) * sightings_per_entry;
  for (const BlockWant& want : ask.wants) {
    std::uint32_t& count = worker.wants[want.name];
    if (count >= hot_from && core.times_wanted(want.name) * hot_share < std::min(count, 255U))
      report("kv_worker", node,
             "undercounts a block requested " + std::to_string(count) + " times: it counts " +
                 std::to_string(core.times_wanted(want.name)));
    ++count;
    if (++worker.sightings < halved_after) continue;
    for (auto& [name, wants] : worker.wants) wants = std::min(wants, 255U) / 2;
    worker.sightings = 0;
  }
}

// The end of a read is not always visible: a waiting request may have got its block without a message, and
// a remote read may have ended with its lease long ago.
void Costs::note_release(NodeId node, Worker& worker, Address from, const ReleaseBlocks& release) {
  const auto reads = worker.reads.extract({from, release.id});
  if (reads.empty()) return;
  const std::uint64_t now = ++worker.uses;
  for (const BlockName& name : reads.mapped().wants)
    if (const PoolBlock* block = cluster_.node(node).kv_worker->pool().find(name))
      if (const auto known = worker.blocks.find(block->generation); known != worker.blocks.end())
        known->second.latest = now;
  for (const Generation generation : reads.mapped().sure) {
    const auto known = worker.blocks.find(generation);
    if (known == worker.blocks.end()) continue;
    known->second.latest = now;
    if (from.node == node) known->second.earliest = now;
  }
}

void Costs::on_worker_send(NodeId node, Address to, const Message& message) {
  Worker& worker = workers_[node];
  if (const auto* ask = std::get_if<AcquireBlocks>(&message)) {
    if (ask->read_only) judge_remote_request(node, worker, *ask);  // otherwise it offers what it has
  } else if (const auto* acquired = std::get_if<BlocksAcquired>(&message)) {
    ActiveReads& reads = worker.reads[{to, acquired->id}];
    for (const BlockGrant& grant : acquired->grants)
      if (grant.grant == Grant::read) reads.sure.push_back(grant.generation);
  } else if (const auto* changes = std::get_if<CacheChanges>(&message)) {
    if (changes->sequence <= worker.reported) return;  // already reported to another cache-meta
    worker.reported = changes->sequence;
    judge_evictions(node, worker, *changes);
  }
}

// Each block may be requested once; after a failure it has another generation.
void Costs::judge_remote_request(NodeId node, Worker& worker, const AcquireBlocks& ask) {
  for (const BlockWant& want : ask.wants) {
    if (ready(node, want.name, want.kind, want.tokens))
      report("kv_worker", node, "requests a block that it has from another node");
    const PoolBlock* block = cluster_.node(node).kv_worker->pool().find(want.name);
    if (block && !worker.asked.insert(block->generation).second)
      report("kv_worker", node, "requests one block twice");
  }
}

// A worker evicts one block after the other until there is enough space, so the space left over is smaller
// than the largest evicted block.
void Costs::judge_evictions(NodeId node, Worker& worker, const CacheChanges& changes) {
  const PagePool& pool = cluster_.node(node).kv_worker->pool();
  // A request that wrote some parts of a history has read others at the same time.
  const std::uint64_t earliest = worker.uses_reported + 1;
  for (const BlockEntry& added : changes.added)
    worker.blocks[added.generation] = {added.kind, added.tokens, earliest, ++worker.uses};
  worker.uses_reported = worker.uses;
  std::uint32_t largest = 0;  // in tokens
  std::set<PoolArea> areas;
  for (const BlockVersion& gone : changes.removed) {
    const auto known = worker.blocks.find(gone.generation);
    if (known == worker.blocks.end()) continue;
    areas.insert(pool.area_of(known->second.kind));
    largest = std::max(largest, known->second.tokens);
    const ReadyBlock block = known->second;
    worker.blocks.erase(known);
    if (worker.acquires) judge_evicted(node, worker, gone, block);
  }
  if (!worker.acquires || areas.empty()) return;
  const auto is_free = [&](SegmentKind kind) {  // of areas that are one; others keep what they do not lend
    const PagePool::EvictionPlan pages_available = pool.plan_eviction(kind, largest, 1);
    return pages_available.possible && pages_available.displaced.empty();
  };
  const std::uint64_t pages = pool.pages_for(largest);
  if (worker.areas_are_one
          ? is_free(SegmentKind::item) && is_free(SegmentKind::user)
          : std::ranges::any_of(areas, [&](PoolArea area) { return pool.pages_available(area) >= pages; }))
    report("kv_worker", node,
           "has evicted blocks of up to " + std::to_string(pages) +
               " pages although as many are free for any block");
}

// True if a reader may still use the block without a visible end. A lease that ends without a release
// counts as the block's last use.
bool Costs::is_read(const Worker& worker, const PoolBlock& block) {
  return std::ranges::any_of(worker.reads, [&](const auto& entry) {
    const ActiveReads& reads = entry.second;
    return holds(reads.sure, block.generation) || holds(reads.wants, block.name);
  });
}

// User blocks computed on this node are evicted in order of their last use, which only requests change.
void Costs::judge_evicted(NodeId node, const Worker& worker, const BlockVersion& gone,
                          const ReadyBlock& block) {
  if (holds(worker.wanted, gone.name))
    return report("kv_worker", node, "has evicted a block that the same request needs");
  const PagePool& pool = cluster_.node(node).kv_worker->pool();
  if (!worker.in_order || block.kind != SegmentKind::user || worker.asked.contains(gone.generation)) return;
  for (const auto& [generation, other] : worker.blocks) {
    if (other.kind != SegmentKind::user || other.latest >= block.earliest ||
        worker.asked.contains(generation))
      continue;
    const auto there = pool.ready_after(generation - 1, 1);
    if (there.empty() || there[0]->generation != generation || !PagePool::is_evictable(*there[0])) continue;
    if (is_read(worker, *there[0])) continue;
    return report("kv_worker", node, "has evicted a user block that was used after one that stays");
  }
}

// ---- inference workers, allocators ----

void Costs::note_plan(NodeId node, Address from, const Execute& plan) {
  Worker& worker = workers_[node];
  keep_newest(worker.plans);
  PlanStart& known = worker.plans[{from.node, plan.id}];
  known.blocks.clear();
  known.wait_max_us = std::min(plan.budget_us / 2, actors::InferenceConfig().block_wait.us);
  for (std::uint32_t i = 0; i < plan.blocks.size() && i < plan.plan.segments.size(); ++i) {
    const Segment& segment = plan.plan.segments[i];
    if (!plan.blocks[i].name) continue;
    if (const PoolBlock* block = ready(node, *plan.blocks[i].name, segment.kind, segment.tokens.size()))
      known.blocks[i] = {block->name, block->generation};
  }
}

// Damaged blocks are removed from the pool one step later.
void Costs::judge_reuse(NodeId node, Address to, const Executed& executed) {
  auto known = workers_[node].plans.extract({to.node, executed.id});
  if (known.empty() || executed.blocks_us > known.mapped().wait_max_us) return;
  for (const auto& [segment, block] : known.mapped().blocks) {
    if (segment >= executed.reused.size() || executed.reused[segment] != 0) continue;
    const Incarnation process = cluster_.host().incarnation(node);
    const auto look = [this, node, process, segment = segment, block = block] {
      SimHost& host = cluster_.host();
      if (host.paused(node) || !host.alive(node) || host.incarnation(node) != process) return;
      const PoolBlock* there = cluster_.node(node).kv_worker->pool().find(block.first);
      if (there && there->generation == block.second && there->state == BlockState::ready)
        report("inference_worker", node,
               "has computed segment " + std::to_string(segment) + " of a plan although its block was ready");
    };
    cluster_.host().at(cluster_.now() + until_quarantined, look);
  }
}

void Costs::judge_split(NodeId node, const SetSplit& split) {
  const auto reported = splits_.find(node);
  if (reported != splits_.end() && reported->second.incarnation == split.incarnation &&
      reported->second.epoch >= split.epoch)
    report("allocator", node, "sets a split that the worker has already reported");
}

// ---- routers ----

void Costs::on_router_event(NodeId node, const Event& event) {
  Router& router = routers_[node];
  router.bill.reset();
  if (const auto* fired = std::get_if<TimerFired>(&event)) {
    if (fired->timer == start_timer) router = {};
    // The request continues without an answer of the index; an answer that arrives while it waits in a
    // worker's queue is ignored.
    const RequestId id = fired->timer / 4;
    if (fired->timer == router::timer_of(id, router::TimerKind::lookup)) router.lookups.erase(id);
  }
  const auto* received = std::get_if<Received>(&event);
  if (!received) return;
  if (const auto* found = std::get_if<BlocksFound>(&received->message)) {
    note_found(router, *found);
  } else if (const auto* executed = std::get_if<Executed>(&received->message)) {
    note_bill(router, *executed);
  } else if (const auto* beat = std::get_if<Heartbeat>(&received->message)) {
    const bool is_idle = !beat->draining && beat->slots_busy == 0 && beat->plans_waiting == 0;
    router.beats[received->from.node] = {cluster_.now(), is_idle, beat->us_per_operation, beat->models};
  }
}

void Costs::on_router_send(NodeId node, Address to, const Message& message) {
  Router& router = routers_[node];
  if (const auto* lookup = std::get_if<LookupBlocks>(&message)) {
    keep_newest(router.lookups);
    std::vector<BlockName>& names = router.lookups[lookup->id];
    for (const BlockQuery& block : lookup->blocks) names.push_back(block.name);
  } else if (const auto* plan = std::get_if<Execute>(&message)) {
    if (plan->priority == Priority::serving) judge_worker_choice(node, router, to.node, *plan);
    router.beats[to.node].is_idle = false;
    keep_newest(router.plans);
    router.plans[plan->id] = bill_of(plan->plan);
  } else if (const auto* ranked = std::get_if<RankReply>(&message)) {
    judge_token_counts(node, router, *ranked);
  } else if (const auto* scored = std::get_if<ScoreReply>(&message)) {
    judge_token_counts(node, router, *scored);
  } else if (const auto* generated = std::get_if<GenerateReply>(&message)) {
    judge_token_counts(node, router, *generated);
  }
}

// Blocks that are reused at places in the prompt are not part of the prompt.
Costs::PlanBill Costs::bill_of(const Plan& plan) {
  PlanBill of{.reused_spans = plan.repair.reused_spans};
  for (const Segment& segment : plan.segments) of.tokens.push_back(tokens_of(segment));
  for (const kernels::Repair::ReusedSpan& place : plan.repair.reused_spans) {
    of.left += of.tokens[place.segment];
    of.tokens[place.block] = 0;
  }
  for (const std::uint32_t budget : plan.repair.budgets) of.left -= budget;
  of.left -= static_cast<double>(plan.repair.always.size());
  return of;
}

void Costs::note_found(Router& router, const BlocksFound& found) {
  const auto names = router.lookups.extract(found.id);
  if (names.empty() || names.mapped().size() != found.counts.size()) return;
  keep_newest(router.found);
  auto& [at_time, holders] = router.found[found.id];
  at_time = cluster_.now();
  std::size_t at = 0;
  for (std::size_t i = 0; i < found.counts.size(); ++i)
    for (std::uint8_t n = 0; n < found.counts[i] && at < found.holders.size(); ++n, ++at)
      if (auto& nodes = holders[names.mapped()[i]]; !holds(nodes, found.holders[at]))
        nodes.push_back(found.holders[at]);
}

void Costs::note_bill(Router& router, const Executed& executed) {
  const auto at = router.plans.find(executed.id);
  if (at == router.plans.end() || at->second.tokens.size() != executed.reused.size()) return;
  const PlanBill& plan = at->second;
  router.bill = {0, 0};
  for (std::size_t i = 0; i < plan.tokens.size(); ++i) {
    router.bill->first += plan.tokens[i];
    if (executed.reused[i] != 0) router.bill->second += plan.tokens[i];
  }
  // Places whose block was ready or is made of prototypes take their part of the tokens left to blocks.
  double all = 0, there = 0;
  for (const kernels::Repair::ReusedSpan& place : plan.reused_spans) {
    all += plan.tokens[place.segment];
    if (executed.reused[place.block] != 0 || place.of_prototypes) there += plan.tokens[place.segment];
  }
  if (there > 0) router.bill->second += static_cast<std::uint32_t>(std::llround(plan.left * there / all));
}

template <class Reply>
void Costs::judge_token_counts(NodeId node, Router& router, const Reply& reply) {
  if (!router.bill) return;
  const auto [total, reused] = *router.bill;
  router.bill.reset();
  if (reply.tokens_reused != reused || reply.tokens_computed != total - reused)
    report("router", node,
           "reports " + std::to_string(reply.tokens_computed) + " tokens computed and " +
               std::to_string(reply.tokens_reused) + " reused; of " + std::to_string(total) + " " +
               std::to_string(reused) + " were reused");
}

// Returns the tokens to compute on node `at`. A missing block counts in full or, if another node has it,
// with the router's estimate of a pull.
double Costs::tokens_left(const Router& router, RequestId id, NodeId at, const Execute& plan,
                          double pull_share) const {
  const auto& holders = router.found.at(id).holders;
  double tokens = 0;
  for (std::size_t i = 0; i < plan.plan.segments.size(); ++i) {
    double share = 1;
    if (plan.blocks[i].name)
      if (const auto held = holders.find(*plan.blocks[i].name);
          held != holders.end() && !held->second.empty())
        share = holds(held->second, at) ? 0 : pull_share;
    tokens += share * tokens_of(plan.plan.segments[i]);
  }
  return tokens;
}

// Returns the node that holds more of the plan's blocks than any other; the router always considers it. 0 =
// none.
NodeId Costs::most_held(const Holders& holders, const Execute& plan) {
  std::map<NodeId, int> counts;
  for (const SegmentBlock& block : plan.blocks)
    if (const auto held = block.name ? holders.find(*block.name) : holders.end(); held != holders.end())
      for (const NodeId node : held->second) ++counts[node];
  NodeId best = 0;
  int most = 0;
  for (const auto& [node, count] : counts) {
    if (count == most) best = 0;
    if (count > most) most = count, best = node;
  }
  return best;
}

// A pull is cheaper than computing unless pulls were measured to be expensive. If they cost about the same,
// either choice is accepted, since the same step may measure one more. Only nodes known to be alive count.
void Costs::judge_sources(NodeId node, NodeId to, const Holders& holders, const Execute& plan) {
  const router::RouterCore& core = *cluster_.node(node).router;
  if (core.pull_share() >= clearly_cheaper) return;
  const Instant now = cluster_.host().local_time(node);
  for (const SegmentBlock& block : plan.blocks) {
    const auto held = block.name ? holders.find(*block.name) : holders.end();
    if (held == holders.end() || block.at != 0 || holds(held->second, to)) continue;
    if (std::ranges::any_of(held->second, [&](NodeId holder) { return core.workers().alive(now, holder); }))
      return report("router", node,
                    "does not tell node " + std::to_string(to) + " where a block is to be had");
  }
}

// Judges only first attempts whose plan does not depend on the node and which did not wait in a queue,
// because those had their node chosen earlier. Plans that keep a user's block are skipped too, since they
// may have to go to the user's home. An idle worker begins immediately, so it finishes first if it has less
// to compute at the same pace.
void Costs::judge_worker_choice(NodeId node, Router& router, NodeId to, const Execute& plan) {
  const router::RouterCore* core = cluster_.node(node).router;
  router.lookups.erase(plan.id);  // a later answer of the index is ignored
  const auto found = router.found.find(plan.id);
  if (!core || found == router.found.end()) return;
  const auto& [reported, holders] = found->second;
  const bool judged = reported == cluster_.now() && !plan.alone && !plan.retention.keep_hotter &&
                      plan.blocks.size() == plan.plan.segments.size() && !keeps_user(plan);
  const router::WorkerTable& table = core->workers();
  const Instant now = cluster_.host().local_time(node);
  const double here = tokens_left(router, plan.id, to, plan, core->pull_share());
  const NodeId other = most_held(holders, plan);
  std::string better;
  if (const auto at = router.beats.find(other); at != router.beats.end()) {
    const WorkerHeartbeat& beat = at->second;
    const bool idle = other != to && beat.is_idle && cluster_.now() - beat.at < cluster_.scenario().heartbeat;
    // After lost plans, the router's window stays full until their time is over.
    const bool as_fast = table.usable(now, other, plan.model_version) && table.has_capacity(other) &&
                         !table.slow(to) && table.slowness(other) <= table.slowness(to) &&
                         beat.us_per_operation <= router.beats[to].us_per_operation;
    const double there = tokens_left(router, plan.id, other, plan, core->pull_share());
    if (judged && idle && as_fast && here > dearer_from * there + dearer_tokens)
      better = std::to_string(here) + " tokens, node " + std::to_string(other) + " is idle and lacks " +
               std::to_string(there);
  }
  judge_sources(node, to, holders, plan);
  router.found.erase(found);
  if (!better.empty())
    report("router", node, "sends a plan to node " + std::to_string(to) + ", which lacks " + better);
}

}  // namespace troupe::sim
