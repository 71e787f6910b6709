// Makes the requests of `troupe-lab bench rank` from an evaluation file: its users, histories and
// candidates. Repeats visits by one rule, and lengthens histories on request.
#include "deploy/lab/bench/workload.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <stdexcept>
#include <unordered_map>

namespace troupe::deploy {

std::vector<Visit> make_visits(const std::vector<EvaluationRow>& rows, std::size_t requests,
                               double visits_per_user, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto wanted = static_cast<std::size_t>(std::ceil(static_cast<double>(requests) / visits_per_user));
  const std::size_t users = std::min(rows.size(), std::max<std::size_t>(1, wanted));
  std::vector<std::size_t> order;
  std::vector<double> weights;
  for (std::size_t u = 0; u < users; ++u) {
    order.push_back(u);
    weights.push_back(1.0 + static_cast<double>(rows[u].history.size()));
  }
  std::discrete_distribution<std::size_t> returning(weights.begin(), weights.end());
  while (order.size() < requests) order.push_back(returning(random));
  order.resize(std::min(order.size(), requests));
  std::shuffle(order.begin(), order.end(), random);

  std::uniform_int_distribution<std::size_t> any_row(0, rows.size() - 1);
  std::set<std::size_t> seen;
  std::vector<Visit> visits;
  for (const std::size_t user : order) {
    const bool first = seen.insert(user).second;
    visits.push_back({user, first ? user : any_row(random), first});
  }
  return visits;
}

FreshCandidates::FreshCandidates(const std::vector<std::string>& catalog,
                                 const std::vector<EvaluationRow>& rows, std::size_t count,
                                 std::uint64_t seed)
    : items_(catalog), count_(count), random_(seed) {
  if (items_.size() < 2 * count_)
    throw std::invalid_argument("the catalog has " + std::to_string(items_.size()) +
                                " items; expected at least " + std::to_string(2 * count_) +
                                ", so that candidates differ");
  std::unordered_map<std::string, std::size_t> at;
  for (std::size_t i = 0; i < items_.size(); ++i) at[items_[i]] = i;
  std::vector<double> weights(items_.size(), 1.0);
  for (const EvaluationRow& row : rows)
    for (const std::string& item : row.history)
      if (const auto found = at.find(item); found != at.end()) weights[found->second] += 1;
  draw_ = std::discrete_distribution<std::size_t>(weights.begin(), weights.end());
}

std::vector<std::string> FreshCandidates::next() {
  for (;;) {
    std::vector<std::uint32_t> drawn;
    while (drawn.size() < count_) {
      const auto item = static_cast<std::uint32_t>(draw_(random_));
      if (std::ranges::find(drawn, item) == drawn.end()) drawn.push_back(item);
    }
    std::vector<std::uint32_t> sorted = drawn;
    std::ranges::sort(sorted);
    if (!given_.insert(std::move(sorted)).second) continue;
    std::vector<std::string> candidates;
    for (const std::uint32_t item : drawn) candidates.push_back(items_[item]);
    return candidates;
  }
}

ProfileTokens parse_profile_tokens(const std::string& text) {
  ProfileTokens lengths;
  double values[3] = {0, lengths.sigma, 0};
  std::size_t at = 0, count = 0;
  try {
    for (; count < 3 && at <= text.size(); ++count) {
      std::size_t used = 0;
      values[count] = std::stod(text.substr(at), &used);
      at += used;
      if (at < text.size() && text[at] != ',') throw std::invalid_argument(text);
      ++at;
    }
  } catch (const std::exception&) {
    count = 0;
  }
  const auto within = [](double value, double low, double high) { return low <= value && value <= high; };
  if (count == 0 || at <= text.size() || !within(values[0], 1, profile_tokens_max) ||
      !within(values[1], 0, 5) || !within(values[2], 0, profile_tokens_max))
    throw std::invalid_argument("--profile-tokens is \"" + text +
                                "\"; expected MEAN[,SIGMA[,MAX]] with MEAN in 1..1000000, SIGMA in 0..5 and "
                                "MAX in 0..1000000");
  return {values[0], values[1], static_cast<std::size_t>(values[2])};
}

void expand_histories(std::vector<EvaluationRow>& rows, const ProfileTokens& lengths, std::size_t item_tokens,
                      std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::string> log;
  for (const EvaluationRow& row : rows) log.insert(log.end(), row.history.begin(), row.history.end());
  if (log.empty()) return;
  std::uniform_int_distribution<std::size_t> any_event(0, log.size() - 1);
  // The mean of a log-normal is exp(mu + sigma²/2).
  std::lognormal_distribution<double> tokens(std::log(lengths.mean) - lengths.sigma * lengths.sigma / 2,
                                             lengths.sigma);
  for (EvaluationRow& row : rows) {
    double drawn = tokens(random);
    drawn = std::min(drawn, lengths.max > 0 ? static_cast<double>(lengths.max) : profile_tokens_max);
    const auto events =
        static_cast<std::size_t>(std::max(1.0, std::round(drawn / static_cast<double>(item_tokens))));
    if (row.history.size() > events) row.history.erase(row.history.begin(), row.history.end() - events);
    std::vector<std::string> older(events - row.history.size());
    for (std::string& event : older) event = log[any_event(random)];
    row.history.insert(row.history.begin(), older.begin(), older.end());
  }
}

}  // namespace troupe::deploy
