// Entry of the KV-cache worker, which owns a node's pages: hands messages, timers and finished jobs
// to its parts, and reports the worker's state.
#include "actors/kv_worker/kv_worker_core.h"

#include <algorithm>
#include <utility>

#include "actors/kv_worker/block_identity.h"
#include "actors/kv_worker/bounds.h"

namespace troupe::actors {
namespace {

constexpr std::pair<SegmentKind, std::string_view> kind_names[] = {
    {SegmentKind::system, "system"},
    {SegmentKind::user, "user"},
    {SegmentKind::item, "item"},
    {SegmentKind::instruction, "instruction"},
    {SegmentKind::discriminant, "discriminant"},
    {SegmentKind::beam, "beam"}};

Scrub::Config scrub_config(const KvWorkerConfig& config) {
  Scrub::Config scrub = config.scrub;
  scrub.page_bytes = static_cast<std::uint64_t>(config.token_bytes * config.pool.page_tokens);
  return scrub;
}

}  // namespace

KvWorkerCore::KvWorkerCore(KvWorkerConfig config)
    : config_(std::move(config)),
      pool_(config_.pool, config_.incarnation),
      serials_(config_.incarnation + KvWorkerTimer::ids),
      tier_(config_.tier),
      corrupt_(pool_, tier_, serials_),
      scrub_(scrub_config(config_), pool_, serials_, corrupt_),
      index_(config_, pool_),
      requests_(config_, pool_),
      reservations_(pool_),
      in_flight_(pool_),
      pending_(config_, pool_, requests_, reservations_, in_flight_, index_),
      pull_flow_(config_, pool_, serials_, in_flight_, corrupt_, pending_),
      tier_jobs_(pool_, tier_, serials_, corrupt_),
      tier_loads_(pool_, tier_, serials_, tier_jobs_, corrupt_, pending_),
      grants_(config_, {.pool = pool_,
                        .serials = serials_,
                        .requests = requests_,
                        .reservations = reservations_,
                        .pending = pending_,
                        .in_flight = in_flight_,
                        .pulls = pull_flow_.pulls(),
                        .tier = tier_,
                        .corrupt = corrupt_,
                        .scrub = scrub_}),
      split_(config_, pool_, grants_.savings()),
      migration_(config_.node, config_.heartbeat, config_.migration) {}

// The event first; then what became due or possible by it; last the changes of the step.
void KvWorkerCore::step(Instant now, Event&& event, Effects& effects) {
  if (auto* received = std::get_if<Received>(&event)) {
    on_message(now, received->from, std::move(received->message), effects);
  } else if (const auto* fired = std::get_if<TimerFired>(&event)) {
    on_timer(now, fired->timer, effects);
  } else if (auto* done = std::get_if<JobDone>(&event)) {
    on_done(now, std::move(*done), effects);
  } else if (const auto* lost = std::get_if<PeerLost>(&event)) {
    lose(now, lost->node, effects);
  }
  if (config_.store) tier_jobs_.advance(now, effects);
  scrub_.advance(now, effects);
  split_.advance(now, ready_, effects);
  migration_.advance(now, index_.cache_metas(), serials_, effects);
  index_.report(now, effects);
}

// ---- events ----

void KvWorkerCore::on_message(Instant now, Address from, Message&& message, Effects& effects) {
  if (auto* ask = std::get_if<AcquireBlocks>(&message)) {
    on_acquire(now, from, std::move(*ask), effects);
  } else if (auto* acquired = std::get_if<BlocksAcquired>(&message)) {
    on_acquired(now, from, std::move(*acquired), effects);
  } else if (const auto* release = std::get_if<ReleaseBlocks>(&message)) {
    grants_.release(now, from, *release, effects);
  } else if (const auto* request = std::get_if<StatusRequest>(&message)) {
    effects.send(from, status(now, request->id));
  } else if (auto* lent = std::get_if<PagesLent>(&message)) {
    split_.on_pages_lent(now, from, std::move(*lent), effects);
  } else if (auto* drain = std::get_if<Drain>(&message);
             drain && from == Address{config_.node, Role::server}) {
    on_drain(now, from, std::move(*drain), effects);
  } else if (const auto* split = std::get_if<SetSplit>(&message);
             split && from == Address{config_.node, Role::allocator}) {
    split_.on_split(*split, effects);
  } else {
    on_cache_meta(from, message, effects);
  }
}

void KvWorkerCore::on_cache_meta(Address from, const Message& message, Effects& effects) {
  if (!index_.hear(from, message)) return effects.count(Metric::protocol_errors);
  if (const auto* found = std::get_if<BlocksFound>(&message)) {
    migration_.on_found(*found);  // ignores late answers
  } else if (const auto* request = std::get_if<InventoryRequest>(&message)) {
    index_.on_inventory(from, *request, effects);
  } else if (const auto* forget = std::get_if<Forget>(&message)) {
    on_forget(from, *forget, effects);
  } else if (const auto* beat = std::get_if<LeaderBeat>(&message)) {
    leader_.on_beat(*beat);
  } else {
    effects.count(Metric::protocol_errors);
  }
}

// The timers of the store, the scrubber, the lending and the migration only wake the core.
void KvWorkerCore::on_timer(Instant now, std::uint64_t timer, Effects& effects) {
  if (timer == start_timer) return on_start(now, effects);
  if (timer == KvWorkerTimer::report) return split_.on_report_timer(now, ready_, effects);
  if (timer == KvWorkerTimer::heartbeat) return index_.on_timer(now, effects);
  grants_.on_timer(now, timer, effects);
  pull_flow_.on_timer(now, timer, effects);
}

void KvWorkerCore::on_start(Instant now, Effects& effects) {
  ready_ = !config_.store;
  if (config_.store) tier_jobs_.list(effects);
  split_.on_report_timer(now, ready_, effects);
  index_.start(now, effects);
}

void KvWorkerCore::on_done(Instant now, JobDone&& done, Effects& effects) {
  if (pull_flow_.on_done(now, done, effects) || scrub_.on_done(now, done, effects)) return;
  auto ended = tier_.end(done.job);
  if (!ended) return;
  if (const auto* load = std::get_if<PersistentTier::LoadJob>(&*ended)) {
    tier_loads_.on_loaded(now, *load, done.result, effects);
  } else {
    tier_jobs_.on_done(now, std::move(*ended), std::move(done.result), effects);
  }
  if (tier_loads_.advance_warm_start(effects)) ready_ = true;
}

// ---- blocks ----

void KvWorkerCore::on_acquire(Instant now, Address from, AcquireBlocks&& ask, Effects& effects) {
  const Grants::Fetches fetches = grants_.acquire(now, from, std::move(ask), effects);
  if (fetches.request == 0) return;
  if (!fetches.loads.empty()) tier_loads_.load(fetches.loads, false, effects);
  for (const auto& [owner, blocks] : fetches.pulls)
    pull_flow_.ask(now, *requests_.find(fetches.request), owner, blocks, effects);
  grants_.settle(fetches.request, effects);
}

void KvWorkerCore::on_acquired(Instant now, Address from, BlocksAcquired&& acquired, Effects& effects) {
  if (from.role != Role::kv_worker || from.node == config_.node)
    return effects.count(Metric::protocol_errors);
  if (migration_.on_answer(now, from, acquired)) return effects.send(from, ReleaseBlocks{acquired.id, {}});
  pull_flow_.on_acquired(now, from, std::move(acquired), effects);
}

void KvWorkerCore::on_drain(Instant now, Address from, Drain&& drain, Effects& effects) {
  const RequestId id = drain.id;
  migration_.on_drain(now, std::move(drain), pool_, effects);
  migration_.advance(now, index_.cache_metas(), serials_, effects);
  effects.send(from, status(now, id));
}

void KvWorkerCore::on_forget(Address from, const Forget& forget, Effects& effects) {
  if (!leader_.obeys(from, forget, effects)) return;
  const auto stays = [&](const BlockName& name) {
    return forget.present && same_block(name, *forget.present);
  };
  for (const BlockName& name : pool_.names_of(forget.kind, forget.owner)) {
    const PoolBlock* block = find_block(pool_, name);
    if (!block || stays(name) || (forget.below > 0 && block->tokens >= forget.below))
      continue;  // evicted by the new writer of an earlier block, or computed anew already
    const std::uint64_t generation = block->generation;
    pool_.remove(name);
    // Waiting requests want this content whatever its owner is: one of them becomes the new writer.
    pending_.fail(name, generation, effects);
  }
  std::vector<BlockName> stored = tier_.stored().names_of(forget.kind, forget.owner);
  std::erase_if(stored, stays);
  if (!stored.empty()) tier_jobs_.erase(std::move(stored), effects);
}

// Pins of other nodes stay until their leases end.
void KvWorkerCore::lose(Instant now, NodeId node, Effects& effects) {
  pull_flow_.lose(now, node, effects);
  migration_.lose(now, node);
  index_.lose(node);
  pool_.promote_copies_of(node);  // they may be the only copies left
}

// ---- state ----

StatusReply KvWorkerCore::status(Instant now, RequestId id) const {
  StatusReply reply{id, config_.node, Role::kv_worker, ready_, {}};
  const auto field = [&](std::string name, std::uint64_t value) {
    reply.fields.push_back({std::move(name), std::to_string(value)});
  };
  const PoolReport pages = report();
  for (std::size_t i = 0; i < std::min(pages.areas.size(), std::size(area_table)); ++i) {
    const std::string area(area_table[i].name);
    field(area + "_pages", pages.areas[i].pages);
    field(area + "_pages_used", pages.areas[i].used);
    field(area + "_hits", pages.areas[i].hits);
    field(area + "_misses", pages.areas[i].misses);
    field(area + "_saved_ms", static_cast<std::uint64_t>(pages.areas[i].saved_us / 1'000));
  }
  if (pool_.has_rows()) field("boundary_bytes_copied", split_.boundary_bytes_copied());
  if (grants_.savings().elsewhere() > 0) field("uses_elsewhere", grants_.savings().elsewhere());
  field("page_tokens", pool_.page_tokens());
  field("requests_holding", requests_.size());
  field("remote_reads", requests_.remote_reads());
  field("blocks_in_the_making", pending_.size());
  if (config_.pull_parts > 1) field("blocks_read_while_they_come", in_flight_.blocks());
  field("pulls", pull_flow_.pulls().size());
  add_migration(reply);
  field("blocks_pulled", pull_flow_.blocks_pulled());
  field("blocks_corrupt", corrupt_.blocks());
  for (const auto& [kind, name] : kind_names)
    if (const PagePool::KindUsage held = pool_.held(kind); held.blocks > 0)
      reply.fields.push_back({"kind", std::string(name) + ": " + std::to_string(held.blocks) + " blocks, " +
                                          std::to_string(held.pages) + " pages"});
  field("leader_token", leader_.token());
  const bool in_back_off = config_.store && tier_.is_in_back_off(now);
  reply.fields.push_back({"store", !config_.store ? "off" : in_back_off ? "resting after a failure" : "on"});
  if (in_back_off)
    reply.fields.push_back({"degraded", "blocks are neither saved nor loaded, since the disk failed"});
  if (!config_.store) return reply;
  field("blocks_stored", tier_.stored().blocks());
  field("saves_waiting", tier_.saves());
  return reply;
}

void KvWorkerCore::add_migration(StatusReply& reply) const {
  if (!migration_.begun()) return;
  const Migration::Counts& counts = migration_.counts();
  reply.fields.push_back({"drained", migration_.done() ? "yes" : "no"});
  for (const auto& [name, blocks] : {std::pair{"users_blocks", counts.blocks},
                                     {"users_blocks_handed_on", counts.migrated},
                                     {"users_blocks_held_elsewhere", counts.held_elsewhere},
                                     {"users_blocks_left_behind", counts.left_behind}})
    reply.fields.push_back({name, std::to_string(blocks)});
}

// Each block that is pending or read in flight has at least one page, which bounds the remaining
// containers.
std::string KvWorkerCore::check_bounds() const {
  return first_fault({requests_.check_bounds(), pending_.check_bounds(), pull_flow_.pulls().check_bounds(),
                      migration_.check_bounds(),
                      bound_fault("blocks read in flight", in_flight_.blocks(), pool_.pages()),
                      scrub_.check_bounds(), tier_.check_bounds(pool_.pages())});
}

}  // namespace troupe::actors
