#pragma once
// A port that answers questions to the Coordination itself and hands every other job to the port behind it:
// what a router (profiles and catalog behind it) and a cache-meta (nothing behind it) are given.
#include <string>
#include <utility>

#include "runtime/actor/ports.h"
#include "runtime/coordination/members.h"

namespace troupe::deploy {

class CoordinatingPort final : public Port {
 public:
  // Both outlive it; `rest` may be null. `prefix`: of the keys of one model among several.
  CoordinatingPort(Coordination& coordination, Port* rest, std::string prefix = "")
      : coordination_(coordination), rest_(rest), prefix_(std::move(prefix)) {}

  JobResult run(const Job& job, std::uint32_t lane) override {
    if (const auto* question = std::get_if<Coordinate>(&job))
      return std::visit([](auto&& answer) -> JobResult { return std::move(answer); },
                        coordination_.ask(own(*question)));
    if (rest_) return rest_->run(job, lane);
    return Refusal{500, "unknown_job", "this port only asks the coordination", "coordination",
                   "a Coordinate job"};
  }
  // The Coordination is asked on a lane: it waits for a disk or for other processes.
  std::optional<JobResult> run_now(const Job& job) override {
    if (!rest_ || std::holds_alternative<Coordinate>(job)) return std::nullopt;
    return rest_->run_now(job);
  }

 private:
  Coordinate own(Coordinate question) const {
    std::visit(
        [this](auto& what) {
          if constexpr (requires { what.key; })
            if (what.key != members_key)
              what.key.insert(0, prefix_);  // the workers are the same for all models
        },
        question.what);
    return question;
  }

  Coordination& coordination_;
  Port* rest_;
  const std::string prefix_;
};

}  // namespace troupe::deploy
