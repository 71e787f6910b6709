#pragma once
// The simulated feature store of a router: profiles and items out of the WorldData after a drawn latency, and
// the questions to the Coordination. All routers share one world: what one writes, all read from then on.
// Jobs read and write at their end.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "runtime/host/sim_host.h"
#include "sim/world/sim_coordination.h"
#include "sim/world/world_data.h"

namespace troupe::sim {

struct FeatureFaults {
  double slowness = 1;
  bool failing = false;  // jobs end in refusals 503, nothing is written
  Instant hung_until;    // jobs that begin before end after it
};

// Names of item blocks under a model, each computed once: hashing is the dearest thing here. Shared by all
// routers.
class ItemNames {
 public:
  using NameItem = std::function<BlockName(const std::string& model_version, std::span<const Token> tokens)>;
  ItemNames(NameItem name_item, std::size_t names_max)
      : name_item_(std::move(name_item)), names_max_(names_max) {}

  BlockName name(const std::string& model_version, std::uint64_t model_key, std::span<const Token> tokens);
  std::size_t size() const { return names_.size(); }

 private:
  NameItem name_item_;
  std::size_t names_max_;                               // more make it start again
  std::unordered_map<std::uint64_t, BlockName> names_;  // by hash of model and tokens; never iterated
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
  FeaturePort(FeatureOptions options, WorldData& world, ItemNames& names, SimCoordination& coordination,
              const FeatureFaults& faults);

  std::optional<Duration> begin(Instant now, const Job& job, std::uint32_t lane) override;
  JobResult run(const Job& job, std::uint32_t lane) override;

 private:
  JobResult find(const FindFeatures& wanted);
  JobResult list(const ListItems& wanted);
  void name(Item& item, const std::string& model_version, std::uint64_t model_key);

  FeatureOptions options_;
  WorldData& world_;
  ItemNames& names_;
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
