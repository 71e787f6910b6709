// Opens the store of users' profiles and the item catalog: RocksDB in the data folder, or a Redis
// that several routers share.
#include "deploy/node/features.h"

#include <chrono>
#include <utility>

#include "kernels/base/check.h"
#include "runtime/features/store_features.h"
#include "runtime/redis/redis_features.h"

namespace troupe::deploy {

FeatureLimits feature_limits(const RouterSettings& settings, const ModelFacts& model) {
  FeatureLimits limits;
  limits.vocabulary = model.limits.vocabulary;
  limits.item_tokens_max = static_cast<std::uint32_t>(model.limits.positions_max);
  if (model.items_are_tokens()) limits.item_tokens_max = 1;  // an item is one token
  limits.event_features = model.event_features;
  limits.history_events_max = settings.history_events_max;
  return limits;
}

StoreOptions store_options(const StoreSettings& settings) {
  const bool start = settings.on_damage == StoreSettings::OnDamage::start;
  return {.on_damage = start ? OnDamage::start : OnDamage::refuse};
}

CachedFeatureOptions cached_feature_options(const FeatureSettings& settings) {
  CachedFeatureOptions options;
  options.usual = settings.freshness;
  options.expiry.expiry = settings.expiry;
  options.expiry.stale_for = settings.stale_for;
  options.expiry.unknown_expiry = settings.unknown_expiry;
  options.expiry.jitter = settings.jitter;
  options.expiry.bytes_max = settings.cache_memory;
  return options;
}

RedisAddress redis_address(const FeatureSettings& settings, const std::string& url) {
  RedisAddress address = parse_redis_url(url);
  complete(address, {settings.authority, settings.certificate, settings.key}, settings.login);
  return address;
}

namespace {

void reject_if_unfit(const FeatureSettings& settings) {
  if (settings.items == FeatureSettings::Items::whole) return;
  if (!features_in_redis(settings))
    throw ConfigError("features.items is cached and features.store is empty; expected a Redis, or whole");
  if (settings.on_outage != FeatureSettings::OnOutage::refuse)
    throw ConfigError(
        "features.items is cached and features.on_outage is last_known; expected refuse, because no catalog "
        "is "
        "known then");
}

}  // namespace

bool features_in_redis(const FeatureSettings& settings) { return !settings.store.empty(); }

std::unique_ptr<FeatureStore> open_features(const Config& config, Store* folder, const FeatureLimits& limits,
                                            std::uint32_t connections, NameItem name_item, RedisCalls calls,
                                            const std::string& model) {
  const FeatureSettings& settings = config.features;
  reject_if_unfit(settings);
  if (!features_in_redis(settings)) {
    TROUPE_CHECK(folder, "features without Redis need a data folder");
    return std::make_unique<RocksFeaturePort>(*folder, limits, std::move(name_item));
  }
  RedisFeatureOptions options;
  options.address = redis_address(settings, settings.store);
  options.prefix = "troupe:" + config.cluster.name + ":" + (model.empty() ? "" : model + ":");
  options.connections = connections;
  options.time_limit = std::chrono::microseconds(settings.time_limit.us);
  options.when_away =
      settings.on_outage == FeatureSettings::OnOutage::refuse ? WhenAway::refuse : WhenAway::last_known;
  options.wait_replicas = settings.wait_replicas;
  if (settings.items == FeatureSettings::Items::cached) {
    const CachedFeatureOptions cached = cached_feature_options(settings);
    options.cached_items = cached.expiry;
    options.cached_items->bytes_max = settings.item_memory;
    options.items_usual = cached.usual;
  }
  options.refuses = std::move(calls.refuses);
  options.on_loss = std::move(calls.on_loss);
  options.on_risk = std::move(calls.on_risk);
  options.on_item_sources = std::move(calls.on_item_sources);
  return std::make_unique<RedisFeaturePort>(std::move(options), limits, std::move(name_item));
}

}  // namespace troupe::deploy
