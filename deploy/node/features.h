#pragma once
// Opens the store of profiles and catalog: the data folder of a single node, or a Redis that
// several routers share (features.store).
#include <functional>
#include <memory>
#include <string>

#include "deploy/models/model_families.h"
#include "runtime/config/config.h"
#include "runtime/features/cached_features.h"
#include "runtime/features/feature_store.h"
#include "runtime/redis/redis_url.h"
#include "runtime/store/store.h"
#include "runtime/store/store_rows.h"

namespace troupe::deploy {

FeatureLimits feature_limits(const RouterSettings& settings, const ModelFacts& model);
bool features_in_redis(const FeatureSettings& settings);
StoreOptions store_options(const StoreSettings& settings);  // for a store that keeps features

// Parses a Redis address and completes it with the login and TLS files of features.…. Throws
// ConfigError without secrets in its text.
RedisAddress redis_address(const FeatureSettings& settings, const std::string& url);

CachedFeatureOptions cached_feature_options(const FeatureSettings& settings);  // the caller sets the lane

// Callbacks of a Redis feature store; see RedisFeatureOptions.
struct RedisCalls {
  std::function<std::string(const std::string& made_for)> refuses;
  std::function<void(const std::string& what)> on_loss;
  std::function<void(const std::string& what)> on_risk;
  std::function<void(const ItemSources&)> on_item_sources;
};

// `folder` must outlive the result; it may be null if the features are in Redis. `connections` is the
// number of jobs at a time. `model` is the name of one model among several, and separates its rows
// in Redis. Throws ConfigError if the Redis address is invalid.
std::unique_ptr<FeatureStore> open_features(const Config& config, Store* folder, const FeatureLimits& limits,
                                            std::uint32_t connections, NameItem name_item,
                                            RedisCalls calls = {}, const std::string& model = "");

}  // namespace troupe::deploy
