// Answers the routers' lookups: which blocks exist and where, how hot the user and the items are,
// and how hot the coldest users are who would be evicted. BAT (the paper) calls this the read of
// its policy, which caches a user's block only if the user is hotter than those evicted. Among
// several cache-metas one leads and relays orders to forget an owner's blocks.
#include "actors/cache_meta/cache_meta_core.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <ranges>
#include <utility>

#include "runtime/actor/block_name.h"

namespace troupe::actors {
namespace {

constexpr std::uint64_t refresh_timer = 1, heartbeat_timer = 2;
// Added to the incarnation: above the other jobs' numbers, and below the next incarnation.
constexpr std::uint64_t first_members_job = std::uint64_t{1} << 39;
constexpr std::size_t hottest_items_shown = 5, hottest_items_among = 10'000;
constexpr std::size_t counted_max = 255;      // holders of a block in an answer: a byte
constexpr std::size_t coldest_looked_at = 4;  // user blocks looked at per block that may be named
constexpr double evicted_max = 256;           // weight of all evicted blocks before one in their mean

// Returns 15 bytes of the hash: enough to be unique, and short enough for a string without a heap
// allocation.
std::string key_of(const BlockName& name) { return {name.bytes.begin(), name.bytes.begin() + 15}; }

bool is_users(const BlockQuery& block) { return block.kind == SegmentKind::user; }

FollowConfig follow_config(const CacheMetaConfig& c, const std::vector<NodeId>& nodes) {
  return {.nodes = nodes,
          .silent_after = {3 * c.heartbeat.us},
          .forget_after = c.silent_keep,
          .inventory_retry = c.inventory_retry,
          .own = c.has_worker ? c.node : 0,
          .joined_later = c.joined};
}

}  // namespace

CacheMetaCore::CacheMetaCore(CacheMetaConfig config)
    : config_(std::move(config)),
      index_(config_.index_blocks_max),
      stall_(config_.heartbeat),
      members_({.workers = config_.kv_nodes, .routers = config_.routers}, config_.members_every,
               std::move(config_.members)),
      workers_(follow_config(config_, members_.workers()), index_),
      leadership_(config_.node, config_.incarnation, config_.leader_lease, config_.incarnation),
      members_job_(config_.incarnation + first_members_job),
      users_(config_.user_popularity),
      items_(config_.item_popularity),
      returns_(config_.returns_max) {
  config_.holders_max = std::min(config_.holders_max, counted_max);
  config_.kv_nodes = members_.workers();
}

void CacheMetaCore::step(Instant now, Event&& event, Effects& effects) {
  workers_.shift_silence(stall_.before(now));
  if (auto* received = std::get_if<Received>(&event)) {
    on_message(now, received->from, std::move(received->message), effects);
  } else if (const auto* fired = std::get_if<TimerFired>(&event)) {
    on_timer(now, fired->timer, effects);
  } else if (const auto* lost = std::get_if<PeerLost>(&event)) {
    workers_.on_lost(lost->node);
  } else if (const auto* done = std::get_if<JobDone>(&event)) {
    on_done(now, *done, effects);
  }
}

void CacheMetaCore::on_done(Instant now, const JobDone& done, Effects& effects) {
  const auto answer = members_.on_done(done, effects);
  if (answer == MemberWatch::Answer::changed) {
    config_.kv_nodes = members_.workers();
    workers_.follow(now, config_.kv_nodes, effects);
    effects.log(LogLevel::info, "members",
                {{"epoch", members_.epoch()}, {"workers", config_.kv_nodes.size()}});
  }
  if (answer != MemberWatch::Answer::foreign) return;
  const bool led = leadership_.leads(now);
  leadership_.on_done(now, done, effects);
  if (!led) beat(now, effects);  // announce a new leader without waiting for the timer
}

void CacheMetaCore::on_timer(Instant now, std::uint64_t timer, Effects& effects) {
  if (timer == start_timer) workers_.start(now, effects);
  if (timer == start_timer || timer == heartbeat_timer) on_heartbeat(now, effects);
  if (timer == start_timer || timer == refresh_timer) on_refresh(now, effects);
}

void CacheMetaCore::on_message(Instant now, Address from, Message&& message, Effects& effects) {
  if (const auto* lookup = std::get_if<LookupBlocks>(&message)) {
    on_lookup(now, from, *lookup, effects);
  } else if (auto* forget = std::get_if<Forget>(&message)) {
    on_forget(now, from, std::move(*forget), effects);
  } else if (const auto* request = std::get_if<StatusRequest>(&message)) {
    effects.send(from, status(request->id, now));
  } else if (const auto* drain = std::get_if<Drain>(&message)) {
    leadership_.drain(drain->on, now, effects);
    effects.send(from, status(drain->id, now));
  } else if (from.role == Role::kv_worker && workers_.knows(from.node)) {
    on_worker(now, from.node, std::move(message), effects);
  } else {
    effects.count(Metric::protocol_errors);
  }
}

// BAT's "write": the index follows the owners of the blocks.
void CacheMetaCore::on_worker(Instant now, NodeId node, Message&& message, Effects& effects) {
  bool understood = false;
  if (auto* changes = std::get_if<CacheChanges>(&message)) {
    understood = FollowedWorkers::is_valid(*changes);
    if (understood) note_changes(now, node, *changes);
    if (understood) workers_.on_changes(now, node, std::move(*changes), effects);
  } else if (auto* part = std::get_if<InventoryPart>(&message)) {
    understood = workers_.on_part(now, node, std::move(*part), effects);
  }
  if (!understood) effects.count(Metric::protocol_errors);
  warm_users(now, effects);
}

// Uses of an item that another node still has are not lost with this one's.
void CacheMetaCore::note_changes(Instant now, NodeId node, const CacheChanges& changes) {
  for (const BlockVersion& block : changes.removed)
    if (index_.is_last_of_item(block.name, node)) {
      evicted_ = std::min(evicted_ + 1, evicted_max);
      evicted_uses_ += (items_.frequency(block.name, now.us) - evicted_uses_) / evicted_;
    }
  for (const BlockEntry& block : changes.added)
    if (block.kind == SegmentKind::user) returns_.mark_cached(key_of(block.name), now.us);
  for (const BlockName& name : changes.refused) returns_.mark_abandoned(key_of(name));
}

void CacheMetaCore::warm_users(Instant now, Effects& effects) {
  for (const std::string& user : workers_.take_users())
    if (const double frequency = users_.frequency(user, now.us); frequency > 0)
      index_.set_frequency(user, frequency);
  count_sizes(effects);
}

void CacheMetaCore::on_heartbeat(Instant now, Effects& effects) {
  workers_.on_tick(now, effects);
  warm_users(now, effects);
  leadership_.on_heartbeat(now, effects);
  members_job_ += members_.tick(now, members_job_ + 1, effects);
  beat(now, effects);
  effects.set_timer(heartbeat_timer, now + config_.heartbeat);
}

void CacheMetaCore::beat(Instant now, Effects& effects) {
  if (!leadership_.leads(now)) return;
  const LeaderBeat beat{leadership_.token()};
  for (const NodeId node : members_.routers())
    for (std::uint32_t model = 0; model < config_.actor_ids.models; ++model)
      effects.send({config_.actor_ids.number(node, model), Role::router}, beat);
  for (const NodeId node : config_.kv_nodes) effects.send({node, Role::kv_worker}, beat);
}

// ---- BAT's "read" ----

void CacheMetaCore::on_lookup(Instant now, Address from, const LookupBlocks& lookup, Effects& effects) {
  ++lookups_;
  if (lookup.count_access) count_access(now, lookup);

  BlocksFound found{.id = lookup.id};
  const std::size_t most = lookup.all_holders ? counted_max : config_.holders_max;
  found.counts.reserve(lookup.blocks.size());
  found.holders.reserve(lookup.blocks.size());
  index_.find_holders(lookup.blocks, lookup.prefer, lookup.id, most, found.counts, found.holders);
  if (!lookup.user.empty()) found.user_frequency = users_.frequency(lookup.user, now.us);
  find_uses(now, lookup, found);
  if (lookup.trace.sampled)
    effects.log(LogLevel::debug, "blocks_looked_up",
                {{"request", lookup.id},
                 {"trace_id", trace_id(lookup.trace)},
                 {"from", from.node},
                 {"blocks", lookup.blocks.size()},
                 {"holders", found.holders.size()}});
  effects.send(from, std::move(found));
}

// A request has one user block, whichever plans use it, or parts of that block. The first part
// stands for all parts. Blocks that are held need no eviction.
void CacheMetaCore::find_uses(Instant now, const LookupBlocks& lookup, BlocksFound& found) {
  found.uses.assign(lookup.blocks.size(), 0);
  find_item_uses(now, lookup, found);
  const auto own = std::ranges::find_if(lookup.blocks, is_users);
  if (own == lookup.blocks.end()) return;
  const bool held = found.counts[static_cast<std::size_t>(own - lookup.blocks.begin())] > 0;
  const double uses = lookup.count_access ? user_uses(now, lookup, *own, held) : 0;
  std::uint32_t missing = 0;
  for (std::size_t i = 0; i < lookup.blocks.size(); ++i) {
    if (!is_users(lookup.blocks[i])) continue;
    found.uses[i] = uses;
    if (found.counts[i] == 0) missing += lookup.blocks[i].tokens;
  }
  if (missing > 0) find_coldest(now, lookup, missing, found);
}

void CacheMetaCore::count_access(Instant now, const LookupBlocks& lookup) {
  if (!counts_) counting_since_ = now;
  counts_ = true;
  items_.touch_all(
      lookup.blocks | std::views::filter(std::not_fn(is_users)) | std::views::transform(&BlockQuery::name),
      now.us);
  if (lookup.user.empty()) return;
  users_.touch(lookup.user, now.us);
  refresh(lookup.user, now);
}

// Returns how many further uses of the user's block to expect, if user blocks may fill the memory
// of all workers. Returns 0 while another request is probably computing the block.
//
// If no preferred node has enough free tokens, the uses of the items that the block would evict are
// subtracted, token by token. Their uses are scaled from the time over which they were counted to
// the time for which a cached user block stays. Those items are not known; they are assumed to be
// wanted as often as the items that were evicted lately.
double CacheMetaCore::user_uses(Instant now, const LookupBlocks& lookup, const BlockQuery& block, bool held) {
  std::uint64_t tokens = 0;
  workers_.visit_capacities({}, [&](const auto& capacity) { tokens += capacity.all().total_tokens; });
  const std::string key = key_of(block.name);
  const double uses = returns_.want(key, block.tokens, tokens, now.us);
  if (returns_.is_expected(key, held, now.us)) return 0;
  bool has_free_tokens = false;
  workers_.visit_capacities(lookup.prefer, [&](const auto& capacity) {
    has_free_tokens = has_free_tokens || capacity.all().free_tokens >= block.tokens;
  });
  if (has_free_tokens) return uses;
  const std::int64_t counted_us =
      std::clamp<std::int64_t>((now - counting_since_).us, 1, config_.item_popularity.window_us);
  const std::int64_t life_us = std::min(returns_.oldest_us(now.us), counted_us);
  const double windows = static_cast<double>(life_us) / static_cast<double>(counted_us);
  return std::max(0.0, uses - evicted_uses_ * windows);
}

// Estimates the value of keeping item blocks that no node has: their earlier uses in the window,
// without this use. They are 0 unless a preferred node has free item tokens.
void CacheMetaCore::find_item_uses(Instant now, const LookupBlocks& lookup, BlocksFound& found) const {
  bool has_free_tokens = false;
  workers_.visit_capacities(lookup.prefer, [&](const auto& capacity) {
    has_free_tokens = has_free_tokens || capacity.of(SegmentKind::item).free_tokens > 0;
  });
  if (!has_free_tokens) return;
  for (std::size_t i = 0; i < lookup.blocks.size(); ++i)
    if (!is_users(lookup.blocks[i]) && found.counts[i] == 0)
      found.uses[i] = std::max(0.0, items_.frequency(lookup.blocks[i].name, now.us) - 1);
}

// BAT caches a user's block only if the user is hotter than a threshold: the coldest user cached at
// this user's home, because the new block will be stored there. The home is the first of the nodes
// where the plan may run. Homes divide the users, so together they form one pool that is filled
// evenly.
//
// There is a threshold whether or not the home has free space. The answer names only as many user
// blocks as must be evicted for a block of `tokens` tokens. If the block is larger than the whole
// area, no eviction helps. The threshold is then the largest number, so that no frequency exceeds
// it.
void CacheMetaCore::find_coldest(Instant now, const LookupBlocks& lookup, std::uint32_t tokens,
                                 BlocksFound& found) {
  const auto home = std::span(lookup.prefer).first(std::min<std::size_t>(lookup.prefer.size(), 1));
  std::uint64_t free = 0, total = 0;
  bool is_known = false;
  workers_.visit_capacities(home, [&](const auto& capacity) {
    const AreaCapacity users = capacity.of(SegmentKind::user);
    free = std::max(free, users.free_tokens);
    total = std::max(total, users.total_tokens);
    is_known = true;
  });
  if (!is_known) return;
  if (total < tokens) {
    found.coldest_frequency = std::numeric_limits<double>::max();
    return;
  }
  refresh_coldest(home, now);
  name_coldest(home, tokens, free, found);
}

void CacheMetaCore::refresh_coldest(std::span<const NodeId> home, Instant now) {
  std::vector<std::string> stale;
  std::size_t left = coldest_looked_at * config_.coldest_max;
  for (const auto& cold : index_.coldest()) {
    if (stale.size() == config_.refresh_per_read || left-- == 0) break;
    if (index_.held_by_any(cold.block->first, home)) stale.push_back(cold.block->second.owner->first);
  }
  for (const std::string& user : stale) refresh(user, now);
}

// Names blocks of `home` among the coldest of all nodes. If none of those is at `home`, the
// threshold is that of all nodes.
void CacheMetaCore::name_coldest(std::span<const NodeId> home, std::uint32_t tokens,
                                 std::uint64_t free_tokens, BlocksFound& found) const {
  std::size_t left = coldest_looked_at * config_.coldest_max;
  if (!index_.coldest().empty()) found.coldest_frequency = index_.coldest().begin()->frequency;
  bool has_threshold = false;
  for (const auto& [frequency, ordinal, block] : index_.coldest()) {
    const bool enough = free_tokens >= tokens || found.coldest.size() == config_.coldest_max;
    if ((has_threshold && enough) || left-- == 0) break;
    if (!index_.held_by_any(block->first, home)) continue;
    if (!std::exchange(has_threshold, true)) found.coldest_frequency = frequency;
    if (enough) break;
    found.coldest.push_back(block->first);
    free_tokens += block->second.tokens;
  }
}

// ---- other messages ----

// Sends to every worker, not only to those in the index: a worker may hold the owner's blocks on
// disk only. The index follows when the workers report that the blocks are gone.
void CacheMetaCore::on_forget(Instant now, Address from, Forget&& forget, Effects& effects) {
  if (from.role != Role::router) return effects.count(Metric::protocol_errors);
  if (!leadership_.leads(now)) return;
  forget.token = leadership_.token();
  for (const NodeId node : config_.kv_nodes) effects.send({node, Role::kv_worker}, forget);
}

void CacheMetaCore::refresh(const std::string& user, Instant now) {
  index_.set_frequency(user, users_.frequency(user, now.us));
}

void CacheMetaCore::on_refresh(Instant now, Effects& effects) {
  const std::size_t count = std::min<std::size_t>(config_.refresh_per_timer, index_.users());
  for (std::size_t i = 0; i < count; ++i) {
    const auto user = index_.user_after(refreshed_);
    if (!user) break;
    refreshed_ = *user;
    refresh(refreshed_, now);
  }
  effects.set_timer(refresh_timer, now + config_.refresh);
}

void CacheMetaCore::count_sizes(Effects& effects) const {
  effects.count(Metric::index_blocks, static_cast<double>(index_.blocks()));
  effects.count(Metric::index_users, static_cast<double>(index_.users()));
}

StatusReply CacheMetaCore::status(RequestId id, Instant now) const {
  StatusReply reply{id, config_.node, Role::cache_meta, true, {}};
  const auto field = [&](const char* name, std::uint64_t value) {
    reply.fields.push_back({name, std::to_string(value)});
  };
  field("index_blocks", index_.blocks());
  field("index_users", index_.users());
  field("users_tracked", users_.keys());
  field("items_tracked", items_.keys());
  field("lookups", lookups_);
  field("syncing", workers_.syncing());
  field("token", leadership_.token());
  reply.fields.push_back({"leader", leadership_.leads(now) ? "yes" : "no"});
  reply.fields.push_back({"drained", leadership_.drained() ? "yes" : "no"});
  reply.fields.push_back({"hottest_items", hottest_items(now)});
  return reply;
}

// Formats e.g. "item 1.5, item 0.3": owner and uses in the window. A block that is not cached is
// shown by its name.
std::string CacheMetaCore::hottest_items(Instant now) const {
  std::string text;
  for (const auto& [name, frequency] : items_.hottest(hottest_items_shown, hottest_items_among, now.us)) {
    const std::string* owner = index_.owner_of(name);
    char uses[32];
    std::snprintf(uses, sizeof uses, " %.1f", frequency);
    text += (text.empty() ? "" : ", ") + (owner ? *owner : to_hex(name).substr(0, 12)) + uses;
  }
  return text;
}

std::string CacheMetaCore::check_bounds() const {
  for (const auto& [keys, most] : {std::pair{users_.keys(), config_.user_popularity.keys_max},
                                   {items_.keys(), config_.item_popularity.keys_max},
                                   {returns_.keys(), config_.returns_max}})
    if (keys > std::max<std::size_t>(most, 1)) return std::to_string(keys) + " keys are tracked";
  const std::string index = index_.check_bounds();
  return index.empty() ? workers_.check_bounds() : index;
}

}  // namespace troupe::actors
