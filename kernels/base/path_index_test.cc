#include "kernels/base/path_index.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace troupe::kernels {
namespace {

using Path = std::vector<Token>;

PathIndex index_of(const std::vector<Path>& paths) {
  const std::vector<std::span<const Token>> runs(paths.begin(), paths.end());
  return PathIndex(runs);
}

std::vector<std::uint32_t> items_at(const PathIndex& index, const Path& path) {
  const auto items = index.items(index.find(path));
  return {items.begin(), items.end()};
}

Path next_of(const PathIndex& index, const Path& path) {
  const auto next = index.next(index.find(path));
  return {next.begin(), next.end()};
}

// Computes without an index what an index of `paths` holds: the paths that no other path is a
// beginning of, with their items.
std::map<Path, std::vector<std::uint32_t>> plainly(const std::vector<Path>& paths) {
  std::map<Path, std::vector<std::uint32_t>> whole;
  for (std::uint32_t i = 0; i < paths.size(); ++i) {
    const bool goes_on = std::any_of(paths.begin(), paths.end(), [&](const Path& other) {
      return !other.empty() && other.size() < paths[i].size() &&
             std::equal(other.begin(), other.end(), paths[i].begin());
    });
    if (!paths[i].empty() && !goes_on) whole[paths[i]].push_back(i);
  }
  return whole;
}

// Collects the paths below `node`, in the order of the tree.
void walk(const PathIndex& index, PathIndex::Node node, Path& path, std::vector<Path>& found) {
  if (index.is_leaf(node)) found.push_back(path);
  for (std::uint32_t i = 0; i < index.next(node).size(); ++i) {
    path.push_back(index.next(node)[i]);
    walk(index, index.first_child(node) + i, path, found);
    path.pop_back();
  }
}

TEST_CASE("path index: tokens that may follow ascend, and paths lead to their items") {
  const PathIndex index = index_of({{7, 2, 9}, {3, 5, 1}, {7, 2, 4}, {7, 0, 4}});
  CHECK(index.depth() == 3);
  CHECK(index.leaves() == 4);
  CHECK(index.nodes() == 1 + 2 + 3 + 4);
  CHECK(index.width_max() == 2);
  CHECK(next_of(index, {}) == Path{3, 7});
  CHECK(next_of(index, {7}) == Path{0, 2});
  CHECK(next_of(index, {7, 2}) == Path{4, 9});
  CHECK(items_at(index, {7, 2, 9}) == std::vector<std::uint32_t>{0});
  CHECK(items_at(index, {7, 2}).empty());
  CHECK(index.find(Path{7, 3}) == PathIndex::none);
  CHECK(index.find(Path{7, 2, 9, 9}) == PathIndex::none);
  CHECK(index.within(10));
  CHECK_FALSE(index.within(9));
  CHECK_FALSE(index_of({{-1}}).within(10));
}

TEST_CASE("path index: items of one identifier share its leaf") {
  const PathIndex index = index_of({{1, 2}, {4, 4}, {1, 2}, {1, 3}, {1, 2}});
  CHECK(index.leaves() == 3);
  CHECK(index.left_out() == 0);
  CHECK(items_at(index, {1, 2}) == std::vector<std::uint32_t>{0, 2, 4});
}

TEST_CASE("path index: an empty path, and one that continues a shorter path, is left out and counted") {
  const PathIndex index = index_of({{1, 2, 3}, {1, 2}, {}, {1, 2, 4}, {5}, {1, 6, 3, 3}, {1, 2}});
  CHECK(index.left_out() == 3);
  CHECK(index.leaves() == 3);
  CHECK(index.depth() == 4);
  CHECK(items_at(index, {1, 2}) == std::vector<std::uint32_t>{1, 6});
  CHECK(index.find(Path{1, 2, 3}) == PathIndex::none);
  CHECK(items_at(index, {5}) == std::vector<std::uint32_t>{4});
}

TEST_CASE("path index: an empty index has no paths") {
  for (const PathIndex& index : {index_of({}), index_of({{}, {}})}) {
    CHECK(index.empty());
    CHECK(index.nodes() == 1);
    CHECK(index.depth() == 0);
    CHECK(index.next(PathIndex::root).empty());
    CHECK(index.items(PathIndex::root).empty());
    CHECK(index.within(0));
  }
}

TEST_CASE("path index: random paths are found, ordered by their tokens and numbered level by level") {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::uint32_t tokens = 2 + random() % 6, length_max = 1 + random() % 6;
    std::vector<Path> paths(random() % 300);
    for (Path& path : paths) {
      path.resize(random() % 8 == 0 ? random() % (length_max + 1) : length_max);
      for (Token& token : path) token = static_cast<Token>(random() % tokens);
    }
    const PathIndex index = index_of(paths);
    const auto expected = plainly(paths);
    std::size_t items = 0;
    std::vector<Path> found, sorted;
    for (const auto& [path, its_items] : expected) {
      sorted.push_back(path);
      items += its_items.size();
      REQUIRE(index.find(path) != PathIndex::none);
      CHECK(items_at(index, path) == its_items);
    }
    Path path;
    if (!index.empty()) walk(index, PathIndex::root, path, found);
    CHECK(found == sorted);
    CHECK(index.leaves() == sorted.size());
    CHECK(index.left_out() == paths.size() - items);
    std::size_t widest = 0;
    for (PathIndex::Node node = 0; node < index.nodes(); ++node)
      widest = std::max(widest, index.next(node).size());
    CHECK(index.width_max() == widest);
  }
}

}  // namespace
}  // namespace troupe::kernels
