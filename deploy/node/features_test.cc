#include "deploy/node/features.h"

#include <doctest/doctest.h>

#include "runtime/testing/redis_test_server.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

TEST_SUITE("features") {
  TEST_CASE(
      "feature limits: an item has at most the tokens that fit the model, a profile any events up to the "
      "setting") {
    Config config;
    config.set("router.history_events_max", "77");
    ModelFacts model;
    model.limits.vocabulary = 500;
    model.limits.positions_max = 64;
    FeatureLimits limits = feature_limits(config.router, model);
    CHECK(limits.vocabulary == 500);
    CHECK(limits.item_tokens_max == 64);
    CHECK(limits.history_events_max == 77);
    CHECK(limits.event_features.empty());
    model.event_features = {EventFeature{}};
    model.arrangement = Arrangement::history;
    limits = feature_limits(config.router, model);
    CHECK(limits.item_tokens_max == 1);
    CHECK(limits.event_features.size() == 1);
    CHECK(limits.history_events_max == 77);
  }

  TEST_CASE("feature options: damage handling and profile expiry follow the settings") {
    Config config;
    CHECK(store_options(config.store).on_damage == OnDamage::refuse);
    config.set("store.on_damage", "start");
    CHECK(store_options(config.store).on_damage == OnDamage::start);
    for (const auto& [setting, value] : {std::pair{"features.freshness", "wait"},
                                         {"features.expiry", "11s"},
                                         {"features.stale_for", "12s"},
                                         {"features.unknown_expiry", "13s"},
                                         {"features.jitter", "0.25"},
                                         {"features.cache_memory", "3MiB"}})
      config.set(setting, value);
    const CachedFeatureOptions cached = cached_feature_options(config.features);
    CHECK(cached.usual == Freshness::wait);
    CHECK(cached.expiry.expiry == Duration{11'000'000});
    CHECK(cached.expiry.stale_for == Duration{12'000'000});
    CHECK(cached.expiry.unknown_expiry == Duration{13'000'000});
    CHECK(cached.expiry.jitter == 0.25);
    CHECK(cached.expiry.bytes_max == 3 << 20);
    CHECK(cached_feature_options(Config().features).usual == Freshness::exact);
  }

  TEST_CASE("open features: cached items need a Redis, and nothing to remember while it is away") {
    const auto name = [](std::span<const Token>) { return BlockName{}; };
    const TestFolder folder;
    Store store(folder.path());
    Config config;
    config.set("features.items", "cached");
    CHECK_THROWS_WITH_AS(open_features(config, &store, {}, 1, name),
                         "features.items is cached and features.store is empty; expected a Redis, or whole",
                         ConfigError);
    config.set("features.store", "redis://127.0.0.1:1");
    CHECK_NOTHROW(open_features(config, &store, {}, 1, name));
    config.set("features.on_outage", "last_known");
    CHECK_THROWS_WITH_AS(open_features(config, &store, {}, 1, name), doctest::Contains("expected refuse"),
                         ConfigError);
  }

  TEST_CASE("Redis address: takes the login from its file and never shows secrets") {
    const TestFolder folder;
    folder.write("login", "ann:secret\n");
    Config config;
    CHECK_FALSE(features_in_redis(config.features));
    config.set("features.store", "redis://here:7000/2");
    CHECK(features_in_redis(config.features));
    CHECK(redis_address(config.features, "redis://here:7000/2") ==
          RedisAddress{.host = "here", .port = 7000, .database = 2});
    config.set("features.login", (folder.path() / "login").string());
    CHECK(redis_address(config.features, "redis://here:7000/2") ==
          RedisAddress{.host = "here", .port = 7000, .user = "ann", .password = "secret", .database = 2});
    config.set("features.authority", (folder.path() / "login").string());
    CHECK_THROWS_AS(redis_address(config.features, "redis://here:7000/2"), ConfigError);
    try {
      redis_address(config.features, "rediss://here:7000/2");
      FAIL("a file that is no certificate was taken");
    } catch (const std::exception& error) {
      CHECK(std::string(error.what()).find("secret") == std::string::npos);
    }
  }

  TEST_CASE("open features: each cluster and each model has its own features, in a folder or a Redis") {
    const auto name = [](std::span<const Token>) { return BlockName{}; };
    FeatureLimits limits;
    limits.vocabulary = 10, limits.item_tokens_max = 4, limits.history_events_max = 5;
    const std::vector<PutUser> users{{.user = "ann", .tokens = {1, 2}}};
    const std::string key = user_key("", "ann");
    const auto has_ann = [&](FeatureStore& store) {
      return store.find_users({&key, 1}, 0).at(0).user != nullptr;
    };
    const TestFolder folder;
    Config config;
    {
      Store store(folder.path());
      const auto kept = open_features(config, &store, limits, 2, name);
      kept->import_users(users);
      CHECK(has_ann(*kept));
    }
    if (!RedisTestServer::is_installed()) return;
    const RedisTestServer server;
    config.set("features.store", describe(server.address()));
    const auto open = [&](const std::string& cluster, const std::string& model) {
      config.set("cluster.name", cluster);
      return open_features(config, nullptr, limits, 2, name, {}, model);
    };
    open("one", "games")->import_users(users);
    CHECK(has_ann(*open("one", "games")));
    CHECK_FALSE(has_ann(*open("one", "")));
    CHECK_FALSE(has_ann(*open("one", "films")));
    CHECK_FALSE(has_ann(*open("two", "games")));
  }
}
