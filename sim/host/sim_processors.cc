// Divides the processors of a simulated node between short actor steps and long computing jobs, and
// says when each ends.
#include "sim/host/sim_processors.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.h"

namespace troupe {
namespace {

constexpr double nothing_us = 1e-6;  // rounding error of summed times

}  // namespace

SimProcessors::SimProcessors(std::uint32_t count) : steps_until_(count) {
  TROUPE_CHECK(count > 0, "a node must have at least one processor");
}

// Returns the speed of a job that has several processors: only one does the serial part (Amdahl's law).
double SimProcessors::speed(const Running& job) const {
  const double share = static_cast<double>(steps_until_.size()) / static_cast<double>(jobs_.size());
  if (share <= 1) return share;
  return 1 / (1 - job.shared + job.shared / share);
}

void SimProcessors::advance(Instant now) {
  const double passed_us = static_cast<double>((now - now_).us);
  now_ = std::max(now_, now);
  if (passed_us <= 0) return;
  for (auto& [id, job] : jobs_) job.left_us = std::max(0.0, job.left_us - passed_us * speed(job));
}

Instant SimProcessors::step(Instant now, Duration takes) {
  advance(now);
  const auto processor = std::ranges::min_element(steps_until_);
  const Instant begins = std::max(now, *processor);
  *processor = begins + takes;
  const auto stepping = static_cast<std::size_t>(
      std::ranges::count_if(steps_until_, [&](Instant until) { return until > begins; }));
  if (stepping + jobs_.size() > steps_until_.size()) take_from_a_job(takes);
  return *processor;
}

// Takes the time from the job that has lost the least so far.
void SimProcessors::take_from_a_job(Duration takes) {
  if (jobs_.empty()) return;
  Running& job =
      std::ranges::min_element(jobs_, {}, [](const auto& entry) { return entry.second.lost_us; })->second;
  const auto us = static_cast<double>(takes.us);
  job.lost_us += us;
  // With less than one processor's share the other jobs' progress continues.
  job.left_us += us * std::max(1.0, speed(job));
}

SimProcessors::Job SimProcessors::begin(Instant now, Duration takes, double shared) {
  advance(now);
  jobs_[++last_] = {static_cast<double>(takes.us), std::clamp(shared, 0.0, 1.0)};
  return last_;
}

Instant SimProcessors::end_of(Job job) const {
  const Running& running = jobs_.at(job);
  return now_ + Duration{static_cast<std::int64_t>(std::ceil(running.left_us / speed(running) - nothing_us))};
}

bool SimProcessors::end(Instant now, Job job) {
  advance(now);
  const auto at = jobs_.find(job);
  if (at->second.left_us > nothing_us) return false;
  jobs_.erase(at);
  return true;
}

}  // namespace troupe
