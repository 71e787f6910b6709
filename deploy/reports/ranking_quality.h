#pragma once
// Measures of a ranking: the rank of the item that was taken, NDCG, and how far two rankings of the
// same items agree. Means have standard errors.
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace troupe::deploy {

struct EventScore {
  double surprise = 0;   // mean negative log-likelihood of the true item's tokens, in nats
  std::size_t rank = 0;  // rank of the true item among the results, from 1; 0 = not among them
};
inline double recall(const EventScore& score, std::size_t k) { return score.rank > 0 && score.rank <= k; }
double ndcg(const EventScore& score, std::size_t k);

struct Mean {
  double value = 0, standard_error = 0;  // of independent samples
};
nlohmann::json to_json(const Mean& mean);  // {"mean": 0.5, "standard_error": 0.01}
Mean mean_of(const std::vector<double>& samples);

// Returns the true item's place among the candidates (ties count against it), and its surprise among them.
EventScore judge_ranking(const std::vector<float>& logits, std::size_t truth);

// Returns the fraction of the ten best items of `one` that are among the ten best of `other`. With fewer
// than 20 items, the better half of the items is compared.
double overlap_at_10(const std::vector<float>& one, const std::vector<float>& other);

// Returns Spearman's rank correlation; equal scores share the mean of their ranks. Returns 1 if all scores
// of both are equal, or if there are fewer than two; 0 if those of only one are.
double rank_correlation(const std::vector<float>& one, const std::vector<float>& other);

}  // namespace troupe::deploy
