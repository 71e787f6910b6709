#pragma once
// Simulated feature store of a router. Serves profiles and items of the WorldData after a drawn latency,
// and requests to the coordination store. All routers share one world, so a write is visible to all later
// reads. Jobs read and write at their end. Requests that allow it are answered from earlier reads, by the
// decisions of CachedFeatures (runtime/features/expiring_profiles.h). A refresh behind an answer arrives
// after another such latency.
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
  bool failing = false;  // jobs end with a refusal and write nothing
  // Share of users whose rows hold something else: they are refused, other users are not.
  double unreadable = 0;
  Instant hung_until;  // jobs that begin earlier end after this time
};

struct FeatureOptions {
  NodeId node = 0;
  std::uint64_t seed = 1;
  std::string model_version;  // model of the block names if the job names none
  std::string own_keys;       // key prefix in the coordination store, used by one model among several
  Duration latency_min{100}, latency_max{1'000};
  ExpiryOptions expiry;          // of profiles, for requests that accept older ones
  std::function<Instant()> now;  // virtual time
};

class SimFeaturePort final : public SimPort {
 public:
  // All references must outlive the port.
  SimFeaturePort(FeatureOptions options, WorldData& world, WorldCatalogs& catalogs,
                 SimCoordination& coordination, const FeatureFaults& faults);

  std::optional<Duration> begin(Instant now, const Job& job, std::uint32_t slot) override;
  JobResult run(const Job& job, std::uint32_t slot) override;

 private:
  // Refresh that was requested behind an answer.
  struct PendingRefresh {
    std::string tenant, user;
    Instant ready;
  };
  Coordinate own(Coordinate question) const;
  Duration latency(Instant now);
  bool is_unreadable(const std::string& key) const;
  ProfilePointer profile_of(const std::string& tenant, const std::string& user) const;
  FeatureLimits limits() const;
  JobResult find(const FindFeatures& wanted, ProfilePointer user, Features::Source of) const;
  std::optional<JobResult> find_known(const FindFeatures& wanted);
  void store_refreshes(Instant now);

  FeatureOptions options_;
  ExpiringProfiles profiles_{options_.expiry};
  std::map<std::string, PendingRefresh> refreshes_;
  WorldData& world_;
  WorldCatalogs& catalogs_;
  SimCoordination& coordination_;
  const FeatureFaults& faults_;
  RandomStream random_;
};

// Port of a core that only uses the coordination store: a cache-meta.
class CoordinationPort final : public SimPort {
 public:
  CoordinationPort(NodeId node, SimCoordination& coordination, std::function<Instant()> now)
      : node_(node), coordination_(coordination), now_(std::move(now)) {}

  std::optional<Duration> begin(Instant now, const Job& job, std::uint32_t slot) override;
  JobResult run(const Job& job, std::uint32_t slot) override;

 private:
  NodeId node_;
  SimCoordination& coordination_;
  std::function<Instant()> now_;
};

}  // namespace troupe::sim
