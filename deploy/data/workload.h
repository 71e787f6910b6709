#pragma once
// The requests of `troupe bench rank`: real users, histories and candidates from an evaluation file, with
// repeat visits by one stated rule, and histories expanded to a stated length distribution for throughput
// runs (BAT §6.2).
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "deploy/data/dataset.h"

namespace troupe::deploy {

// The rule: of the first ceil(requests / visits_per_user) users of the file each comes once; the other
// requests are repeat visits, their users drawn with replacement in proportion to their history's length (an
// active user comes more often). A first visit has the row's own candidates; a repeat visit those of a random
// row. The order is a uniform shuffle of all visits, in which each user's first visit comes first.
struct Visit {
  std::size_t user = 0;        // row of the evaluation file
  std::size_t candidates = 0;  // row whose candidates are ranked
  bool first = false;          // quality is measured on these: they are the file's own requests
};
std::vector<Visit> make_visits(const std::vector<EvaluationRow>& rows, std::size_t requests,
                               double visits_per_user, std::uint64_t seed);

// Candidates of which no combination comes twice, whatever their order: different items, each drawn by how
// often the histories have it (once more than that, so that all items come).
class FreshCandidates {
 public:
  // Throws std::invalid_argument for fewer than twice as many items as candidates.
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

// Log-normal lengths of a user's history in tokens: mean, sigma of the logarithm, and the longest allowed.
struct ProfileTokens {
  double mean = 0, sigma = 0.6;
  std::size_t max = 0;
};
// "MEAN[,SIGMA[,MAX]]", no length above `profile_tokens_max`; throws std::invalid_argument with what was
// expected.
inline constexpr double profile_tokens_max = 1e6;
ProfileTokens parse_profile_tokens(const std::string& text);

// Lengthens each history to its drawn length with events drawn from all histories, before the user's own; a
// history that is long enough already keeps its newest events. `item_tokens`: tokens of one event.
void expand_histories(std::vector<EvaluationRow>& rows, const ProfileTokens& lengths, std::size_t item_tokens,
                      std::uint64_t seed);

}  // namespace troupe::deploy
