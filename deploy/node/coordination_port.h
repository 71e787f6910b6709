#pragma once
// Port that runs Coordinate jobs itself and forwards all other jobs to another port. Routers use it
// in front of the feature store; cache-metas use it with no port behind it.
#include <string>
#include <utility>

#include "runtime/actor/ports.h"
#include "runtime/coordination/members.h"

namespace troupe::deploy {

class CoordinationPort final : public Port {
 public:
  // Both must outlive this port; `next` may be null. `prefix` is prepended to the keys, to separate
  // models.
  CoordinationPort(Coordination& coordination, Port* next, std::string prefix = "")
      : coordination_(coordination), next_(next), prefix_(std::move(prefix)) {}

  JobResult run(const Job& job, std::uint32_t slot) override {
    if (const auto* question = std::get_if<Coordinate>(&job))
      return std::visit([](auto&& answer) -> JobResult { return std::move(answer); },
                        coordination_.ask(own(*question)));
    if (next_) return next_->run(job, slot);
    return Refusal{RefusalKind::internal, "unknown_job", "this port only runs Coordinate jobs",
                   "coordination", "a Coordinate job"};
  }
  // Coordinate jobs always run on an executor: they wait for a disk or for other processes.
  std::optional<JobResult> run_now(const Job& job) override {
    if (!next_ || std::holds_alternative<Coordinate>(job)) return std::nullopt;
    return next_->run_now(job);
  }

 private:
  Coordinate own(Coordinate question) const {
    std::visit(
        [this](auto& what) {
          if constexpr (requires { what.key; })
            if (what.key != members_key) what.key.insert(0, prefix_);  // all models share the members' key
        },
        question.what);
    return question;
  }

  Coordination& coordination_;
  Port* next_;
  const std::string prefix_;
};

}  // namespace troupe::deploy
