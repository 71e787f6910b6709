#pragma once
// Loads and drops models as the cluster's versions require (model_set.h), one change at a time, as
// jobs of the device.
#include <functional>
#include <string>

#include "actors/inference/model_set.h"
#include "actors/inference/task.h"
#include "runtime/actor/core.h"

namespace troupe::actors {

class ModelChanges {
 public:
  ModelChanges(ModelSet models, Serials& serials) : models_(std::move(models)), serials_(serials) {}

  const ModelSet& models() const { return models_; }
  void follow(Instant now, const Versions& versions) { models_.follow(now, versions); }
  // Starts a change if one is due. A model for which `needed` is true is not dropped.
  void start_next(Instant now, const std::function<bool(const std::string&)>& needed, Effects& effects);
  bool on_job_done(Instant now, const JobDone& done, Effects& effects);  // false: a different job

 private:
  ModelSet models_;
  Serials& serials_;
  Serial job_ = 0;              // running change; 0 = none
  std::string logged_refusal_;  // as last logged
};

}  // namespace troupe::actors
