#pragma once
// The simulated feature store of a router: profiles and items out of the WorldData after a drawn latency, and
// the questions to the Coordination. All routers share one world: what one writes, all read from then on.
// Jobs read and write at their end.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "runtime/host/sim_host.h"
#include "sim/ports/world_catalog.h"
#include "sim/world/sim_coordination.h"
#include "sim/world/world_data.h"

namespace troupe::sim {

struct FeatureFaults {
  double slowness = 1;
  bool failing = false;  // jobs end in refusals 503, nothing is written
  Instant hung_until;    // jobs that begin before end after it
};

struct FeatureOptions {
  NodeId node = 0;
  std::uint64_t seed = 1;
  std::string model_version;  // whose names items carry where the job names none
  Duration latency_min{100}, latency_max{1'000};
  std::function<Instant()> now;  // virtual time
};

class FeaturePort final : public SimPort {
 public:
  // All references outlive the port.
  FeaturePort(FeatureOptions options, WorldData& world, WorldCatalogs& catalogs,
              SimCoordination& coordination, const FeatureFaults& faults);

  std::optional<Duration> begin(Instant now, const Job& job, std::uint32_t lane) override;
  JobResult run(const Job& job, std::uint32_t lane) override;

 private:
  JobResult find(const FindFeatures& wanted);

  FeatureOptions options_;
  WorldData& world_;
  WorldCatalogs& catalogs_;
  SimCoordination& coordination_;
  const FeatureFaults& faults_;
  SimRandom random_;
};

// The port of a core that only asks the Coordination: a cache-meta.
class CoordinationPort final : public SimPort {
 public:
  CoordinationPort(NodeId node, SimCoordination& coordination, std::function<Instant()> now)
      : node_(node), coordination_(coordination), now_(std::move(now)) {}

  std::optional<Duration> begin(Instant now, const Job& job, std::uint32_t lane) override;
  JobResult run(const Job& job, std::uint32_t lane) override;

 private:
  NodeId node_;
  SimCoordination& coordination_;
  std::function<Instant()> now_;
};

}  // namespace troupe::sim
