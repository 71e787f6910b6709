#pragma once
// Tracks which models an inference worker has, loads and drops, following the cluster's versions.
// The active model and the next one are loaded. A model that the versions no longer name still
// takes plans for the time `keep`, because requests were pinned to it before. It is dropped once
// that time is over and none of its plans is left. One change runs at a time. A failed change is
// tried again after a pause, which doubles each time. This is pure bookkeeping: the inference
// worker's core runs the changes.
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
  // `first` is loaded from the start, and active until versions are known. At most `models_max` (at
  // least 2) models exist at a time, including those that load or are kept. Two of them may be the
  // active and the next model. A failed change is tried again after `first_pause`, then after twice
  // that, at most after `longest_pause`.
  ModelSet(std::string first, Duration keep, std::size_t models_max, Duration first_pause);
  static constexpr Duration longest_pause{10'000'000};

  // Returns false, and changes nothing, unless `versions` are newer than those followed.
  bool follow(Instant now, const Versions& versions);
  // Returns a LoadModel or DropModel to start now, if one is due. A model for which `needed` is
  // true is not dropped.
  std::optional<Job> next_change(Instant now, const std::function<bool(const std::string&)>& needed);
  // Ends the running change. Returns its model.
  std::string end_change(Instant now, bool ok);
  // Notes the device's refusal of the load that ended last. The refusal is kept only if it is final
  // and concerns the next model of the versions under which the load began. It is kept until newer
  // versions are followed or the load succeeds after all.
  void note_refusal(const std::string& model, const Refusal& refusal);
  struct RefusedLoad {
    std::string model, why;
  };
  const std::optional<RefusedLoad>& refused_next() const { return refused_next_; }

  bool serves(Instant now, const std::string& model) const;  // true if it takes new plans
  bool has(const std::string& model) const { return models_.contains(model); }
  bool ready(Instant now) const { return serves(now, active()); }
  std::vector<std::string> served(Instant now) const;     // in order of version
  const Versions& versions() const { return versions_; }  // currently followed
  std::size_t size() const { return models_.size(); }

 private:
  enum class State : std::uint8_t { loading, loaded, dropping };
  struct Model {
    State state = State::loading;
    std::optional<Instant> kept_till;  // unset while the versions name it
  };

  struct BackOff {  // back-off of a model whose last change failed
    Duration pause;
    Instant till;
  };

  static bool serves(Instant now, const Model& model);
  bool is_in_back_off(Instant now, const std::string& model) const;
  void back_off(Instant now, const std::string& model);
  const std::string& active() const { return versions_.model_version; }
  bool named(const std::string& model) const;
  std::optional<Job> next_drop(Instant now, const std::function<bool(const std::string&)>& needed);
  std::optional<Job> next_load(Instant now);

  Duration keep_, first_pause_;
  std::size_t models_max_;
  Versions versions_;
  std::map<std::string, Model> models_;
  std::optional<std::string> changing_;
  std::uint64_t load_epoch_ = 0;  // epoch under which the last load began
  std::optional<RefusedLoad> refused_next_;
  std::map<std::string, BackOff> back_offs_;  // of loaded or named models
};

}  // namespace troupe::actors
