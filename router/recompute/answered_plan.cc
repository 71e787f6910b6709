// Copies what an answer was made of, makes the message that computes it again, and compares the two
// results.
#include "router/recompute/answered_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace troupe::router {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Collects the largest difference between pairs of values, and the largest value of the answer.
class Comparison {
 public:
  void add(double answered, double again) {
    const double difference = std::abs(answered - again);
    largest_ = std::isfinite(difference) ? std::max(largest_, difference) : infinity;
    if (std::isfinite(answered)) scale_ = std::max(scale_, std::abs(answered));
  }
  void add(std::span<const double> answered, std::span<const double> again) {
    if (answered.size() != again.size()) return differ_in_shape();
    for (std::size_t i = 0; i < answered.size(); ++i) add(answered[i], again[i]);
  }
  void differ_in_shape() { largest_ = infinity; }
  Difference result(double rounding) const { return {largest_, rounding * scale_}; }

 private:
  double largest_ = 0, scale_ = 1;
};

// Returns the beam of the same path if there is one, else that of the same rank. Two paths that are
// equally probable up to rounding may change places.
const Beam& counterpart(const AnsweredPlan& answered, const Executed& again, std::size_t rank) {
  const auto same = std::ranges::find(again.beams, answered.beams[rank].path, &Beam::path);
  return same != again.beams.end() ? *same : again.beams[rank];
}

}  // namespace

AnsweredPlan answered_plan(const Flight& flight, NodeId node, const Executed& executed) {
  const Candidate& sent = flight.plans.front().candidate;
  const Request& request = *flight.request;
  return {.request_id = request_id_of(request),
          .trace = request.trace(),
          .tenant = std::string(request.tenant()),
          .user = std::string(request.named_user()),
          .kind = request.kind(),
          .plan_name = sent.name,
          .plan = sent.plan,
          .model_version = flight.pinned.model_version,
          .catalog_version = request.catalog_version(),
          .profile_version = request.profile_version(),
          .rows = executed.readouts,
          .beams = executed.beams,
          .node = node,
          .blocks_reused = static_cast<std::uint32_t>(
              std::ranges::count_if(executed.reused, [](std::uint8_t reused) { return reused != 0; }))};
}

// Blocks without names are neither looked up nor kept. The message carries no trace, because this
// work is no part of the client's request.
Execute recompute(const AnsweredPlan& answered, RequestId id, Duration budget) {
  return {.id = id,
          .priority = Priority::background,
          .budget_us = budget.us,
          .plan = answered.plan,
          .blocks = std::vector<SegmentBlock>(answered.plan.segments.size()),
          .model_version = answered.model_version,
          .catalog_version = answered.catalog_version};
}

Difference compare(const AnsweredPlan& answered, const Executed& again, double rounding) {
  Comparison comparison;
  if (answered.rows.size() == again.readouts.size() && answered.beams.size() == again.beams.size()) {
    for (std::size_t i = 0; i < answered.rows.size(); ++i)
      comparison.add(answered.rows[i].scores, again.readouts[i].scores);
    for (std::size_t rank = 0; rank < answered.beams.size(); ++rank) {
      const Beam& beam = answered.beams[rank];
      const Beam& other = counterpart(answered, again, rank);
      comparison.add(beam.log_probability, other.log_probability);
      if (beam.path == other.path) comparison.add(beam.by_token, other.by_token);
    }
  } else {
    comparison.differ_in_shape();
  }
  return comparison.result(rounding);
}

}  // namespace troupe::router
