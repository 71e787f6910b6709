#pragma once
// The paths that a beam search may return: the semantic identifiers of a catalog's items, as a
// tree. A node is the beginning of a path. Nodes are numbered level by level, and within a level in
// the order of their tokens. So a node's children are neighbours and, among paths of one length, a
// lower number is a smaller path; this breaks ties.
//
// An identifier may have any length. If one is the beginning of another, an answer could not tell
// which is meant: the longer one is left out and counted.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/base/tokens.h"

namespace troupe::kernels {

class PathIndex {
 public:
  using Node = std::uint32_t;
  static constexpr Node root = 0, none = UINT32_MAX;

  // Item i has paths[i]. An item with an empty path is left out.
  explicit PathIndex(std::span<const std::span<const Token>> paths);

  bool empty() const { return leaves_ == 0; }
  std::uint32_t depth() const { return depth_; }  // tokens of the longest path
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(first_child_.size()) - 1; }
  std::uint32_t leaves() const { return leaves_; }  // different paths
  std::uint32_t left_out() const { return left_out_; }

  // Returns the tokens that may follow `node`, ascending; the i-th leads to first_child(node) + i.
  // Empty: the path is complete.
  std::span<const Token> next(Node node) const {
    return {tokens_.data() + first_child_[node], tokens_.data() + first_child_[node + 1]};
  }
  Node first_child(Node node) const { return first_child_[node]; }
  bool is_leaf(Node node) const { return first_child_[node] == first_child_[node + 1]; }
  Node child(Node node, Token token) const;      // none: the token may not follow
  Node find(std::span<const Token> path) const;  // none: no path begins with it
  // Returns the items with this path, ascending; empty for a node that is not a leaf.
  std::span<const std::uint32_t> items(Node leaf) const;
  std::uint32_t width_max() const { return width_max_; }  // maximum size of next()
  bool within(std::int32_t vocabulary) const { return empty() || (least_ >= 0 && most_ < vocabulary); }
  std::size_t bytes() const;

 private:
  struct Builder;

  std::vector<Token> tokens_;               // [node]: the last token of its path; 0 for the root
  std::vector<std::uint32_t> first_child_;  // [node + 1]
  std::vector<std::uint32_t> first_item_;   // [node + 1]
  std::vector<std::uint32_t> items_;
  std::uint32_t depth_ = 0, leaves_ = 0, left_out_ = 0, width_max_ = 0;
  Token least_ = 0, most_ = 0;
};

}  // namespace troupe::kernels
