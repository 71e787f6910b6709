#pragma once
// Chooses the versions that a new request is pinned to (promise 4). If two models share the users,
// the next model gets the users whose position is below its share (share_position in
// fingerprint.h). It gets none before every live worker has had it: the first such worker would
// get the whole share.
#include <string>
#include <string_view>

#include "router/fleet/versions.h"
#include "router/fleet/worker_table.h"

namespace troupe::router {

// Snapshot that a request sees from its admission to its answer.
struct PinnedVersions {
  std::string model_version, catalog_version;
  bool operator==(const PinnedVersions&) const = default;
};

class ModelShare {
 public:
  // The two belong to the router and must outlive this object.
  ModelShare(const VersionKeeper& versions, const WorkerTable& workers)
      : versions_(versions), workers_(workers) {}

  // Returns the versions for a new request of the user with hash `home`. While no worker has the
  // next model, the current model answers its users. `model`: the one that the request names, which
  // is pinned if it is served; "" = any.
  PinnedVersions pin(Instant now, std::string_view model, std::uint64_t home) const;
  // Returns true if requests pinned to these versions may continue.
  bool is_present(const PinnedVersions& pinned) const;
  // Returns true unless a next model still waits for its share of the users.
  bool is_settled() const;
  // Called when versions or workers may have changed.
  void advance(Instant now);

 private:
  const VersionKeeper& versions_;
  const WorkerTable& workers_;
  std::string shared_;  // next model of a share of users, once every worker had it
};

}  // namespace troupe::router
