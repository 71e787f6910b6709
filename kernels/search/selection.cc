// Selects the best continuations of one beam-search level, with a heap of the best so far, and
// skips tokens that cannot win.
#include "kernels/search/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/check.h"

namespace troupe::kernels {
namespace {

bool is_barred(const Extensions& beam, std::size_t child) {
  return !beam.barred.empty() && std::binary_search(beam.barred.begin(), beam.barred.end(), child);
}

// The best candidates so far; once there are `width`, a heap with the worst at the front.
class BestSoFar {
 public:
  BestSoFar(std::uint32_t width, std::vector<Candidate>& kept) : width_(width), kept_(kept) {
    kept_.reserve(width);
    if (full()) std::make_heap(kept_.begin(), kept_.end(), better);
  }

  bool full() const { return kept_.size() == width_; }
  const Candidate& worst() const { return kept_.front(); }
  bool takes(const Candidate& candidate) const { return !full() || better(candidate, worst()); }

  void take(const Candidate& candidate) {
    if (full()) return replace_worst(candidate);
    kept_.push_back(candidate);
    if (full()) std::make_heap(kept_.begin(), kept_.end(), better);
  }

 private:
  void replace_worst(const Candidate& candidate) {
    std::size_t hole = 0;
    for (std::size_t child = 1; child < width_; child = 2 * hole + 1) {
      if (child + 1 < width_ && better(kept_[child], kept_[child + 1])) ++child;
      if (!better(candidate, kept_[child])) break;
      kept_[hole] = kept_[child];
      hole = child;
    }
    kept_[hole] = candidate;
  }

  std::size_t width_;
  std::vector<Candidate>& kept_;
};

// Returns a logit below which no child enters `best`, with a margin for the rounding of three
// additions.
float least_logit(const Extensions& beam, const BestSoFar& best) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
  if (!best.full()) return -infinity;
  const double worst = best.worst().value;
  const double rounding = 0x1p-49 * (std::abs(worst) + std::abs(beam.value) + std::abs(beam.log_total));
  const double least = worst - beam.value + beam.log_total - rounding;
  return std::nextafter(static_cast<float>(std::clamp<double>(least, -most, most)), -infinity);
}

// Returns true if one of `count` logits is not below `least`; NaN counts.
bool any_at_least(const float* logits, std::size_t count, float least) {
  int any = 0;
  for (std::size_t i = 0; i < count; ++i) any |= !(logits[i] < least);
  return any != 0;
}

constexpr std::size_t kBlockLogits = 64;

// Takes logits [from, to) of a beam. Returns false if a logit is not finite.
bool take_block(const Extensions& beam, std::size_t from, std::size_t to, BestSoFar& best, float& least) {
  for (std::size_t i = from; i < to; ++i) {
    if (beam.logits[i] < least) continue;
    if (!std::isfinite(beam.logits[i])) return false;
    const Candidate candidate{beam.value_of(i), candidate_key(beam.slot, beam.child(i))};
    if (!best.takes(candidate) || is_barred(beam, candidate.child())) continue;
    best.take(candidate);
    least = least_logit(beam, best);
  }
  return true;
}

bool take_children(const Extensions& beam, BestSoFar& best) {
  const std::size_t count = beam.logits.size();
  float least = least_logit(beam, best);
  std::size_t i = 0;
  for (; i + kBlockLogits <= count; i += kBlockLogits)
    if (any_at_least(&beam.logits[i], kBlockLogits, least) &&
        !take_block(beam, i, i + kBlockLogits, best, least))
      return false;
  return take_block(beam, i, count, best, least);
}

}  // namespace

double Extensions::value_of(std::size_t logit) const {
  return value + std::min(0.0, double{logits[logit]} - log_total);
}

bool select_by_full_sort(std::span<const Extensions> beams, std::uint32_t width,
                         std::vector<Candidate>& kept) {
  for (const Extensions& beam : beams)
    for (std::size_t i = 0; i < beam.logits.size(); ++i) {
      if (!std::isfinite(beam.logits[i])) return false;
      if (!is_barred(beam, beam.child(i)))
        kept.push_back({beam.value_of(i), candidate_key(beam.slot, beam.child(i))});
    }
  std::sort(kept.begin(), kept.end(), better);
  kept.resize(std::min<std::size_t>(kept.size(), width));
  return true;
}

bool select_best(std::span<const Extensions> beams, std::uint32_t width, std::vector<Candidate>& kept) {
  TROUPE_CHECK(width > 0 && kept.size() <= width,
               "selection: expected a width above 0, and at most `width` whole paths");
  BestSoFar best(width, kept);
  for (const Extensions& beam : beams) {
    if (!best.takes({beam.value, candidate_key(beam.slot, 0)})) return true;
    if (!take_children(beam, best)) return false;
  }
  return true;
}

}  // namespace troupe::kernels
