// Builds the tree level by level, so that nodes are created in the order of their numbers. Items
// with the same beginning form a group. On each level a group is sorted by its items' next tokens,
// which splits it into the groups of the next level. A key packs a token and an item into one
// number: sorting reads nothing else, and each level reads each path once.
#include "kernels/base/path_index.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace troupe::kernels {
namespace {

std::uint64_t path_key(Token token, std::size_t item) {
  return std::uint64_t{static_cast<std::uint32_t>(token) ^ 0x80000000u} << 32 | item;
}
Token token_of(std::uint64_t key) {
  return static_cast<Token>(static_cast<std::uint32_t>(key >> 32) ^ 0x80000000u);
}
std::uint32_t item_of(std::uint64_t key) { return static_cast<std::uint32_t>(key); }

}  // namespace

struct PathIndex::Builder {
  struct Group {  // items keys[begin, end), whose paths continue from `node`
    Node node;
    std::size_t begin, end;
  };

  PathIndex& index;
  std::span<const std::span<const Token>> paths;
  std::vector<std::uint64_t> keys = {};  // items whose paths continue; among equal tokens items ascend
  std::vector<Group> groups = {}, next_groups = {};
  std::size_t kept = 0;  // keys of the next level so far; they overwrite keys already read

  void start() {
    keys.reserve(paths.size());
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (paths[i].empty())
        ++index.left_out_;
      else
        keys.push_back(path_key(paths[i][0], i));
    }
    index.tokens_.push_back(0);
    index.first_item_.assign(2, 0);
    if (!keys.empty()) groups.push_back({root, 0, keys.size()});
  }

  Node end() const { return static_cast<Node>(index.tokens_.size()); }

  // Adds the children of a whole level, whose first node is `begin`.
  void add_level(Node begin) {
    const Node level_end = end();
    Node node = begin;
    kept = 0;
    next_groups.clear();
    for (const Group& group : groups) {
      for (; node <= group.node; ++node) index.first_child_.push_back(end());
      add_children(group);
    }
    for (; node < level_end; ++node) index.first_child_.push_back(end());
    groups.swap(next_groups);
    if (end() > level_end) ++index.depth_;
  }

  void add_children(const Group& group) {
    const auto first = keys.begin() + static_cast<std::ptrdiff_t>(group.begin);
    const auto last = keys.begin() + static_cast<std::ptrdiff_t>(group.end);
    if (!std::is_sorted(first, last)) std::sort(first, last);
    const Node child = end();
    for (std::size_t i = group.begin; i < group.end;) {
      const std::size_t from = i;
      const Token token = token_of(keys[i]);
      while (i < group.end && token_of(keys[i]) == token) ++i;
      add_child(token, from, i);
    }
    index.width_max_ = std::max(index.width_max_, end() - child);
  }

  void add_child(Token token, std::size_t from, std::size_t to) {
    TROUPE_CHECK(index.tokens_.size() < none, "an index has at most UINT32_MAX - 1 nodes");
    const std::size_t length = index.depth_ + 1, items = index.items_.size(), begin = kept;
    const Node node = end();
    index.tokens_.push_back(token);
    for (std::size_t i = from; i < to; ++i)
      if (paths[item_of(keys[i])].size() == length) index.items_.push_back(item_of(keys[i]));
    const std::size_t whole = index.items_.size() - items;
    index.first_item_.push_back(static_cast<std::uint32_t>(index.items_.size()));
    if (whole > 0) {
      ++index.leaves_;
      index.left_out_ += static_cast<std::uint32_t>(to - from - whole);
      return;
    }
    for (std::size_t i = from; i < to; ++i) {
      const std::uint32_t item = item_of(keys[i]);
      keys[kept++] = path_key(paths[item][length], item);
    }
    next_groups.push_back({node, begin, kept});
  }
};

PathIndex::PathIndex(std::span<const std::span<const Token>> paths) {
  TROUPE_CHECK(paths.size() < none, "an index has at most UINT32_MAX - 1 items");
  Builder builder{*this, paths};
  builder.start();
  for (Node begin = root; begin < builder.end();) {
    const Node end = builder.end();
    builder.add_level(begin);
    begin = end;
  }
  first_child_.push_back(builder.end());
  if (empty()) return;
  const auto [least, most] = std::minmax_element(tokens_.begin() + 1, tokens_.end());
  least_ = *least;
  most_ = *most;
}

PathIndex::Node PathIndex::child(Node node, Token token) const {
  const std::span<const Token> tokens = next(node);
  const auto at = std::lower_bound(tokens.begin(), tokens.end(), token);
  if (at == tokens.end() || *at != token) return none;
  return first_child(node) + static_cast<Node>(at - tokens.begin());
}

PathIndex::Node PathIndex::find(std::span<const Token> path) const {
  Node node = root;
  for (const Token token : path) {
    node = child(node, token);
    if (node == none) return none;
  }
  return node;
}

std::span<const std::uint32_t> PathIndex::items(Node leaf) const {
  return {items_.data() + first_item_[leaf], items_.data() + first_item_[leaf + 1]};
}

std::size_t PathIndex::bytes() const {
  return sizeof(*this) + tokens_.capacity() * sizeof(Token) +
         (first_child_.capacity() + first_item_.capacity() + items_.capacity()) * sizeof(std::uint32_t);
}

}  // namespace troupe::kernels
