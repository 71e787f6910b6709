#include "sim/ports/feature_port.h"

#include <algorithm>

#include "runtime/actor/planted.h"
#include "runtime/features/feature_rules.h"

namespace troupe::sim {
namespace {

Refusal away() {
  return {503, "storage_failed", "the feature store fails", "feature store", "a store that works"};
}
Refusal wrong_port(const char* expected) {
  return {500, "wrong_port", "this job is for another port", "simulated port", expected};
}
JobResult to_result(std::variant<Coordinated, Refusal> answer) {
  return std::visit([](auto& one) -> JobResult { return std::move(one); }, answer);
}

}  // namespace

FeaturePort::FeaturePort(FeatureOptions options, WorldData& world, WorldCatalogs& catalogs,
                         SimCoordination& coordination, const FeatureFaults& faults)
    : options_(std::move(options)),
      world_(world),
      catalogs_(catalogs),
      coordination_(coordination),
      faults_(faults),
      random_(options_.seed, mix(options_.node, 0xfea7)) {}

std::optional<Duration> FeaturePort::begin(Instant now, const Job& job, std::uint32_t) {
  if (const auto* question = std::get_if<Coordinate>(&job))
    return coordination_.time_of(now, options_.node, *question);
  const Duration latency = random_.between(options_.latency_min, options_.latency_max);
  const std::int64_t hung_us = std::max<std::int64_t>(0, (faults_.hung_until - now).us);
  return Duration{hung_us + static_cast<std::int64_t>(static_cast<double>(latency.us) * faults_.slowness)};
}

JobResult FeaturePort::run(const Job& job, std::uint32_t) {
  if (const auto* question = std::get_if<Coordinate>(&job))
    return to_result(coordination_.ask(options_.now(), options_.node, *question));
  if (faults_.failing) return away();
  if (const auto* wanted = std::get_if<FindFeatures>(&job)) return find(*wanted);
  if (const auto* wanted = std::get_if<ListItems>(&job))
    return list_items(*wanted, catalogs_.at(world_.present(), options_.model_version));
  if (const auto* what = std::get_if<Write>(&job)) {
    auto written = world_.write(*what);
    return std::visit([](auto& one) -> JobResult { return std::move(one); }, written);
  }
  return wrong_port("FindFeatures, Write, ListItems or Coordinate");
}

JobResult FeaturePort::find(const FindFeatures& wanted) {
  const std::string& version = wanted.catalog_version.empty() ? world_.present() : wanted.catalog_version;
  if (!world_.has_catalog(version))
    return Refusal{409, "wrong_catalog", "there is no catalog \"" + version + "\"", "feature store",
                   "a version that was imported"};
  const std::string& model = wanted.model_version.empty() ? options_.model_version : wanted.model_version;
  Features features{.catalog = catalogs_.at(version, model)};
  const std::uint64_t last = world_.profile_version(wanted.tenant, wanted.user);
  auto profile = world_.profile(wanted.tenant, wanted.user);
  if (planted(Bug::answer_from_old_profile) && last > 1)
    profile = world_.profile(wanted.tenant, wanted.user, last - 1);
  if (profile) features.user = std::make_shared<const Profile>(std::move(*profile));
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
