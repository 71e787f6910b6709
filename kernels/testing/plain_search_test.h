#pragma once
// Test helper for beam searches: random prompts and paths, and a reference search that computes
// every path as a prompt of its own, keeps all paths and sorts all of them.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/decoder/decoder.h"
#include "kernels/testing/test_tokens.h"

namespace troupe::kernels {

using Path = std::vector<Token>;

inline std::vector<Path> random_paths(std::size_t count, std::size_t depth, std::mt19937& random) {
  std::set<Path> paths;
  for (std::size_t i = 0; i < count; ++i) {
    Path path;
    for (std::size_t t = 0; t < depth; ++t) path.push_back(static_cast<Token>(random() % 7 + 7 * t % 40));
    paths.insert(path);
  }
  return {paths.begin(), paths.end()};
}

inline std::shared_ptr<const PathIndex> index_of(const std::vector<Path>& paths) {
  return std::make_shared<PathIndex>(std::vector<std::span<const Token>>(paths.begin(), paths.end()));
}

// Returns an instruction, two items that see it, and a history that sees all; the paths follow the
// history.
inline Plan prompt_plan(std::mt19937& random, std::size_t history = 9) {
  const auto tokens = [&](std::size_t count) {
    Path drawn;
    for (std::size_t t = 0; t < count; ++t) drawn.push_back(static_cast<Token>(random() % 50));
    return drawn;
  };
  Plan plan;
  plan.segments = {{SegmentKind::system, tokens(3), 0, {}},
                   {SegmentKind::item, tokens(5), 3, {0}},
                   {SegmentKind::item, tokens(2), 3, {0}},
                   {SegmentKind::user, tokens(history), 8, VisibleSegments::all_before(3)}};
  plan.search.segment = 3;
  return plan;
}

inline Request computed(const Plan& plan, std::shared_ptr<const PathIndex> paths) {
  return {.plan = &plan,
          .kv = std::vector<SegmentKv>(plan.segments.size()),
          .assets = std::make_shared<PathAssets>(std::move(paths))};
}

// Returns the log-probabilities of all tokens after the prompt and a path.
inline std::vector<double> after(Executor& decoder, Plan plan, const Path& path) {
  Segment& last = plan.segments[plan.search.segment];
  Path tokens = last.tokens.copy();
  tokens.insert(tokens.end(), path.begin(), path.end());
  plan.readouts = {
      {plan.search.segment, static_cast<std::uint32_t>(tokens.size() - 1), {}, Readout::What::all_rows}};
  last.tokens = Tokens(std::move(tokens));
  plan.search = {};
  const Request request = computed(plan, nullptr);
  const std::vector<float> logits = decoder.run({&request, 1})[0].readouts[0];
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit});
  std::vector<double> logs;
  for (const float logit : logits) logs.push_back(logit - std::log(sum));
  return logs;
}

inline bool better(const Beam& a, const Beam& b) {
  return a.log_probability != b.log_probability ? a.log_probability > b.log_probability : a.path < b.path;
}

// Keeps the best `count`, in order, and lowers *margin to the difference to the next one.
inline void keep_best(std::vector<Beam>& beams, std::size_t count, double* margin) {
  std::ranges::sort(beams, better);
  if (beams.size() <= count) return;
  if (margin) *margin = std::min(*margin, beams[count - 1].log_probability - beams[count].log_probability);
  beams.resize(count);
}

// Searches plainly. *margin: the smallest difference, at any level, between a path that was kept
// and one that was not.
inline std::vector<Beam> plain_search(Executor& decoder, const Plan& plan, const std::vector<Path>& paths,
                                      double* margin = nullptr) {
  if (margin) *margin = INFINITY;
  const std::size_t depth = paths[0].size();
  std::vector<Beam> beams(1);
  for (std::size_t level = 0; level < depth; ++level) {
    std::vector<Beam> longer;
    for (const Beam& beam : beams) {
      std::vector<double> logs = after(decoder, plan, beam.path);
      std::set<Token> next;
      for (const Path& path : paths)
        if (std::equal(beam.path.begin(), beam.path.end(), path.begin())) next.insert(path[level]);
      if (plan.search.normalised == Search::Normalisation::allowed) {
        double sum = 0;
        for (const Token token : next) sum += std::exp(logs[static_cast<std::size_t>(token)]);
        for (double& log : logs) log -= std::log(sum);
      }
      for (const Token token : next) {
        longer.push_back(beam);
        longer.back().path.push_back(token);
        longer.back().log_probability += logs[static_cast<std::size_t>(token)];
      }
    }
    keep_best(longer, plan.search.width, margin);
    beams = std::move(longer);
  }
  keep_best(beams, plan.search.results, margin);
  return beams;
}

// Returns "" or where two searches differ by more than rounding.
inline std::string difference(const std::vector<Beam>& found, const std::vector<Beam>& expected) {
  if (found.size() != expected.size())
    return std::to_string(found.size()) + " paths; expected " + std::to_string(expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].path != expected[i].path) return "another path at " + std::to_string(i);
    if (!(std::abs(found[i].log_probability - expected[i].log_probability) < 1e-4))
      return "path " + std::to_string(i) + " has " + std::to_string(found[i].log_probability) +
             "; expected " + std::to_string(expected[i].log_probability);
  }
  return "";
}

}  // namespace troupe::kernels
