// Opens the store of users' profiles and the item catalog: RocksDB in the data folder, or a Redis
// that several routers share.
#include "deploy/node/features.h"

#include <chrono>
#include <utility>

#include "kernels/base/check.h"
#include "router/request/request_check.h"
#include "runtime/features/store_features.h"
#include "runtime/redis/redis_features.h"

namespace troupe::deploy {

FeatureLimits feature_limits(const Config& config, const ModelFacts& model) {
  FeatureLimits limits;
  limits.vocabulary = model.limits.vocabulary;
  limits.item_tokens_max = static_cast<std::uint32_t>(model.limits.positions_max);
  if (!model.history_plan.empty()) limits.item_tokens_max = 1;  // an item is one token
  limits.event_features = model.event_features;
  limits.history_events_max = static_cast<std::uint32_t>(config.integer("router.history_events_max"));
  // Limits histories to what fits a prompt. Models with towers have no such limit: each tower reads
  // an unknown number of events.
  if (model.towers.empty()) limits.history_tokens_max = model.limits.positions_max;
  return limits;
}

StoreOptions store_options(const Config& config) {
  const bool start = config.text("store.on_damage") == "start";
  return {.on_damage = start ? OnDamage::start : OnDamage::refuse};
}

CachedFeatureOptions cached_feature_options(const Config& config) {
  CachedFeatureOptions options;
  options.usual = router::find_freshness(config.text("features.freshness")).value_or(Freshness::exact);
  options.expiry.expiry = {config.duration_us("features.expiry")};
  options.expiry.stale_for = {config.duration_us("features.stale_for")};
  options.expiry.unknown_expiry = {config.duration_us("features.unknown_expiry")};
  options.expiry.jitter = config.real("features.jitter");
  options.expiry.bytes_max = static_cast<std::size_t>(config.size_bytes("features.cache_memory"));
  return options;
}

RedisAddress redis_address(const Config& config, const std::string& url) {
  RedisAddress address = parse_redis_url(url);
  complete(
      address,
      {config.text("features.authority"), config.text("features.certificate"), config.text("features.key")},
      config.text("features.login"));
  return address;
}

bool features_in_redis(const Config& config) { return !config.text("features.store").empty(); }

std::unique_ptr<FeatureStore> open_features(const Config& config, Store* folder, const FeatureLimits& limits,
                                            std::uint32_t connections, NameItem name_item, RedisCalls calls,
                                            const std::string& model) {
  if (!features_in_redis(config)) {
    TROUPE_CHECK(folder, "features without Redis need a data folder");
    return std::make_unique<RocksFeaturePort>(*folder, limits, std::move(name_item));
  }
  RedisFeatureOptions options;
  options.address = redis_address(config, config.text("features.store"));
  options.prefix = "troupe:" + config.text("cluster.name") + ":" + (model.empty() ? "" : model + ":");
  options.connections = connections;
  options.time_limit = std::chrono::microseconds(config.duration_us("features.time_limit"));
  options.when_away = config.text("features.on_outage") == "refuse" ? WhenAway::refuse : WhenAway::last_known;
  options.wait_replicas = static_cast<std::uint32_t>(config.integer("features.wait_replicas"));
  options.refuses = std::move(calls.refuses);
  options.on_loss = std::move(calls.on_loss);
  return std::make_unique<RedisFeaturePort>(std::move(options), limits, std::move(name_item));
}

}  // namespace troupe::deploy
