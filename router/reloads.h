#pragma once
// Handles the operator's command to serve another model or catalog, for all users or a share of
// them. It makes the command a wish of the VersionKeeper and answers when the wish has its outcome:
// every live worker follows the new versions, this router runs nothing of the old ones, and the
// other routers have had time to hear of them. One reload at a time.
#include <optional>

#include "router/fleet/model_share.h"
#include "router/flights/flights.h"
#include "router/flights/outcomes.h"

namespace troupe::router {

class Reloads {
 public:
  struct Config {
    bool coordinate = false;  // false = the versions never change
    Duration budget{120'000'000};
    Duration heartbeat{200'000};
    std::uint32_t version_bytes_max = 512;  // of both versions together
  };
  // These belong to the router and must outlive this object.
  Reloads(const Config& config, VersionKeeper& versions, const ModelShare& share, const WorkerTable& workers,
          const Flights& flights, Outcomes& outcomes)
      : config_(config),
        versions_(versions),
        share_(share),
        workers_(workers),
        flights_(flights),
        outcomes_(outcomes) {}

  void on_reload(Step step, Address from, const Reload& reload);
  void advance(Step step);  // ends the reload if it has its outcome by now
  bool in_progress() const { return reload_.has_value(); }

 private:
  struct PendingReload {
    RequestOrigin origin;
    std::optional<Instant> served_since;
  };
  std::optional<Refusal> refusal_of(const Reload& reload) const;
  std::optional<Refusal> failure(Instant now) const;
  bool is_followed(Instant now) const;
  bool is_heard_of(Instant now) const;

  Config config_;
  VersionKeeper& versions_;
  const ModelShare& share_;
  const WorkerTable& workers_;
  const Flights& flights_;
  Outcomes& outcomes_;
  std::optional<PendingReload> reload_;
};

}  // namespace troupe::router
