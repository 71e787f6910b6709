#pragma once
// The verdict whether an arrangement may serve in place of the form's first one: it may if its rankings of
// held-out events are about as good.
#include <cstddef>
#include <string_view>
#include <vector>

#include "deploy/reports/ranking_quality.h"

namespace troupe::deploy {

// Fewer events show nothing: their standard error alone would excuse a difference that users notice.
inline constexpr std::size_t events_needed = 100;

enum class Verdict : std::uint8_t {
  not_shown,  // too few events
  first,      // the arrangement that the others are compared with
  as_good,    // may be listed as interchangeable
  worse
};
std::string_view name_of(Verdict verdict);  // "as good"

struct ArrangementQuality {
  Mean ndcg;    // NDCG@10 over the events
  Mean change;  // from the first arrangement, paired by event
  Verdict verdict = Verdict::not_shown;
};

// Judges an arrangement by the NDCG@10 of each event. It is as good as the first one unless its mean is
// lower by more than `tolerance` of the first one's mean plus one standard error of the paired change.
ArrangementQuality judge(const std::vector<double>& first, const std::vector<double>& other,
                         double tolerance);
ArrangementQuality judge_first(const std::vector<double>& first);

}  // namespace troupe::deploy
