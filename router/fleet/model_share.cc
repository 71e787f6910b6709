// Chooses between the current and the next model for a user, where two models share the users.
#include "router/fleet/model_share.h"

#include "router/fleet/fingerprint.h"

namespace troupe::router {

PinnedVersions ModelShare::pin(Instant now, std::string_view model, std::uint64_t home) const {
  const Versions& served = versions_.versions();
  PinnedVersions pinned{served.model_version, served.catalog_version};
  if (!served.is_shared() || shared_ != served.next_model || !workers_.any_usable(now, served.next_model))
    return pinned;
  const bool is_named = model == served.next_model;
  const bool is_other_named = !model.empty() && !is_named;
  if (is_named || (!is_other_named && share_position(home, served.next_model) < served.next_share))
    pinned.model_version = served.next_model;
  return pinned;
}

bool ModelShare::is_present(const PinnedVersions& pinned) const {
  const Versions& served = versions_.versions();
  return pinned.catalog_version == served.catalog_version &&
         (pinned.model_version == served.model_version ||
          (served.is_shared() && pinned.model_version == served.next_model));
}

bool ModelShare::is_settled() const {
  const Versions& served = versions_.versions();
  return !served.is_shared() || shared_ == served.next_model;
}

void ModelShare::advance(Instant now) {
  const Versions& served = versions_.versions();
  if (!served.is_shared())
    shared_.clear();
  else if (shared_ != served.next_model && workers_.all_have(now, served.next_model))
    shared_ = served.next_model;
}

}  // namespace troupe::router
