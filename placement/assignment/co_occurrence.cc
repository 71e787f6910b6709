// Assigns items that occur in the same requests to the same node (RcLLM, Algorithm 1). So a request
// finds most of its items where it runs. It counts pairs in recorded requests and cuts the
// resulting graph into one part per node.
#include "placement/assignment/co_occurrence.h"

#include <algorithm>
#include <tuple>

#include "kernels/base/check.h"
#include "placement/assignment/shards.h"

namespace troupe::placement {

namespace {

struct Pair {
  std::uint64_t key = 0;  // the lower item in the high 32 bits, the higher item in the low ones
  std::uint64_t count = 0;
};

// Counts pairs. New pairs are sorted and merged every four million, so that memory grows only with
// the number of different pairs.
class PairCounter {
 public:
  void add(ItemNumber a, ItemNumber b) {
    if (a == b) return;
    fresh_.push_back(std::uint64_t{std::min(a, b)} << 32 | std::max(a, b));
    if (fresh_.size() == fresh_max) merge();
  }
  std::vector<Pair> take() {
    merge();
    return std::move(pairs_);
  }

 private:
  static constexpr std::size_t fresh_max = 1 << 22;

  void merge() {
    std::ranges::sort(fresh_);
    std::vector<Pair> all;
    all.reserve(pairs_.size() + fresh_.size() / 2);
    auto old = pairs_.begin();
    for (auto at = fresh_.begin(); at != fresh_.end();) {
      const auto end = std::upper_bound(at, fresh_.end(), *at);
      while (old != pairs_.end() && old->key < *at) all.push_back(*old++);
      Pair pair{*at, static_cast<std::uint64_t>(end - at)};
      if (old != pairs_.end() && old->key == pair.key) pair.count += old++->count;
      all.push_back(pair);
      at = end;
    }
    all.insert(all.end(), old, pairs_.end());
    pairs_ = std::move(all);
    fresh_.clear();
  }

  std::vector<std::uint64_t> fresh_;
  std::vector<Pair> pairs_;  // sorted by key
};

constexpr ItemNumber lower(const Pair& pair) { return static_cast<ItemNumber>(pair.key >> 32); }
constexpr ItemNumber higher(const Pair& pair) { return static_cast<ItemNumber>(pair.key); }

// Builds the graph: each pair becomes an edge that is stored at both ends.
CoOccurrence graph_of(const std::vector<Pair>& pairs, std::size_t items) {
  std::vector<std::uint32_t> degrees(items), vertex(items);
  for (const Pair& pair : pairs) ++degrees[lower(pair)], ++degrees[higher(pair)];
  CoOccurrence all;
  all.graph.begins.push_back(0);
  for (std::size_t item = 0; item < items; ++item) {
    if (degrees[item] == 0) continue;
    vertex[item] = static_cast<std::uint32_t>(all.items.size());
    all.items.push_back(static_cast<ItemNumber>(item));
    all.graph.begins.push_back(all.graph.begins.back() + degrees[item]);
  }
  all.graph.neighbours.resize(all.graph.begins.back());
  all.graph.weights.resize(all.graph.begins.back());
  std::vector<std::uint64_t> next = all.graph.begins;
  const auto put = [&](std::uint32_t from, std::uint32_t to, std::uint64_t count) {
    all.graph.neighbours[next[from]] = to;
    all.graph.weights[next[from]++] = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, 0xffff'ffff));
  };
  for (const Pair& pair : pairs) {
    const std::uint32_t a = vertex[lower(pair)], b = vertex[higher(pair)];
    put(a, b, pair.count);
    put(b, a, pair.count);
  }
  return all;
}

struct Overlap {
  std::uint64_t bytes = 0;
  NodeIndex part = 0, node = 0;
};

// Returns the bytes that each part shares with each node of the earlier placement, largest first.
std::vector<Overlap> overlaps(const CoOccurrence& pairs, const std::vector<NodeIndex>& parts,
                              const Items& items, const std::vector<NodeNumber>& nodes,
                              const Placement& earlier) {
  std::vector<Overlap> all(nodes.size() * nodes.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = {0, static_cast<NodeIndex>(i / nodes.size()), static_cast<NodeIndex>(i % nodes.size())};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const NodeIndex place = earlier.place(pairs.items[i]);
    if (place == everywhere || place == nowhere) continue;
    const auto node = std::ranges::lower_bound(nodes, earlier.nodes()[place]);
    if (node == nodes.end() || *node != earlier.nodes()[place]) continue;
    all[parts[i] * nodes.size() + static_cast<std::size_t>(node - nodes.begin())].bytes +=
        items.bytes(pairs.items[i]);
  }
  std::ranges::sort(all, {}, [](const Overlap& one) { return std::tuple(~one.bytes, one.part, one.node); });
  return all;
}

// Assigns a node to each part: takes the largest overlaps whose part and node are both still free.
std::vector<NodeIndex> nodes_of_parts(const std::vector<Overlap>& all, std::size_t count) {
  std::vector<NodeIndex> node_of(count, nowhere);
  std::vector<std::uint8_t> taken(count);
  for (const Overlap& one : all) {
    if (node_of[one.part] != nowhere || taken[one.node] != 0) continue;
    node_of[one.part] = one.node;
    taken[one.node] = 1;
  }
  return node_of;
}

}  // namespace

CoOccurrence count_pairs(const Requests& requests, const std::vector<std::uint8_t>& wanted) {
  PairCounter pairs;
  std::vector<ItemNumber> chosen;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    chosen.clear();
    for (const ItemNumber item : requests.at(i))
      if (wanted[item] != 0) chosen.push_back(item);
    std::ranges::sort(chosen);
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    for (std::size_t a = 0; a < chosen.size(); ++a)
      for (std::size_t b = a + 1; b < chosen.size(); ++b) pairs.add(chosen[a], chosen[b]);
  }
  return graph_of(pairs.take(), wanted.size());
}

std::uint64_t hottest_per_mille(std::uint64_t items) {
  return std::max<std::uint64_t>(1, (items + 500) / 1000);
}

Placement place_by_co_occurrence(const Requests& requests, const AccessDistribution& accesses,
                                 const Items& items, std::vector<NodeNumber> nodes,
                                 std::uint64_t memory_bytes, const Placement* earlier) {
  const Shards shards(std::move(nodes));
  const std::uint64_t hottest = hottest_per_mille(items.count());
  const auto shard = [&](ItemNumber item) { return shards.owner(items.key(item)); };
  // Decide which items are placed at all, and where an item goes that has no edges.
  Placement placement = place_hottest_first(hottest, accesses, items, shards.nodes(), memory_bytes, shard);
  std::vector<std::uint8_t> wanted(items.count());
  for (std::uint64_t item = 0; item < items.count(); ++item) {
    const NodeIndex place = placement.place(static_cast<ItemNumber>(item));
    wanted[item] = place != everywhere && place != nowhere;
  }
  const CoOccurrence pairs = count_pairs(requests, wanted);
  std::vector<std::uint64_t> bytes;
  bytes.reserve(pairs.items.size());
  for (const ItemNumber item : pairs.items) bytes.push_back(items.bytes(item));
  std::vector<NodeIndex> parts = partition(pairs.graph, bytes, shards.nodes().size());
  if (earlier) {
    const std::vector<NodeIndex> node_of =
        nodes_of_parts(overlaps(pairs, parts, items, shards.nodes(), *earlier), shards.nodes().size());
    for (NodeIndex& part : parts) part = node_of[part];
  }
  for (std::size_t i = 0; i < parts.size(); ++i) placement.put(pairs.items[i], parts[i]);
  // Check the memory again, since a part may be larger than a node.
  return place_hottest_first(hottest, accesses, items, shards.nodes(), memory_bytes, [&](ItemNumber item) {
    return placement.place(item) == nowhere ? shard(item) : placement.place(item);
  });
}

}  // namespace troupe::placement
