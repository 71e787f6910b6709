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
  void note(const ScoreRow& row) { scores_.insert(row.scores.begin(), row.scores.end()); }
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

 private:
  std::set<double> scores_;
};

}  // namespace troupe::sim
