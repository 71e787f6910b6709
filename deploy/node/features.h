#pragma once
// Where profiles and the catalog are kept: in the data folder of a box, or in a Redis that several routers
// share (features.store).
#include <functional>
#include <memory>
#include <string>

#include "deploy/models/families.h"
#include "runtime/config/config.h"
#include "runtime/features/cached_features.h"
#include "runtime/features/feature_store.h"
#include "runtime/redis/redis_url.h"
#include "runtime/store/store.h"
#include "runtime/store/store_rows.h"

namespace troupe::deploy {

FeatureLimits feature_limits(const Config& config, const ModelFacts& model);
bool features_in_redis(const Config& config);
StoreOptions store_options(const Config& config);  // of a store that keeps them

// A Redis by its address in the configuration, with login and authorities of features.…. Throws ConfigError,
// which tells no secret.
RedisAddress redis_address(const Config& config, const std::string& url);

CachedFeatureOptions cached_feature_options(const Config& config);  // but for the lane

// What a Redis asks and tells while it is used: see RedisFeatureOptions.
struct RedisCalls {
  std::function<std::string(const std::string& made_for)> refuses;
  std::function<void(const std::string& what)> on_loss;
};

// `folder` outlives it; it may be null if the features are in Redis. `lanes`: jobs at a time. `model`: the
// name of one among several, whose rows in a Redis are apart from others'. Throws ConfigError if the Redis is
// not well named.
std::unique_ptr<FeatureStore> open_features(const Config& config, Store* folder, const FeatureLimits& limits,
                                            std::uint32_t lanes, NameItem name_item, RedisCalls calls = {},
                                            const std::string& model = "");

}  // namespace troupe::deploy
