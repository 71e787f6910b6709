#pragma once
// Adapter of one actor of a node: adds to the actor's status the reasons for which the node is degraded, such
// as a filling disk. They are known to the process and to no actor, and the status is all that other nodes
// see of it. Messages, jobs and other effects pass unchanged.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe::deploy {

// Returns the present reasons; may be called on any thread, and must not block.
using DegradedReasons = std::function<std::vector<std::string>()>;

class DegradedStatus final : public Core {
 public:
  DegradedStatus(std::unique_ptr<Core> core, DegradedReasons reasons)
      : core_(std::move(core)), reasons_(std::move(reasons)) {}

  void step(Instant now, Event&& event, Effects& effects) override {
    const std::size_t before = effects.list.size();
    core_->step(now, std::move(event), effects);
    for (std::size_t i = before; i < effects.list.size(); ++i)
      if (auto* send = std::get_if<Effects::Send>(&effects.list[i]))
        if (auto* status = std::get_if<StatusReply>(&send->message))
          for (std::string& reason : reasons_()) status->fields.push_back({"degraded", std::move(reason)});
  }

 private:
  const std::unique_ptr<Core> core_;
  const DegradedReasons reasons_;
};

}  // namespace troupe::deploy
