#pragma once
// Which models an inference worker has, gets and gives up, as the cluster's versions say. The active model
// and the next one are loaded; a model that the versions no longer name takes plans for another `keep`
// (requests were pinned to it before) and is dropped when none of its plans is left. One change runs at a
// time; one that failed is tried again after a pause, which doubles each time. Pure bookkeeping: the core
// runs the changes.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe::actors {

class ModelSet {
 public:
  // `first` is loaded from the start, and active until versions are known. Of `models_max` (at least 2)
  // models, those that load or are kept included, two may be the active and the next one.
  // A change that failed is tried again after `first_pause`, then twice that, at most after `longest_pause`.
  ModelSet(std::string first, Duration keep, std::size_t models_max, Duration first_pause);
  static constexpr Duration longest_pause{10'000'000};

  // False, and nothing changes, unless they are newer than those that it follows.
  bool follow(Instant now, const Versions& versions);
  // A LoadModel or DropModel to be started now, if it is time for one. A model for which `needed` is true
  // stays.
  std::optional<Job> next_change(Instant now, const std::function<bool(const std::string&)>& needed);
  // The change that ran has ended. Returns its model.
  std::string end_change(Instant now, bool ok);
  // What the device said of the load that ended last. It matters if it is final and about the next model of
  // the versions that it was begun under, until newer versions are followed or the load succeeds after all.
  void note_refusal(const std::string& model, const Refusal& refusal);
  struct RefusedLoad {
    std::string model, why;
  };
  const std::optional<RefusedLoad>& refused_next() const { return refused_next_; }

  bool serves(Instant now, const std::string& model) const;  // it takes new plans
  bool has(const std::string& model) const { return models_.contains(model); }
  bool ready(Instant now) const { return serves(now, active()); }
  std::vector<std::string> served(Instant now) const;     // in order of version
  const std::string& newest() const;                      // that was loaded last
  const Versions& versions() const { return versions_; }  // that it follows
  std::size_t size() const { return models_.size(); }

 private:
  enum class State : std::uint8_t { loading, loaded, dropping };
  struct Model {
    State state = State::loading;
    std::uint64_t number = 0;          // of the load: the last one has the highest
    std::optional<Instant> kept_till;  // unless the versions name it
  };

  struct Rest {  // of a model whose last change failed
    Duration pause;
    Instant till;
  };

  static bool serves(Instant now, const Model& model);
  bool rests(Instant now, const std::string& model) const;
  void rest(Instant now, const std::string& model);
  const std::string& active() const { return versions_.model_version; }
  bool named(const std::string& model) const;
  std::optional<Job> next_drop(Instant now, const std::function<bool(const std::string&)>& needed);
  std::optional<Job> next_load(Instant now);

  Duration keep_, first_pause_;
  std::size_t models_max_;
  Versions versions_;
  std::map<std::string, Model> models_;
  std::optional<std::string> changing_;
  std::uint64_t load_epoch_ = 0;  // of the versions that the last load was begun under
  std::optional<RefusedLoad> refused_next_;
  std::map<std::string, Rest> rests_;  // of models that are here or named
  std::uint64_t loads_ = 0;
};

}  // namespace troupe::actors
