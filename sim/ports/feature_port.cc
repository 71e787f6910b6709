// Simulates the feature store and the coordination store as a router sees them, with drawn
// latencies and injected failures.
#include "sim/ports/feature_port.h"

#include <algorithm>
#include <utility>

#include "runtime/coordination/members.h"
#include "runtime/features/feature_rules.h"
#include "runtime/store/store_rows.h"

namespace troupe::sim {
namespace {

Refusal away() {
  return {RefusalKind::unavailable, "storage_failed", "the feature store fails", "feature store",
          "a working store"};
}
Refusal unreadable() {
  return {RefusalKind::unavailable, "features_unavailable", "the row of this user is not a profile",
          "feature store", "a profile as the store wrote it"};
}
constexpr Duration known_latency{20};

// True if an earlier read may answer the request.
bool is_lenient(const FindFeatures& wanted) {
  return !wanted.user.empty() &&
         (wanted.freshness == Freshness::wait || wanted.freshness == Freshness::behind);
}
std::string key_of(const FindFeatures& wanted) { return user_key(wanted.tenant, wanted.user); }

Refusal wrong_port(const char* expected) {
  return {RefusalKind::internal, "wrong_port", "this job is for another port", "simulated port", expected};
}
JobResult to_result(std::variant<CoordinationReply, Refusal> answer) {
  return std::visit([](auto& one) -> JobResult { return std::move(one); }, answer);
}

}  // namespace

SimFeaturePort::SimFeaturePort(FeatureOptions options, WorldData& world, WorldCatalogs& catalogs,
                               SimCoordination& coordination, const FeatureFaults& faults)
    : options_(std::move(options)),
      world_(world),
      catalogs_(catalogs),
      coordination_(coordination),
      faults_(faults),
      random_(options_.seed, mix(options_.node, 0xfea7)) {}

// Adds the key prefix like the real port; worker keys are shared by all models.
Coordinate SimFeaturePort::own(Coordinate question) const {
  std::visit(
      [this](auto& what) {
        if constexpr (requires { what.key; })
          if (what.key != members_key) what.key.insert(0, options_.own_keys);
      },
      question.what);
  return question;
}

Duration SimFeaturePort::latency(Instant now) {
  const Duration drawn = random_.between(options_.latency_min, options_.latency_max);
  const std::int64_t hung_us = std::max<std::int64_t>(0, (faults_.hung_until - now).us);
  return {hung_us + static_cast<std::int64_t>(static_cast<double>(drawn.us) * faults_.slowness)};
}

std::optional<Duration> SimFeaturePort::begin(Instant now, const Job& job, std::uint32_t) {
  if (const auto* question = std::get_if<Coordinate>(&job))
    return coordination_.time_of(now, options_.node, *question);
  if (const auto* wanted = std::get_if<FindFeatures>(&job); wanted && is_lenient(*wanted)) {
    store_refreshes(now);
    const bool known = profiles_.find(key_of(*wanted), now, false).of == Features::Source::cache;
    if (known || wanted->freshness == Freshness::behind) return known_latency;
  }
  return latency(now);
}

JobResult SimFeaturePort::run(const Job& job, std::uint32_t) {
  if (const auto* question = std::get_if<Coordinate>(&job))
    return to_result(coordination_.ask(options_.now(), options_.node, own(*question)));
  const auto* wanted = std::get_if<FindFeatures>(&job);
  if (wanted && is_lenient(*wanted))
    if (auto known = find_known(*wanted)) return std::move(*known);
  if (faults_.failing) return away();
  if (wanted) {
    if (!wanted->user.empty() && is_unreadable(key_of(*wanted))) return unreadable();
    ProfilePointer user = profile_of(wanted->tenant, wanted->user);
    if (is_lenient(*wanted)) profiles_.put(key_of(*wanted), user, options_.now());
    return find(*wanted, std::move(user), Features::Source::store);
  }
  if (const auto* page = std::get_if<ListItems>(&job))
    return list_items(*page, catalogs_.at(world_.present(), options_.model_version));
  if (const auto* what = std::get_if<Write>(&job)) {
    auto written = world_.write(*what);
    if (const auto* put = std::get_if<PutUser>(&what->what))
      profiles_.written(user_key(put->tenant, put->user), options_.now());
    if (const auto* gone = std::get_if<DeleteUser>(&what->what))
      profiles_.written(user_key(gone->tenant, gone->user), options_.now());
    if (const auto* events = std::get_if<AppendEvents>(&what->what))
      profiles_.written(user_key(events->tenant, events->user), options_.now());
    return std::visit([](auto& one) -> JobResult { return std::move(one); }, written);
  }
  if (const auto* question = std::get_if<Read>(&job)) return world_.read(*question);
  return wrong_port("FindFeatures, Write, Read, ListItems or Coordinate");
}

// Stores the refreshes that have arrived. They are read now, so their age counts from now.
void SimFeaturePort::store_refreshes(Instant now) {
  for (auto at = refreshes_.begin(); at != refreshes_.end();) {
    if (at->second.ready > now) {
      ++at;
      continue;
    }
    if (faults_.failing || is_unreadable(at->first))
      profiles_.failed(at->first, now);
    else
      profiles_.put(at->first, profile_of(at->second.tenant, at->second.user), now);
    at = refreshes_.erase(at);
  }
}

std::optional<JobResult> SimFeaturePort::find_known(const FindFeatures& wanted) {
  const Instant now = options_.now();
  const bool behind = wanted.freshness == Freshness::behind;
  store_refreshes(now);
  ExpiringProfiles::Lookup found = profiles_.find(key_of(wanted), now, behind);
  if (found.ask) refreshes_[key_of(wanted)] = {wanted.tenant, wanted.user, now + latency(now)};
  if (!behind && found.of != Features::Source::cache) return std::nullopt;
  if (found.of == Features::Source::missing) found.row = std::make_shared<const Profile>();
  return find(wanted, std::move(found.row), found.of);
}

bool SimFeaturePort::is_unreadable(const std::string& key) const {
  constexpr std::uint64_t parts = 1'000;
  return faults_.unreadable > 0 && static_cast<double>(hash_of(key) % parts) < faults_.unreadable * parts;
}

ProfilePointer SimFeaturePort::profile_of(const std::string& tenant, const std::string& user) const {
  auto profile = world_.profile(tenant, user);
  return profile ? std::make_shared<const Profile>(std::move(*profile)) : nullptr;
}

// Limits of histories that come with requests; the world's items are of any length.
FeatureLimits SimFeaturePort::limits() const {
  const WorldOptions& world = world_.options();
  return {.vocabulary = world_.rows(),
          .item_tokens_max = UINT32_MAX,
          .history_events_max = static_cast<std::uint32_t>(world.history_events_max),
          .event_features = world.event_features};
}

JobResult SimFeaturePort::find(const FindFeatures& wanted, ProfilePointer user, Features::Source of) const {
  const std::string& version = wanted.catalog_version.empty() ? world_.present() : wanted.catalog_version;
  if (!world_.has_catalog(version))
    return Refusal{RefusalKind::conflict, "wrong_catalog", "there is no catalog \"" + version + "\"",
                   "feature store", "an imported version"};
  const std::string& model = wanted.model_version.empty() ? options_.model_version : wanted.model_version;
  Features features{.user = std::move(user), .catalog = catalogs_.at(version, model), .of = of};
  if (wanted.history) {
    auto profile = profile_of_given(*wanted.history, limits(), *features.catalog);
    if (auto* refusal = std::get_if<Refusal>(&profile)) return std::move(*refusal);
    features.user = std::get<ProfilePointer>(std::move(profile));
  }
  features.items = features.catalog->find_all(wanted.items);
  return features;
}

std::optional<Duration> CoordinationPort::begin(Instant now, const Job& job, std::uint32_t) {
  const auto* question = std::get_if<Coordinate>(&job);
  return question ? coordination_.time_of(now, node_, *question) : Duration{0};
}

JobResult CoordinationPort::run(const Job& job, std::uint32_t) {
  const auto* question = std::get_if<Coordinate>(&job);
  if (!question) return wrong_port("Coordinate");
  return to_result(coordination_.ask(now_(), node_, *question));
}

}  // namespace troupe::sim
