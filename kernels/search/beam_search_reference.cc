// Searches by listing every allowed path and sorting all of them; the real beam search is tested
// against it.
#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/search/beam_search.h"

namespace troupe::kernels {
namespace {

using PlainPath = std::vector<Token>;

bool begins(const PlainPath& beginning, const PlainPath& path) {
  return beginning.size() <= path.size() && std::equal(beginning.begin(), beginning.end(), path.begin());
}

// Returns all paths of a search, without those that continue another.
std::set<PlainPath> all_paths(const Search& search, std::span<const PlainPath> paths,
                              std::uint32_t vocabulary) {
  std::set<PlainPath> given(paths.begin(), paths.end()), all;
  if (!search.allowed.empty()) given.clear();
  for (const Tokens& path : search.allowed) given.insert(path.copy());
  if (given.empty()) {
    given = {{}};
    for (std::uint32_t step = 0; step < search.steps; ++step) {
      std::set<PlainPath> longer;
      for (PlainPath path : given) {
        path.push_back(0);
        for (std::uint32_t token = 0; token < vocabulary; ++token) {
          path.back() = static_cast<Token>(token);
          longer.insert(path);
        }
      }
      given = longer;
    }
  }
  given.erase(PlainPath());
  for (const PlainPath& path : given)
    if (std::none_of(given.begin(), given.end(),
                     [&](auto& other) { return other != path && begins(other, path); }))
      all.insert(path);
  return all;
}

std::set<Token> tokens_after(const PlainPath& path, const std::set<PlainPath>& paths) {
  std::set<Token> tokens;
  for (const PlainPath& other : paths)
    if (other.size() > path.size() && begins(path, other)) tokens.insert(other[path.size()]);
  return tokens;
}

double plain_log_total(const std::vector<float>& logits, const std::set<Token>* over) {
  std::vector<float> summed;
  for (std::size_t token = 0; token < logits.size(); ++token)
    if (over == nullptr || over->contains(static_cast<Token>(token))) summed.push_back(logits[token]);
  return log_sum_exp(summed);
}

bool before(const Beam& a, const Beam& b) {
  return a.log_probability != b.log_probability ? a.log_probability > b.log_probability : a.path < b.path;
}

}  // namespace

std::vector<Beam> beam_search_reference(const Search& search, std::span<const PlainPath> paths,
                                        std::uint32_t vocabulary, const LogitsAfter& logits_after) {
  const std::set<PlainPath> known = all_paths(search, paths, vocabulary);
  std::set<PlainPath> open = known;
  for (const Tokens& path : search.denied) open.erase(path.copy());
  std::vector<Beam> kept;
  if (!open.empty()) kept.emplace_back();
  while (std::any_of(kept.begin(), kept.end(), [&](const Beam& beam) { return !open.contains(beam.path); })) {
    std::vector<Beam> longer;
    for (const Beam& beam : kept) {
      if (open.contains(beam.path)) {
        longer.push_back(beam);
        continue;
      }
      const std::vector<float> logits = logits_after(beam.path);
      const std::set<Token> known_after = tokens_after(beam.path, known);
      const bool over_allowed = search.normalised == Search::Normalisation::allowed;
      const double log_total = plain_log_total(logits, over_allowed ? &known_after : nullptr);
      for (const Token token : tokens_after(beam.path, open)) {
        Beam& next = longer.emplace_back(beam);
        next.path.push_back(token);
        next.log_probability += std::min(0.0, double{logits[static_cast<std::size_t>(token)]} - log_total);
        if (search.by_token) next.by_token.push_back(next.log_probability - beam.log_probability);
      }
    }
    std::sort(longer.begin(), longer.end(), before);
    longer.resize(std::min<std::size_t>(longer.size(), search.width));
    kept = longer;
  }
  kept.resize(std::min<std::size_t>(kept.size(), search.results));
  return kept;
}

}  // namespace troupe::kernels
