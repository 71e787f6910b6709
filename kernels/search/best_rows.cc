// Keeps the best of many scored rows. Blocks of scores are compared with the least score that could
// enter; only blocks that have one touch the heap.
#include "kernels/search/best_rows.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace troupe::kernels {
namespace {

constexpr std::size_t block_scores = 64;

bool any_reaches(const float* scores, std::size_t count, float least) {
  int any = 0;
  for (std::size_t i = 0; i < count; ++i) any |= scores[i] >= least;
  return any != 0;
}

// Calls take(i) for every score that reaches `least`, which take() may raise.
template <class Take>
void for_each_reaching(std::span<const float> scores, const float& least, Take&& take) {
  for (std::size_t begin = 0; begin < scores.size(); begin += block_scores) {
    const std::size_t count = std::min(block_scores, scores.size() - begin);
    if (!any_reaches(&scores[begin], count, least)) continue;
    for (std::size_t i = begin; i < begin + count; ++i)
      if (scores[i] >= least) take(i);
  }
}

}  // namespace

void BestRows::begin(std::size_t most, std::span<const Token> barred) {
  TROUPE_CHECK(most > 0, "best rows: expected at least one row to keep");
  most_ = most;
  barred_ = barred;
  least_ = -std::numeric_limits<float>::infinity();
  kept_.clear();
  kept_.reserve(most);
}

void BestRows::offer(std::span<const float> scores, Token first) {
  for_each_reaching(scores, least_, [&](std::size_t i) { take({scores[i], first + static_cast<Token>(i)}); });
}

void BestRows::offer(std::span<const float> scores, std::span<const Token> rows) {
  TROUPE_CHECK(scores.size() == rows.size(), "best rows: expected one score per row");
  for_each_reaching(scores, least_, [&](std::size_t i) { take({scores[i], rows[i]}); });
}

void BestRows::offer(const BestRows& other) {
  for (const ScoredRow& row : other.kept_)
    if (row.score >= least_) take(row);
}

bool BestRows::is_barred(Token row) const { return std::ranges::binary_search(barred_, row); }

void BestRows::take(ScoredRow row) {
  const bool full = kept_.size() == most_;
  if ((full && !ranks_before(row, kept_.front())) || is_barred(row.row)) return;
  if (full) {
    replace_worst(row);
  } else {
    kept_.push_back(row);
    if (kept_.size() < most_) return;
    std::ranges::make_heap(kept_, ranks_before);
  }
  least_ = kept_.front().score;
}

void BestRows::replace_worst(const ScoredRow& row) {
  std::size_t hole = 0;
  for (std::size_t child = 1; child < most_; child = 2 * hole + 1) {
    if (child + 1 < most_ && ranks_before(kept_[child], kept_[child + 1])) ++child;
    if (!ranks_before(row, kept_[child])) break;
    kept_[hole] = kept_[child];
    hole = child;
  }
  kept_[hole] = row;
}

void BestRows::finish(std::vector<ScoredRow>& out) const {
  out = kept_;
  std::ranges::sort(out, ranks_before);
}

}  // namespace troupe::kernels
