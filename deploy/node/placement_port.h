#pragma once
// Port of a router whose pool.placement names a plan's file: reads the plan again when its file has
// changed. It forwards all other jobs to the next port. The file should be replaced in one step (rename).
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "deploy/node/item_placement.h"
#include "runtime/actor/ports.h"

namespace troupe::deploy {

class PlacementPort final : public Port {
 public:
  // Make it before the plan is read for the start: what changes after that is read again. `next` must
  // outlive this port.
  PlacementPort(PlanName plan, Port& next);

  JobResult run(const Job& job, std::uint32_t slot) override;
  // The file is read on an executor.
  std::optional<JobResult> run_now(const Job& job) override {
    return std::holds_alternative<ReadPlacement>(job) ? std::nullopt : next_.run_now(job);
  }

 private:
  struct Stamp {
    std::filesystem::file_time_type written;
    std::uintmax_t bytes = 0;
    bool operator==(const Stamp&) const = default;
  };
  std::optional<Stamp> stamp() const;  // nullopt = the file is not there
  PlacementRead read();

  const PlanName plan_;
  Port& next_;
  std::mutex mutex_;  // protects what follows
  std::optional<Stamp> seen_;
  // The plan before the last one is freed here at the next job, not by the router: it may be long.
  std::shared_ptr<const ListedItems> last_, before_;
};

}  // namespace troupe::deploy
