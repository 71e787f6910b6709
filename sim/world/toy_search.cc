// Searches the best paths on the toy model with an index of valid paths, as a real device does. The
// expected results are computed differently (expected_results.cc), for comparison.
#include "sim/world/toy_search.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/base/check.h"

namespace troupe::sim {
namespace {

using kernels::PathIndex;
using Node = PathIndex::Node;

PathIndex index_of(const std::vector<Tokens>& paths) {
  std::vector<std::span<const Token>> runs;
  for (const Tokens& path : paths) runs.emplace_back(path.begin(), path.size());
  return PathIndex(runs);
}

// Returns the nodes below which every path is denied.
std::set<Node> dead_ends(const PathIndex& paths, const std::vector<Tokens>& denied) {
  std::set<Node> dead;
  for (const Tokens& path : denied) {
    std::vector<Node> way{PathIndex::root};
    for (const Token token : path)
      if (way.back() != PathIndex::none) way.push_back(paths.child(way.back(), token));
    if (way.back() == PathIndex::none || !paths.is_leaf(way.back())) continue;
    for (; !way.empty(); way.pop_back()) {
      bool all = true;
      for (std::uint32_t i = 0; i < paths.next(way.back()).size(); ++i)
        all = all && dead.contains(paths.first_child(way.back()) + i);
      if (!all) break;
      dead.insert(way.back());
    }
  }
  return dead;
}

struct Open {
  Beam beam;
  Node node = PathIndex::root;
};

}  // namespace

bool is_better(const Beam& a, const Beam& b) {
  return a.log_probability != b.log_probability ? a.log_probability > b.log_probability : a.path < b.path;
}

std::vector<double> log_probabilities(const ToyFamily& family, std::uint64_t model_key,
                                      const SegmentValue& value, std::uint32_t offset,
                                      std::span<const Token> path, std::span<const Token> next,
                                      Search::Normalisation normalised) {
  constexpr double most = 8;  // logits are below this
  std::vector<SegmentValue> seen{value};
  const SegmentValue here = path.empty() ? value : family.value_of(model_key, path, 0, seen);
  const std::uint32_t at = path.empty() ? offset : static_cast<std::uint32_t>(path.size() - 1);
  std::vector<double> logits = family.logits_of(here, at, next).scores;
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - most);
  const double all = most + (normalised == Search::Normalisation::allowed ? std::log(sum) : 0);
  for (double& logit : logits) logit -= all;
  return logits;
}

std::vector<Beam> search_paths(const ToyFamily& family, std::uint64_t model_key, const SegmentValue& value,
                               std::uint32_t offset, const Search& search, const PathIndex* paths) {
  const PathIndex own = index_of(search.allowed);
  if (!search.allowed.empty()) paths = &own;
  TROUPE_CHECK(paths, "a search must have paths");
  const std::set<Node> dead = dead_ends(*paths, search.denied);
  std::vector<Open> open;
  if (!paths->empty() && !dead.contains(PathIndex::root)) open.emplace_back();
  for (std::uint32_t level = 0; level < paths->depth(); ++level) {
    std::vector<Open> next;
    for (const Open& parent : open) {
      if (paths->is_leaf(parent.node)) {
        next.push_back(parent);
        continue;
      }
      const auto tokens = paths->next(parent.node);
      const auto values =
          log_probabilities(family, model_key, value, offset, parent.beam.path, tokens, search.normalised);
      for (std::uint32_t i = 0; i < tokens.size(); ++i) {
        const Node node = paths->first_child(parent.node) + i;
        if (dead.contains(node)) continue;
        Open child{parent.beam, node};
        child.beam.path.push_back(tokens[i]);
        child.beam.log_probability += values[i];
        if (search.by_token) child.beam.by_token.push_back(values[i]);
        if (search.of_items)
          child.beam.score = family.logits_of(value, offset, tokens.subspan(i, 1)).scores[0];
        next.push_back(std::move(child));
      }
    }
    std::ranges::sort(next, [](const Open& a, const Open& b) { return is_better(a.beam, b.beam); });
    if (next.size() > search.width) next.resize(search.width);
    open = std::move(next);
  }
  if (open.size() > search.results) open.resize(search.results);
  std::vector<Beam> beams;
  for (Open& one : open) beams.push_back(std::move(one.beam));
  return beams;
}

}  // namespace troupe::sim
