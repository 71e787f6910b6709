// Runs the changes of models that the model set decides, and logs their results.
#include "actors/inference/model_changes.h"

#include <utility>

namespace troupe::actors {

void ModelChanges::start_next(Instant now, const std::function<bool(const std::string&)>& needed,
                              Effects& effects) {
  auto change = models_.next_change(now, needed);
  if (!change) return;
  job_ = serials_.next();
  effects.start(job_, std::move(*change));
}

bool ModelChanges::on_job_done(Instant now, const JobDone& done, Effects& effects) {
  if (done.job != job_) return false;
  job_ = 0;
  const auto* refusal = std::get_if<Refusal>(&done.result);
  const std::string model = models_.end_change(now, refusal == nullptr);
  if (!refusal) {
    logged_refusal_.clear();
    effects.log(LogLevel::info, models_.has(model) ? "model_loaded" : "model_dropped", {{"model", model}});
    return true;
  }
  models_.note_refusal(model, *refusal);
  std::string text = model + ": " + refusal->what;
  if (text == logged_refusal_) return true;  // retries are ever rarer, and log nothing new
  logged_refusal_ = std::move(text);
  effects.log(
      LogLevel::warning, "model_change_failed",
      {{"model", model}, {"code", refusal->code}, {"what", refusal->what}, {"expected", refusal->expected}});
  return true;
}

}  // namespace troupe::actors
