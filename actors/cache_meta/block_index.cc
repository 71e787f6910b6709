// Index of the cache-meta actor: which nodes hold each block, who owns it, and how hot its owner
// is. One block on one node is a holding. Routers reuse only blocks that the index names, so a
// missing or wrong entry costs a miss, never a wrong answer.
#include "actors/cache_meta/block_index.h"

#include <algorithm>
#include <utility>

namespace troupe::actors {
namespace {

constexpr std::size_t swept_when_full = 64;  // holdings swept per block added to a full index

template <class Holders>
auto holder_on(Holders& holders, NodeId node) {
  const auto at = std::lower_bound(holders.begin(), holders.end(), node,
                                   [](const auto& holder, NodeId wanted) { return holder.node < wanted; });
  return at != holders.end() && at->node == node ? at : holders.end();
}

bool same_entry(const BlockIndex::NamedBlock& known, const BlockEntry& reported) {
  return identical(known.first, reported.name) && known.second.kind == reported.kind &&
         known.second.owner->first == reported.owner;
}

}  // namespace

// ---- changes ----

bool BlockIndex::add(NodeId node, BlockEntry entry) {
  if (full()) sweep(swept_when_full);
  NamedBlock* known = find(entry.name);
  if (known != nullptr) {
    const auto holder = holder_on(known->second.holders, node);
    if (holder != known->second.holders.end()) {
      Node& at = nodes_[node];
      if (holder->generation > entry.generation && !stale(at, holder->position)) return false;
      if (same_entry(*known, entry)) {
        holder->generation = entry.generation;
        at.held[holder->position].walk = at.walk;
        return true;
      }
      erase_holding(*holder);
      known = find(entry.name);
    }
  }
  if (holdings_ >= holdings_max_) return false;
  const std::uint64_t generation = entry.generation;
  add_holding(node, known != nullptr ? *known : make_block(std::move(entry)), generation);
  return true;
}

bool BlockIndex::remove(NodeId node, const BlockVersion& block) {
  NamedBlock* known = find(block.name);
  if (known == nullptr) return false;
  const auto holder = holder_on(known->second.holders, node);
  if (holder == known->second.holders.end() || holder->generation > block.generation) return false;
  if (stale(nodes_[node], holder->position)) return false;
  erase_holding(*holder);
  return true;
}

void BlockIndex::forget_node(NodeId node) {
  Node& at = nodes_[node];
  ++at.walk;
  make_stale(node, at);
}

void BlockIndex::end_walk(NodeId node) { make_stale(node, nodes_[node]); }

// Makes stale what the present walk did not add.
void BlockIndex::make_stale(NodeId id, Node& node) {
  node.valid_from = node.walk;
  node.unswept = node.held.size();
  if (node.unswept > 0) sweeping_.insert(id);
}

// Sweeps from the back, so that the holding that fills a gap has been looked at already.
void BlockIndex::sweep(std::size_t count) {
  while (!sweeping_.empty()) {
    const NodeId id = *sweeping_.begin();
    Node& node = nodes_[id];
    for (; node.unswept > 0; --count) {
      if (count == 0) return;
      const std::size_t position = node.unswept - 1;
      const bool gone = stale(node, position);
      node.unswept = position;
      if (gone) erase_holding(node, id, position);
    }
    sweeping_.erase(id);
  }
}

BlockIndex::NamedBlock& BlockIndex::make_block(BlockEntry&& entry) {
  NamedBlock& named =
      *blocks_.emplace(entry.name, std::make_unique<NamedBlock>(entry.name, Block{})).first->second;
  Owner& owner = *owners(entry.kind).try_emplace(std::move(entry.owner), nullptr).first;
  Block& block = named.second;
  block.owner = &owner;
  block.next = owner.second;
  if (block.next != nullptr) block.next->second.previous = &named;
  owner.second = &named;
  block.ordinal = ++ordinals_;
  block.tokens = entry.tokens;
  block.kind = entry.kind;
  // While a restarted cache-meta learns, all users are equally cold, and the newest is last in
  // order.
  if (entry.kind == SegmentKind::user) coldest_.insert(coldest_.end(), {0, block.ordinal, &named});
  return named;
}

void BlockIndex::erase_block(NamedBlock& named) {
  const Block& block = named.second;
  if (block.kind == SegmentKind::user) coldest_.erase({block.frequency, block.ordinal, &named});
  if (block.next != nullptr) block.next->second.previous = block.previous;
  (block.previous != nullptr ? block.previous->second.next : block.owner->second) = block.next;
  if (block.owner->second == nullptr) {
    if (block.kind == SegmentKind::user) warm_users_.erase(block.owner->first);
    Owners& all = owners(block.kind);
    all.erase(all.find(block.owner->first));
  }
  blocks_.erase(named.first);
}

void BlockIndex::add_holding(NodeId node, NamedBlock& block, std::uint64_t generation) {
  Node& at = nodes_[node];
  Holders& holders = block.second.holders;
  const auto after =
      std::lower_bound(holders.begin(), holders.end(), node,
                       [](const Holder& holder, NodeId wanted) { return holder.node < wanted; });
  holders.insert(after, {generation, node, static_cast<std::uint32_t>(at.held.size())});
  at.held.push_back({&block, at.walk});
  ++holdings_;
}

void BlockIndex::erase_holding(Holder holder) {
  erase_holding(nodes_[holder.node], holder.node, holder.position);
}

void BlockIndex::erase_holding(Node& node, NodeId id, std::size_t position) {
  NamedBlock& block = *node.held[position].block;
  const Holding filler = node.held.back();
  node.held[position] = filler;
  holder_on(filler.block->second.holders, id)->position = static_cast<std::uint32_t>(position);
  node.held.pop_back();
  node.unswept = std::min(node.unswept, node.held.size());
  Holders& holders = block.second.holders;
  holders.erase(holder_on(holders, id));
  --holdings_;
  if (holders.empty()) erase_block(block);
}

// ---- lookups ----

BlockIndex::NamedBlock* BlockIndex::find(const BlockName& name) const {
  const auto known = blocks_.find(name);
  return known == blocks_.end() ? nullptr : known->second.get();
}

bool BlockIndex::named(NodeId node) const {
  const auto at = nodes_.find(node);
  return at != nodes_.end() && at->second.named;
}

bool BlockIndex::shown(const Holder& holder) const {
  const auto at = nodes_.find(holder.node);
  return at->second.named && !stale(at->second, holder.position);
}

// Neither the blocks nor their holders are likely to be in the CPU's cache, so each pass prefetches
// for all blocks at once.
void BlockIndex::find_holders(std::span<const BlockQuery> blocks, std::span<const NodeId> prefer,
                              std::uint64_t rotation, std::size_t most, std::vector<std::uint8_t>& counts,
                              std::vector<NodeId>& holders) const {
  std::vector<const NamedBlock*> known(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    known[i] = find(blocks[i].name);
    if (known[i] != nullptr) __builtin_prefetch(&known[i]->second.holders);
  }
  for (const NamedBlock* block : known)
    if (block != nullptr) __builtin_prefetch(block->second.holders.data());
  for (const NamedBlock* block : known) {
    const std::size_t before = holders.size();
    if (block != nullptr) choose_holders(block->second.holders, prefer, rotation, most, holders);
    counts.push_back(static_cast<std::uint8_t>(holders.size() - before));
  }
}

void BlockIndex::choose_holders(const Holders& all, std::span<const NodeId> prefer, std::uint64_t rotation,
                                std::size_t count, std::vector<NodeId>& chosen) const {
  const std::size_t before = chosen.size(), most = before + std::min(count, all.size());
  const auto choose = [&](const Holder& holder) {
    const auto mine = std::span(chosen).subspan(before);
    if (std::ranges::find(mine, holder.node) == mine.end() && shown(holder)) chosen.push_back(holder.node);
  };
  for (std::size_t i = 0; i < prefer.size() && chosen.size() < most; ++i) {
    const auto holder = holder_on(all, prefer[i]);
    if (holder != all.end()) choose(*holder);
  }
  for (std::size_t i = 0; i < all.size() && chosen.size() < most; ++i)
    choose(all[(rotation + i) % all.size()]);
}

bool BlockIndex::held_by_any(const BlockName& name, std::span<const NodeId> nodes) const {
  const NamedBlock* known = find(name);
  if (!known) return false;
  const Holders& all = known->second.holders;
  const auto is_shown = [this](const Holder& holder) { return shown(holder); };
  if (nodes.empty()) return std::any_of(all.begin(), all.end(), is_shown);
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId node) {
    const auto holder = holder_on(all, node);
    return holder != all.end() && shown(*holder);
  });
}

const std::string* BlockIndex::owner_of(const BlockName& name) const {
  const NamedBlock* known = find(name);
  return known ? &known->second.owner->first : nullptr;
}

bool BlockIndex::is_last_of_item(const BlockName& name, NodeId node) const {
  const NamedBlock* known = find(name);
  if (!known || known->second.kind != SegmentKind::item) return false;
  return std::ranges::none_of(
      known->second.holders, [&](const Holder& holder) { return holder.node != node && named(holder.node); });
}

std::uint64_t BlockIndex::generation_of(const BlockName& name, NodeId node) const {
  const NamedBlock* known = find(name);
  if (!known) return 0;
  const auto holder = holder_on(known->second.holders, node);
  const bool is_held = holder != known->second.holders.end() && !stale(nodes_.at(node), holder->position);
  return is_held ? holder->generation : 0;
}

void BlockIndex::set_frequency(const std::string& user, double frequency) {
  const auto owned = users_.find(user);
  if (owned == users_.end()) return;
  for (NamedBlock* named = owned->second; named != nullptr; named = named->second.next) {
    Block& block = named->second;
    if (block.frequency == frequency) continue;
    auto cold = coldest_.extract({block.frequency, block.ordinal, named});
    cold.value().frequency = block.frequency = frequency;
    coldest_.insert(std::move(cold));
  }
  if (frequency > 0) {
    warm_users_.insert(owned->first);
  } else {
    warm_users_.erase(owned->first);
  }
}

std::optional<std::string> BlockIndex::user_after(const std::string& user) const {
  if (warm_users_.empty()) return std::nullopt;
  const auto next = warm_users_.upper_bound(user);
  return std::string(next == warm_users_.end() ? *warm_users_.begin() : *next);
}

std::size_t BlockIndex::holdings(NodeId node) const {
  const auto at = nodes_.find(node);
  return at == nodes_.end() ? 0 : at->second.held.size();
}

std::string BlockIndex::check_bounds() const {
  std::size_t held = 0;
  for (const auto& [id, node] : nodes_) held += node.held.size();
  if (held != holdings_)
    return "the nodes hold " + std::to_string(held) + " blocks, not " + std::to_string(holdings_);
  if (holdings_ > holdings_max_)
    return std::to_string(holdings_) + " holdings, at most " + std::to_string(holdings_max_);
  for (const auto& [what, size] : {std::pair{"blocks", blocks_.size()},
                                   {"owners", users_.size() + others_.size()},
                                   {"cold blocks", coldest_.size()},
                                   {"warm users", warm_users_.size()}})
    if (size > holdings_)
      return std::to_string(size) + " " + what + " for " + std::to_string(holdings_) + " holdings";
  return "";
}

}  // namespace troupe::actors
