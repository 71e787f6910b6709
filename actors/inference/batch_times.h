#pragma once
// Estimates how long batches take on this worker's device. The models' costs and the device's
// nominal pace say how the times of operations, bytes and passes relate; the actual speed is
// measured as a factor of it.
#include <cstdint>

#include "actors/inference/inference_config.h"
#include "placement/cost/work.h"

namespace troupe::actors {

// Sum over plans that do not run yet.
struct WaitingPlans {
  std::uint32_t plans = 0;
  placement::Pass pass;

  void add(const placement::Pass& more);
  void remove(const placement::Pass& less);
};

class BatchTimes {
 public:
  explicit BatchTimes(const InferenceConfig& config) : config_(config) {}

  // Measures a batch that computed `pass` and kept its slot busy for `batch_us`.
  void measure(const placement::Pass& pass, std::int64_t batch_us);

  double slot_us(const placement::Work& work) const;  // 0 if nothing has been computed yet
  double slot_us(const placement::Pass& pass) const { return slot_us(work_of(pass)); }
  // Returns true if the pass would end before the deadline if it began now.
  bool ends_in_time(Instant now, const placement::Pass& pass, Instant deadline) const;
  // Returns what reusing a block saves: computing its tokens, which see `seen` tokens, less reading
  // it. Before anything was computed, the nominal pace is used.
  double saved_us(double tokens, double seen) const;

  placement::Work work_of(const placement::Pass& pass) const { return config_.costs.of(pass); }
  // Returns the work of waiting plans, in as many batches as the bounds require.
  placement::Work work_of(const WaitingPlans& waiting) const;
  double batches_of(const placement::Work& work) const;  // in units of full batches
  bool fits_batch(const placement::Pass& pass) const { return batches_of(work_of(pass)) <= 1; }
  placement::Pace pace() const;  // as measured; unknown if nothing has been computed yet

 private:
  double slowness() const { return nominal_us_ > 0 ? measured_us_ / nominal_us_ : 0; }

  const InferenceConfig& config_;
  // Slot time of ended batches, as measured and by the nominal pace; older batches count for less
  // and less.
  double measured_us_ = 0, nominal_us_ = 0;
};

}  // namespace troupe::actors
