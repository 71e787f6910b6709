#pragma once
// The best rows of a table for one state, of those offered so far: a bounded heap. A higher score
// is better, and among equals the lower row. So the result does not depend on the order in which
// rows are offered, nor on how they are shared between threads.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/base/tokens.h"

namespace troupe::kernels {

struct ScoredRow {
  float score = 0;
  Token row = 0;
  bool operator==(const ScoredRow&) const = default;
};
inline bool ranks_before(const ScoredRow& a, const ScoredRow& b) {
  return a.score != b.score ? a.score > b.score : a.row < b.row;
}

class BestRows {
 public:
  // Forgets all rows and keeps at most `most` (above 0) from now on. `barred` (ascending) are never
  // kept; they must outlive the offers. Memory stays allocated.
  void begin(std::size_t most, std::span<const Token> barred);

  // Offers consecutive rows from `first` on. A score that is NaN is never kept.
  void offer(std::span<const float> scores, Token first);
  // Offers rows[i] with scores[i].
  void offer(std::span<const float> scores, std::span<const Token> rows);
  void offer(const BestRows& other);  // all rows that `other` kept

  std::size_t size() const { return kept_.size(); }
  void finish(std::vector<ScoredRow>& out) const;  // best first

 private:
  void take(ScoredRow row);
  void replace_worst(const ScoredRow& row);
  bool is_barred(Token row) const;

  std::size_t most_ = 0;
  // Score below which no row is kept; an equal score may be, for a lower row.
  float least_ = -std::numeric_limits<float>::infinity();
  std::span<const Token> barred_;
  std::vector<ScoredRow> kept_;  // once there are `most_`: a heap with the worst at the front
};

}  // namespace troupe::kernels
