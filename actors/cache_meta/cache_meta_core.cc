#include "actors/cache_meta/cache_meta_core.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "runtime/block_name.h"

namespace troupe::actors {
namespace {

constexpr std::uint64_t refresh_timer = 1;
constexpr std::size_t hottest_items_shown = 5, hottest_items_among = 10'000;

std::string key_of(const BlockName& name) { return {name.bytes.begin(), name.bytes.end()}; }

BlockName name_of(const std::string& key) {
  BlockName name;
  std::copy(key.begin(), key.end(), name.bytes.begin());
  return name;
}

}  // namespace

CacheMetaCore::CacheMetaCore(CacheMetaConfig config)
    : config_(std::move(config)),
      index_(config_.index_blocks_max),
      users_(config_.user_popularity),
      items_(config_.item_popularity) {}

void CacheMetaCore::step(Instant now, const Event& event, Effects& effects) {
  if (const auto* received = std::get_if<Received>(&event)) {
    on_message(now, *received, effects);
  } else if (std::holds_alternative<TimerFired>(event)) {
    on_refresh(now, effects);
  } else if (const auto* lost = std::get_if<PeerLost>(&event)) {
    index_.forget_node(lost->node);
    areas_.erase(lost->node);
    count_sizes(effects);
  }
}

void CacheMetaCore::on_message(Instant now, const Received& received, Effects& effects) {
  if (const auto* lookup = std::get_if<LookupBlocks>(&received.message)) {
    on_lookup(now, received.from, *lookup, effects);
  } else if (const auto* forget = std::get_if<Forget>(&received.message)) {
    on_forget(*forget, effects);
  } else if (const auto* request = std::get_if<StatusRequest>(&received.message)) {
    effects.send(received.from, status(request->id, now));
  } else if (is_worker(received.from)) {
    on_worker(now, received, effects);
  } else {
    effects.count(Metric::protocol_errors);
  }
}

bool CacheMetaCore::is_worker(Address address) const {
  return address.role == Role::kv_worker &&
         std::find(config_.kv_nodes.begin(), config_.kv_nodes.end(), address.node) != config_.kv_nodes.end();
}

// BAT's "write": the index follows the owners of the blocks.
void CacheMetaCore::on_worker(Instant now, const Received& received, Effects& effects) {
  const NodeId node = received.from.node;
  if (const auto* added = std::get_if<BlockAdded>(&received.message)) {
    const bool is_user = added->kind == SegmentKind::user;
    index_.add(node, *added, is_user ? users_.frequency(added->owner, now.us) : 0);
    count_sizes(effects);
  } else if (const auto* removed = std::get_if<BlockRemoved>(&received.message)) {
    index_.remove(node, *removed);
    count_sizes(effects);
  } else if (const auto* area = std::get_if<UserArea>(&received.message)) {
    areas_[node] = *area;
  } else {
    effects.count(Metric::protocol_errors);
  }
}

// ---- BAT's "read" ----

void CacheMetaCore::on_lookup(Instant now, Address from, const LookupBlocks& lookup, Effects& effects) {
  ++lookups_;
  if (lookup.count_access) count_access(now, lookup);

  BlocksFound found{lookup.id, 0, {}, 0, 0, {}};
  const auto node_of = [&](const BlockName& name) {
    const IndexedBlock* block = index_.find(name);
    return block ? block->node : 0;
  };
  for (const BlockName& name : lookup.item_blocks) found.item_nodes.push_back(node_of(name));
  if (!lookup.user.empty()) found.user_frequency = users_.frequency(lookup.user, now.us);
  if (lookup.user_block) {
    found.user_node = node_of(*lookup.user_block);
    find_coldest(now, lookup, found);
  }
  effects.send(from, std::move(found));
}

void CacheMetaCore::count_access(Instant now, const LookupBlocks& lookup) {
  for (const BlockName& name : lookup.item_blocks) items_.touch(key_of(name), now.us);
  if (lookup.user.empty()) return;
  users_.touch(lookup.user, now.us);
  refresh(lookup.user, now);
}

// Who would have to go for this user? Nobody (0) if it is cached already or if there is room: BAT compares
// with min f_p only because a new block displaces another. If its block is larger than the whole area
// nobody's leaving helps, which is told as the largest number, so that no frequency exceeds it.
void CacheMetaCore::find_coldest(Instant now, const LookupBlocks& lookup, BlocksFound& found) {
  if (found.user_node != 0 || areas_.empty()) return;
  std::uint64_t free = 0, total = 0;
  for (const auto& [node, area] : areas_) {
    free = std::max(free, area.free_tokens);
    total = std::max(total, area.total_tokens);
  }
  if (free >= lookup.user_tokens) return;
  if (total < lookup.user_tokens) {
    found.coldest_frequency = std::numeric_limits<double>::max();
    return;
  }
  std::vector<std::string> stale;
  for (const auto& [frequency, name] : index_.coldest()) {
    if (stale.size() == config_.refresh_per_read) break;
    stale.push_back(index_.find(name)->owner);
  }
  for (const std::string& user : stale) refresh(user, now);

  if (!index_.coldest().empty()) found.coldest_frequency = index_.coldest().begin()->first;
  for (const auto& [frequency, name] : index_.coldest()) {
    if (free >= lookup.user_tokens || found.coldest.size() == config_.coldest_max) break;
    found.coldest.push_back(name);
    free += index_.find(name)->tokens;
  }
}

// ---- the rest ----

// Every worker is told, not only those in the index: one may hold the owner's blocks on disk only.
void CacheMetaCore::on_forget(const Forget& forget, Effects& effects) {
  index_.forget(forget.kind, forget.owner);
  for (const NodeId node : config_.kv_nodes) effects.send({node, Role::kv_worker}, forget);
  count_sizes(effects);
}

void CacheMetaCore::refresh(const std::string& user, Instant now) {
  index_.set_frequency(user, users_.frequency(user, now.us));
}

void CacheMetaCore::on_refresh(Instant now, Effects& effects) {
  const std::size_t count = std::min<std::size_t>(config_.refresh_per_timer, index_.users());
  for (std::size_t i = 0; i < count; ++i) {
    refreshed_ = *index_.user_after(refreshed_);
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
  reply.fields.push_back({"hottest_items", hottest_items(now)});
  return reply;
}

// "item 1.5, item 0.3": owner and uses in the window; a block that is not cached goes by its name.
std::string CacheMetaCore::hottest_items(Instant now) const {
  std::string text;
  for (const auto& [key, frequency] : items_.hottest(hottest_items_shown, hottest_items_among, now.us)) {
    const BlockName name = name_of(key);
    const IndexedBlock* block = index_.find(name);
    char uses[32];
    std::snprintf(uses, sizeof uses, " %.1f", frequency);
    text += (text.empty() ? "" : ", ") + (block ? block->owner : to_hex(name).substr(0, 12)) + uses;
  }
  return text;
}

}  // namespace troupe::actors
