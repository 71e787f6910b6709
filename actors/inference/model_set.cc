#include "actors/inference/model_set.h"

#include <algorithm>

#include "kernels/check.h"

namespace troupe::actors {

ModelSet::ModelSet(std::string first, Duration keep, std::size_t models_max)
    : keep_(keep), models_max_(models_max) {
  TROUPE_CHECK(models_max >= 2, "there is room for the active model and the next one");
  models_[first].state = State::loaded;
  versions_.model_version = std::move(first);
}

bool ModelSet::follow(Instant now, const Versions& versions) {
  if (versions.epoch <= versions_.epoch) return false;
  const std::string present = active();
  versions_ = versions;
  if (versions_.model_version.empty()) versions_.model_version = present;
  for (auto& [name, model] : models_) {
    if (named(name)) {
      model.kept_till.reset();
    } else if (!model.kept_till) {
      model.kept_till = now + keep_;
    }
  }
  return true;
}

bool ModelSet::named(const std::string& model) const {
  return model == versions_.model_version || model == versions_.next_model;
}

std::optional<Job> ModelSet::next_change(Instant now, const std::function<bool(const std::string&)>& needed) {
  if (changing_ || resting_) return std::nullopt;
  if (auto drop = next_drop(now, needed)) return drop;  // first: it makes room
  return next_load();
}

std::optional<Job> ModelSet::next_drop(Instant now, const std::function<bool(const std::string&)>& needed) {
  for (auto& [name, model] : models_) {
    if (serves(now, model) || needed(name)) continue;
    model.state = State::dropping;
    changing_ = name;
    return DropModel{name};
  }
  return std::nullopt;
}

std::optional<Job> ModelSet::next_load() {
  if (models_.size() >= models_max_) return std::nullopt;
  const bool active_last = failed_ == active();  // one that cannot be loaded does not hold up the other
  const std::string first = active_last ? versions_.next_model : active();
  const std::string second = active_last ? active() : versions_.next_model;
  for (const std::string& name : {first, second}) {
    if (name.empty() || models_.contains(name)) continue;
    models_[name].number = ++loads_;
    changing_ = name;
    return LoadModel{name};
  }
  return std::nullopt;
}

std::string ModelSet::end_change(Instant now, bool ok) {
  TROUPE_CHECK(changing_.has_value(), "a change of models that ends was started");
  const std::string name = *changing_;
  changing_.reset();
  resting_ = !ok;
  failed_ = ok ? "" : name;
  Model& model = models_.at(name);
  const bool is_there = (model.state == State::loading) == ok;
  if (!is_there) {
    models_.erase(name);
    return name;
  }
  model.state = State::loaded;
  if (!named(name) && !model.kept_till) model.kept_till = now + keep_;
  return name;
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

const std::string& ModelSet::newest() const {
  const std::string* newest = &active();
  std::uint64_t number = 0;
  for (const auto& [name, model] : models_) {
    if (model.state != State::loaded || model.number < number) continue;
    newest = &name;
    number = model.number;
  }
  return *newest;
}

}  // namespace troupe::actors
