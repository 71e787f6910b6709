#pragma once
// The pages of the pool that the KV-cache worker lends for rows of embedding tables, and demands
// back. Free row slots in these pages are refilled with rows that passes did not ask for yet, at a
// lower priority than rows that passes miss.
#include <cstdint>
#include <vector>

#include "actors/inference/inference_config.h"
#include "actors/inference/refill_pace.h"
#include "actors/inference/task.h"
#include "runtime/actor/core.h"

namespace troupe::actors {

class LentPages {
 public:
  LentPages(const InferenceConfig& config, Serials& serials)
      : config_(config), serials_(serials), pace_(config.refill_bytes, config.heartbeat) {}

  void on_lend(LendPages& lend, Effects& effects);
  bool on_job_done(JobDone& done, Effects& effects);  // false: a different job
  // Counts the rows used since the last totals.
  void count(const RowTotals& now, Effects& effects);
  void refill(Instant now, Effects& effects);

  bool were_lent() const { return answer_.number > 0; }
  const RowTotals& totals() const { return counted_; }
  void report(Heartbeat& beat) const;

 private:
  void end_lend(JobResult& result, Effects& effects);
  Address kv_worker() const { return {config_.node, Role::kv_worker}; }

  const InferenceConfig& config_;
  Serials& serials_;
  PagesLent answer_;                 // answer to the latest LendPages
  std::vector<std::uint32_t> lent_;  // pages lent by that message
  Serial job_ = 0, refill_job_ = 0;  // running jobs; 0 = none
  RowTotals counted_;                // totals as of the last metrics update
  RefillPace pace_;
};

}  // namespace troupe::actors
