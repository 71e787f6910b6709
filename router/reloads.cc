// Checks the operator's reloads and follows them to their outcome.
#include "router/reloads.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::router {
namespace {

// Workers find a model version as a folder by that name, and no file has a longer one.
constexpr std::size_t file_name_bytes_max = 255;

std::optional<Refusal> find_fault_of_share(const Reload& reload, const std::string& present) {
  if (reload.share == 1) return std::nullopt;
  const auto fault = [](std::string what, std::string expected) {
    return Refusal{RefusalKind::malformed, "bad_share", std::move(what), "share", std::move(expected)};
  };
  if (!(reload.share >= 0 && reload.share < 1))
    return fault("the share is out of range", "a share of the users, 0 to 1");
  if (reload.model_version.empty() || reload.model_version == present)
    return fault("a share needs a model other than the current one",
                 "model: the one that the share of users gets");
  if (!reload.catalog_version.empty())
    return fault("two models that share the users have one catalog", "no catalog beside a share");
  return std::nullopt;
}

// Rounds to thousandths, but never rounds a share below 1 up to 1.
std::uint32_t thousandths(double share) {
  const auto rounded = static_cast<std::uint32_t>(std::lround(share * Versions::all_users));
  return share < 1 ? std::min(rounded, Versions::all_users - 1) : rounded;
}

}  // namespace

std::optional<Refusal> Reloads::refusal_of(const Reload& reload) const {
  if (reload.model_version.empty() && reload.catalog_version.empty())
    return Refusal{RefusalKind::malformed, "empty_reload", "neither a model nor a catalog is named", "body",
                   "model or catalog"};
  if (reload.model_version.size() + reload.catalog_version.size() > config_.version_bytes_max ||
      (reload.model_version + reload.catalog_version).find('\n') != std::string::npos)
    return Refusal{RefusalKind::malformed, "bad_version", "a version is too long or has a line break", "body",
                   "at most " + std::to_string(config_.version_bytes_max) + " bytes in one line"};
  if (reload.model_version.size() > file_name_bytes_max)
    return Refusal{RefusalKind::malformed, "bad_version",
                   "the model version has " + std::to_string(reload.model_version.size()) + " bytes", "model",
                   "at most " + std::to_string(file_name_bytes_max) + " bytes, as the name of a folder"};
  const std::string& present = versions_.versions().model_version;
  if (auto fault = find_fault_of_share(reload, present)) return fault;
  if (!config_.coordinate)
    return Refusal{RefusalKind::unprocessable, "versions_fixed",
                   "this process serves only the model " + present, "router",
                   "a restart with another model, or a cluster with a Coordination"};
  if (!versions_.known())
    return Refusal{RefusalKind::unavailable, "starting", "the served versions are not known yet", "router",
                   "a retry after a pause"};
  if (reload_)
    return Refusal{RefusalKind::unavailable, "busy", "another reload is in progress", "router",
                   "a retry after it is done"};
  return std::nullopt;
}

void Reloads::on_reload(Step step, Address from, const Reload& reload) {
  if (outcomes_.is_copy(from, reload.id)) return;
  const RequestOrigin origin{from, reload.id, step.now, step.now + config_.budget};
  if (auto refusal = refusal_of(reload)) return outcomes_.refuse(step, origin, std::move(*refusal));
  outcomes_.open(origin);
  versions_.wish(reload.model_version, reload.catalog_version, thousandths(reload.share));
  reload_ = PendingReload{origin, std::nullopt};
  versions_.tick(step, workers_);
}

// Returns why the wish cannot be served, if so.
std::optional<Refusal> Reloads::failure(Instant now) const {
  switch (versions_.wish_state()) {
    case VersionKeeper::Wish::replaced:
      return Refusal{RefusalKind::unavailable, "replaced", "another reload has replaced this one", "router",
                     "one reload at a time"};
    case VersionKeeper::Wish::wrong_catalog:
      return Refusal{RefusalKind::unprocessable, "wrong_catalog", "the catalog does not exist", "catalog",
                     "a catalog that was imported"};
    case VersionKeeper::Wish::refused:
      return Refusal{RefusalKind::unprocessable, "model_refused",
                     "a worker cannot load the model: " + versions_.why_refused(), "model",
                     "a model that every worker can load"};
    default:
      break;
  }
  if (now < reload_->origin.deadline) return std::nullopt;
  return Refusal{RefusalKind::deadline_exceeded, "deadline_exceeded",
                 "not every worker had the new versions in time", "router",
                 "models that every worker can load"};
}

// Returns true if the wish is served, every live worker follows, and nothing of the old versions
// runs here.
bool Reloads::is_followed(Instant now) const {
  const bool served = versions_.wish_state() == VersionKeeper::Wish::served && share_.is_settled();
  return served && !flights_.any_outdated(share_) && workers_.all_follow(now, versions_.versions().epoch);
}

// Returns true if the other routers have had time to hear of the new versions, or if nothing had to
// change.
bool Reloads::is_heard_of(Instant now) const {
  return !versions_.wish_changes() || now.us - reload_->served_since->us >= config_.heartbeat.us * 2;
}

// An announcement that failed is taken back.
void Reloads::advance(Step step) {
  if (!reload_) return;
  std::optional<Refusal> failed = failure(step.now);
  const bool followed = is_followed(step.now);
  if (followed && !reload_->served_since) reload_->served_since = step.now;
  const bool done = followed && is_heard_of(step.now);
  if (!failed && !done) return;
  const RequestOrigin origin = std::exchange(reload_, std::nullopt)->origin;
  versions_.end_wish(step.now, !failed);
  if (failed) return outcomes_.refuse(step, origin, std::move(*failed));
  outcomes_.answer(step, origin, Stored{origin.id, versions_.versions().epoch});
}

}  // namespace troupe::router
