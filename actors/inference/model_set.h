#pragma once
// Which models an inference worker has, gets and gives up, as the cluster's versions say. The active model
// and the next one are loaded; a model that the versions no longer name takes plans for another `keep`
// (requests were pinned to it before) and is dropped when none of its plans is left. One change runs at a
// time; after one that failed the set rests until `retry`. Pure bookkeeping: the core runs the changes.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/core.h"

namespace troupe::actors {

class ModelSet {
 public:
  // `first` is loaded from the start, and active until versions are known. Of `models_max` (at least 2)
  // models, those that load or are kept included, two may be the active and the next one.
  ModelSet(std::string first, Duration keep, std::size_t models_max);

  // False, and nothing changes, unless they are newer than those that it follows.
  bool follow(Instant now, const Versions& versions);
  // A LoadModel or DropModel to be started now, if it is time for one. A model for which `needed` is true
  // stays.
  std::optional<Job> next_change(Instant now, const std::function<bool(const std::string&)>& needed);
  // The change that ran has ended. Returns its model.
  std::string end_change(Instant now, bool ok);
  void retry() { resting_ = false; }

  bool serves(Instant now, const std::string& model) const;  // it takes new plans
  bool has(const std::string& model) const { return models_.contains(model); }
  bool ready(Instant now) const { return serves(now, active()); }
  std::vector<std::string> served(Instant now) const;  // in order of version
  const std::string& newest() const;                   // that was loaded last
  std::uint64_t epoch() const { return versions_.epoch; }
  std::size_t size() const { return models_.size(); }

 private:
  enum class State : std::uint8_t { loading, loaded, dropping };
  struct Model {
    State state = State::loading;
    std::uint64_t number = 0;          // of the load: the last one has the highest
    std::optional<Instant> kept_till;  // unless the versions name it
  };

  static bool serves(Instant now, const Model& model);
  const std::string& active() const { return versions_.model_version; }
  bool named(const std::string& model) const;
  std::optional<Job> next_drop(Instant now, const std::function<bool(const std::string&)>& needed);
  std::optional<Job> next_load();

  Duration keep_;
  std::size_t models_max_;
  Versions versions_;
  std::map<std::string, Model> models_;
  std::optional<std::string> changing_;
  bool resting_ = false;
  std::string failed_;  // model of the last change, if that failed
  std::uint64_t loads_ = 0;
};

}  // namespace troupe::actors
