#pragma once
// Makes the requests of `troupe-lab bench rank`: real users, histories and candidates of an evaluation
// file. Repeat visits follow one stated rule; for throughput runs, histories are lengthened to a
// stated length distribution (BAT §6.2).
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "deploy/data/dataset.h"

namespace troupe::deploy {

// Visit of a user. The first ceil(requests / visits_per_user) users of the file have one first
// visit each. All other requests are repeat visits; their users are drawn with replacement, in
// proportion to the length of their history, so that active users return more often. A first visit
// has its row's own candidates, a repeat visit those of a random row. The order is a uniform
// shuffle of all visits, in which each user's first visit comes first.
struct Visit {
  std::size_t user = 0;        // row of the evaluation file
  std::size_t candidates = 0;  // row whose candidates are ranked
  bool first = false;          // quality is measured on first visits: they are requests of the file
};
std::vector<Visit> make_visits(const std::vector<EvaluationRow>& rows, std::size_t requests,
                               double visits_per_user, std::uint64_t seed);

// Draws sets of candidates without repeating a combination in any order. The items of a set differ.
// Each item is drawn in proportion to its occurrences in the histories plus one, so that every item
// can occur.
class FreshCandidates {
 public:
  // Throws std::invalid_argument if there are fewer than twice as many items as candidates.
  FreshCandidates(const std::vector<std::string>& catalog, const std::vector<EvaluationRow>& rows,
                  std::size_t count, std::uint64_t seed);
  std::vector<std::string> next();

 private:
  std::vector<std::string> items_;
  std::size_t count_;
  std::mt19937_64 random_;
  std::discrete_distribution<std::size_t> draw_;
  std::set<std::vector<std::uint32_t>> given_;
};

// Log-normal distribution of history lengths in tokens: mean, sigma of the logarithm, and maximum
// (0 = profile_tokens_max).
struct ProfileTokens {
  double mean = 0, sigma = 0.6;
  std::size_t max = 0;
};
// Parses "MEAN[,SIGMA[,MAX]]"; no length may exceed `profile_tokens_max`. Throws
// std::invalid_argument with what was expected.
inline constexpr double profile_tokens_max = 1e6;
ProfileTokens parse_profile_tokens(const std::string& text);

// Lengthens each history to its drawn length with events drawn from all histories, placed before
// the user's own events. A history that is too long keeps its newest events. `item_tokens` is the
// number of tokens of one event.
void expand_histories(std::vector<EvaluationRow>& rows, const ProfileTokens& lengths, std::size_t item_tokens,
                      std::uint64_t seed);

}  // namespace troupe::deploy
