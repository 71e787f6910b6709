// Decides which models an inference worker loads and drops when the cluster's served versions
// change. A dropped model first finishes the requests that were pinned to it; a failed load is
// tried again after a pause.
#include "actors/inference/model_set.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"

namespace troupe::actors {
namespace {

constexpr std::size_t why_bytes_max = 300;  // the text is part of every heartbeat

// Returns true if a retry would give the same answer: the model does not exist, or does not fit
// this device.
bool is_final(const Refusal& refusal) {
  return is_fault_of_request(refusal.kind) || refusal.kind == RefusalKind::unsupported;
}

}  // namespace

ModelSet::ModelSet(std::string first, Duration keep, std::size_t models_max, Duration first_pause)
    : keep_(keep), first_pause_(first_pause), models_max_(models_max) {
  TROUPE_CHECK(models_max >= 2, "models_max allows the active model and the next one");
  models_[first].state = State::loaded;
  versions_.model_version = std::move(first);
}

bool ModelSet::follow(Instant now, const Versions& versions) {
  if (versions.epoch <= versions_.epoch) return false;
  const std::string present = active();
  versions_ = versions;
  refused_next_.reset();
  if (versions_.model_version.empty()) versions_.model_version = present;
  for (auto& [name, model] : models_) {
    if (named(name)) {
      model.kept_till.reset();
    } else if (!model.kept_till) {
      model.kept_till = now + keep_;
    }
  }
  std::erase_if(back_offs_,
                [this](const auto& back_off) { return !named(back_off.first) && !has(back_off.first); });
  return true;
}

bool ModelSet::named(const std::string& model) const {
  return model == versions_.model_version || model == versions_.next_model;
}

std::optional<Job> ModelSet::next_change(Instant now, const std::function<bool(const std::string&)>& needed) {
  if (changing_) return std::nullopt;
  if (auto drop = next_drop(now, needed)) return drop;  // first, because it frees memory
  return next_load(now);
}

std::optional<Job> ModelSet::next_drop(Instant now, const std::function<bool(const std::string&)>& needed) {
  for (auto& [name, model] : models_) {
    if (serves(now, model) || is_in_back_off(now, name) || needed(name)) continue;
    model.state = State::dropping;
    changing_ = name;
    return DropModel{name};
  }
  return std::nullopt;
}

std::optional<Job> ModelSet::next_load(Instant now) {
  if (models_.size() >= models_max_) return std::nullopt;
  for (const std::string* name : {&active(), &std::as_const(versions_.next_model)}) {
    if (name->empty() || models_.contains(*name) || is_in_back_off(now, *name)) continue;
    models_.try_emplace(*name);
    changing_ = *name;
    load_epoch_ = versions_.epoch;
    return LoadModel{*name};
  }
  return std::nullopt;
}

std::string ModelSet::end_change(Instant now, bool ok) {
  TROUPE_CHECK(changing_.has_value(), "a change of models that ends was started");
  const std::string name = *changing_;
  changing_.reset();
  ok ? void(back_offs_.erase(name)) : back_off(now, name);
  Model& model = models_.at(name);
  const bool is_there = (model.state == State::loading) == ok;
  if (!is_there) {
    models_.erase(name);
    if (!named(name)) back_offs_.erase(name);
    return name;
  }
  model.state = State::loaded;
  if (refused_next_ && refused_next_->model == name) refused_next_.reset();
  if (!named(name) && !model.kept_till) model.kept_till = now + keep_;
  return name;
}

void ModelSet::note_refusal(const std::string& model, const Refusal& refusal) {
  const bool is_asked = load_epoch_ == versions_.epoch && model == versions_.next_model;
  if (!is_asked || has(model) || !is_final(refusal)) return;
  refused_next_ = RefusedLoad{model, refusal.what.substr(0, why_bytes_max)};
}

bool ModelSet::is_in_back_off(Instant now, const std::string& model) const {
  const auto at = back_offs_.find(model);
  return at != back_offs_.end() && now < at->second.till;
}

void ModelSet::back_off(Instant now, const std::string& model) {
  const auto [at, first] = back_offs_.try_emplace(model);
  const Duration twice{at->second.pause.us * 2};
  at->second.pause = std::min(first ? first_pause_ : twice, longest_pause);
  at->second.till = now + at->second.pause;
}

bool ModelSet::serves(Instant now, const Model& model) {
  return model.state == State::loaded && (!model.kept_till || now < *model.kept_till);
}

bool ModelSet::serves(Instant now, const std::string& model) const {
  const auto at = models_.find(model);
  return at != models_.end() && serves(now, at->second);
}

std::vector<std::string> ModelSet::served(Instant now) const {
  std::vector<std::string> names;
  for (const auto& [name, model] : models_)
    if (serves(now, model)) names.push_back(name);
  return names;
}

}  // namespace troupe::actors
