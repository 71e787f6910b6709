#pragma once
// Scores computed from pages with flipped bits that nobody had found yet. Promise 2 allows such answers for
// as long as the scrubber needs. A logit of the toy model depends on every bit that it was computed from. A
// wrong answer whose scores are all recorded here therefore has no other cause.
#include <cstdint>
#include <set>

#include "runtime/actor/messages.h"

namespace troupe::sim {

class CorruptedAnswers {
 public:
  // A score behind a candidate is the difference of a row's two logits.
  void note(const ScoreRow& row) {
    scores_.insert(row.scores.begin(), row.scores.end());
    if (row.scores.size() == 2) scores_.insert(row.scores[0] - row.scores[1]);
  }
  void note(const std::vector<Beam>& beams) {
    for (const Beam& beam : beams) scores_.insert(beam.log_probability);
  }
  bool explain(const GenerateReply& reply) const {
    for (const GeneratedItem& item : reply.items)
      if (!scores_.contains(item.log_probability)) return false;
    return !reply.items.empty();
  }
  bool explain(const RankReply& reply) const {
    for (const RankedItem& item : reply.items)
      if (!scores_.contains(item.score)) return false;
    return !reply.items.empty();
  }

  bool empty() const { return scores_.empty(); }

 private:
  std::set<double> scores_;
};

}  // namespace troupe::sim
