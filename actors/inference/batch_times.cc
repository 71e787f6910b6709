// Estimates the times of batches from their work and from the measured times of earlier batches.
#include "actors/inference/batch_times.h"

#include <algorithm>
#include <cmath>

namespace troupe::actors {

void WaitingPlans::add(const placement::Pass& more) {
  ++plans;
  pass += more;
}

void WaitingPlans::remove(const placement::Pass& less) {
  --plans;
  pass -= less;
}

void BatchTimes::measure(const placement::Pass& pass, std::int64_t batch_us) {
  constexpr double kept = 7.0 / 8;
  const double nominal_us = config_.nominal_pace.us(work_of(pass));
  if (nominal_us <= 0) return;
  measured_us_ = kept * measured_us_ + static_cast<double>(batch_us);
  nominal_us_ = kept * nominal_us_ + nominal_us;
}

double BatchTimes::slot_us(const placement::Work& work) const {
  return config_.nominal_pace.us(work) * slowness();
}

bool BatchTimes::ends_in_time(Instant now, const placement::Pass& pass, Instant deadline) const {
  return slot_us(pass) < static_cast<double>((deadline - now).us);
}

double BatchTimes::saved_us(double tokens, double seen) const {
  const double computed_us = config_.nominal_pace.us(config_.costs.computed(tokens, seen));
  const double saved_us = computed_us - config_.nominal_pace.us(config_.costs.reused(tokens));
  return std::max(saved_us, 0.0) * (slowness() > 0 ? slowness() : 1);
}

placement::Work BatchTimes::work_of(const WaitingPlans& waiting) const {
  if (waiting.plans == 0) return {};
  placement::Work work = work_of(waiting.pass);
  const double most = config_.costs.token_operations * config_.batch_tokens_max;
  const double batches =
      std::max(work.operations / most, double(waiting.plans) / std::max(config_.batch_requests_max, 1U));
  return work + config_.costs.passes(std::max(0.0, std::ceil(batches) - 1));
}

double BatchTimes::batches_of(const placement::Work& work) const {
  return work.operations / (config_.costs.token_operations * config_.batch_tokens_max);
}

placement::Pace BatchTimes::pace() const { return config_.nominal_pace * slowness(); }

}  // namespace troupe::actors
