// Judges whether rankings under one arrangement are about as good as those under another.
#include "deploy/verify/interchange.h"

#include "kernels/base/check.h"

namespace troupe::deploy {

std::string_view name_of(Verdict verdict) {
  constexpr std::string_view names[] = {"not shown", "first", "as good", "worse"};
  return names[static_cast<std::size_t>(verdict)];
}

ArrangementQuality judge(const std::vector<double>& first, const std::vector<double>& other,
                         double tolerance) {
  TROUPE_CHECK(first.size() == other.size(), "both rank the same events");
  std::vector<double> changes;
  changes.reserve(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) changes.push_back(other[i] - first[i]);
  ArrangementQuality quality{mean_of(other), mean_of(changes)};
  const double allowed = tolerance * mean_of(first).value + quality.change.standard_error;
  if (first.size() >= events_needed)
    quality.verdict = quality.change.value >= -allowed ? Verdict::as_good : Verdict::worse;
  return quality;
}

ArrangementQuality judge_first(const std::vector<double>& first) {
  return {mean_of(first), {}, first.size() >= events_needed ? Verdict::first : Verdict::not_shown};
}

}  // namespace troupe::deploy
