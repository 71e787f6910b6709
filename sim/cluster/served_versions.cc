// Remembers the versions that were served, and decides which of them a request may be answered from.
#include "sim/cluster/served_versions.h"

#include "router/fleet/fingerprint.h"
#include "runtime/actor/user_home.h"

namespace troupe::sim {

ServedVersions::ServedVersions(Cluster& cluster) : cluster_(cluster), served_(cluster.scenario().models) {
  cluster_.coordination().on_change = [this] { note(); };
}

void ServedVersions::note() {
  for (std::uint32_t model = 0; model < served_.size(); ++model) {
    const Versions now = cluster_.versions(model);
    std::vector<Since>& served = served_[model];
    if (served.empty() || served.back().versions != now)
      served.push_back({now, cluster_.now(), !served.empty() && now.epoch < served.back().versions.epoch});
  }
}

// Routers have a few heartbeats to learn of new versions; a router that is cut off or paused may need
// longer. After a loss of the coordination store's data they have ten to agree again.
bool ServedVersions::served_for(const SentRequest& asked, std::size_t index) const {
  const std::vector<Since>& served = served_[asked.model];
  const bool is_lost = index + 1 < served.size() && served[index + 1].is_loss;
  const std::int64_t grace = (is_lost ? 10 : 4) * cluster_.scenario().heartbeat.us;
  return !asked.must_succeed || index + 1 == served.size() ||
         served[index + 1].from.us + grace >= asked.sent.us;
}

// If two models share the users, the next model serves the users whose place is below its share, and no
// others. Those users may also get the present model while no worker has the next one.
bool ServedVersions::may_have(const SentRequest& asked, const Versions& versions, const std::string& model) {
  if (model == versions.model_version) return true;
  if (!versions.is_shared() || model != versions.next_model) return false;
  std::uint64_t home = 0;
  if (const auto* rank = std::get_if<RankRequest>(&asked.request)) home = user_hash(rank->tenant, rank->user);
  if (const auto* generate = std::get_if<GenerateRequest>(&asked.request))
    home = user_hash(generate->tenant, generate->user);
  if (const auto* score = std::get_if<ScoreRequest>(&asked.request)) home = router::fingerprint(*score);
  return router::share_position(home, model) < versions.next_share;
}

bool ServedVersions::may_answer(const SentRequest& asked, const std::string& model,
                                const std::string& catalog) const {
  const std::vector<Since>& served = served_[asked.model];
  for (std::size_t i = 0; i < served.size(); ++i) {
    const Versions& versions = served[i].versions;
    if (served_for(asked, i) && may_have(asked, versions, model) &&
        (catalog.empty() || catalog == versions.catalog_version))
      return true;
  }
  return false;
}

}  // namespace troupe::sim
