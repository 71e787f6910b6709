#pragma once
// The simulated feature store of a router: profiles and items out of the WorldData after a drawn latency, and
// the questions to the Coordination. All routers share one world: what one writes, all read from then on.
// Jobs read and write at their end. Requests that allow it are answered from what the router has read before,
// by the decisions of CachedFeatures (runtime/features/expiring_profiles.h); what is asked for behind answers
// comes after another such latency.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "runtime/features/expiring_profiles.h"
#include "sim/host/sim_host.h"
#include "sim/ports/world_catalog.h"
#include "sim/world/sim_coordination.h"
#include "sim/world/world_data.h"

namespace troupe::sim {

struct FeatureFaults {
  double slowness = 1;
  bool failing = false;  // jobs end in refusals 503, nothing is written
  double unreadable =
      0;  // the share of users whose rows hold something else: they are refused, the others are not
  Instant hung_until;  // jobs that begin before end after it
};

struct FeatureOptions {
  NodeId node = 0;
  std::uint64_t seed = 1;
  std::string model_version;  // whose names items carry where the job names none
  std::string own_keys;       // before those of hard state, as a model among several has them
  Duration latency_min{100}, latency_max{1'000};
  ExpiryOptions expiry;          // of profiles, for requests that do not want them as they are in the store
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
  // What was asked for behind an answer.
  struct Asked {
    std::string tenant, user;
    Instant ready;
  };
  Coordinate own(Coordinate question) const;
  Duration latency(Instant now);
  bool is_unreadable(const std::string& key) const;
  ProfilePointer profile_of(const std::string& tenant, const std::string& user) const;
  JobResult find(const FindFeatures& wanted, ProfilePointer user, Features::Of of) const;
  std::optional<JobResult> find_known(const FindFeatures& wanted);
  void settle(Instant now);

  FeatureOptions options_;
  ExpiringProfiles profiles_{options_.expiry};
  std::map<std::string, Asked> asked_;
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
