#include "sim/ports/feature_port.h"

#include <algorithm>

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

BlockName ItemNames::name(const std::string& model_version, std::uint64_t model_key,
                          std::span<const Token> tokens) {
  const std::uint64_t key = mix(model_key, hash_of(tokens));
  if (const auto at = names_.find(key); at != names_.end()) return at->second;
  if (names_.size() >= names_max_) names_.clear();
  return names_[key] = name_item_(model_version, tokens);
}

FeaturePort::FeaturePort(FeatureOptions options, WorldData& world, ItemNames& names,
                         SimCoordination& coordination, const FeatureFaults& faults)
    : options_(std::move(options)),
      world_(world),
      names_(names),
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
  if (const auto* wanted = std::get_if<ListItems>(&job)) return list(*wanted);
  if (const auto* what = std::get_if<Write>(&job)) {
    auto written = world_.write(*what);
    return std::visit([](auto& one) -> JobResult { return std::move(one); }, written);
  }
  return wrong_port("FindFeatures, Write, ListItems or Coordinate");
}

JobResult FeaturePort::find(const FindFeatures& wanted) {
  Features features;
  features.catalog_version = wanted.catalog_version.empty() ? world_.present() : wanted.catalog_version;
  if (!world_.has_catalog(features.catalog_version))
    return Refusal{409, "wrong_catalog", "there is no catalog \"" + features.catalog_version + "\"",
                   "feature store", "a version that was imported"};
  const std::string& model = wanted.model_version.empty() ? options_.model_version : wanted.model_version;
  const std::uint64_t model_key = hash_of(model);
  features.user = world_.profile(wanted.tenant, wanted.user);
  features.items.reserve(wanted.items.size());
  for (const std::string& id : wanted.items) {
    features.items.push_back(world_.item(id, features.catalog_version));
    if (features.items.back()) name(*features.items.back(), model, model_key);
  }
  return features;
}

JobResult FeaturePort::list(const ListItems& wanted) {
  ItemList list = world_.list(wanted);
  const std::uint64_t model_key = hash_of(options_.model_version);
  for (Item& item : list.items) name(item, options_.model_version, model_key);
  return list;
}

void FeaturePort::name(Item& item, const std::string& model_version, std::uint64_t model_key) {
  item.block = names_.name(model_version, model_key, item.tokens);
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
