#include "deploy/node/core_configs.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "actors/allocator/allocator_core.h"
#include "actors/cache_meta/cache_meta_core.h"
#include "actors/inference/inference_core.h"
#include "actors/kv_worker/kv_worker_core.h"
#include "deploy/models/cost_shape.h"
#include "deploy/node/served_model.h"
#include "kernels/decoder/decoder.h"
#include "placement/cost/device_profiles.h"
#include "placement/popularity/popularity.h"
#include "router/router_core.h"
#include "runtime/config/config.h"
#include "runtime/config/log.h"
#include "runtime/features/cached_features.h"
#include "runtime/redis/redis_features.h"
#include "runtime/store/store.h"
#include "runtime/testing/shared_ranker.h"
#include "runtime/transfer/ucx_transport.h"
#include "server/http/http_server.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {
namespace core_configs_test {

struct Small : ServedModel {
  Small() {
    prompt = {{1, 2}, {3}, {4, 5}, {6}, 64, 40};
    names.model_version = "m7";
    facts.shape = {
        .name = "s", .layers = 2, .hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .intermediate = 16};
    facts.layout.page_tokens = 4;
    facts.layout.bytes = 400;
  }
};

const NodeRoles among{.node = 2,
                      .cache_meta = false,
                      .routers = {1, 2, 7},
                      .cache_metas = {3, 4},
                      .workers = {5, 2},
                      .joined = true};
const NodeRoles alone;

std::string refusal_of(const ServedModel& model, const NodeRoles& roles = {}) {
  try {
    router_config(model, roles);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

}  // namespace core_configs_test
using namespace core_configs_test;
}  // namespace

TEST_SUITE("core configs") {
  TEST_CASE("router config: has all other nodes, and whether this node joined them") {
    const router::RouterConfig c = router_config(Small(), among);
    CHECK(c.node == 2);
    CHECK(c.routers == std::vector<NodeId>{1, 7});
    CHECK(c.cache_metas == std::vector<NodeId>{3, 4});
    CHECK(c.workers == std::vector<NodeId>{5, 2});
    CHECK(c.joined);
    CHECK_FALSE(router_config(Small(), alone).joined);
    CHECK(router_config(Small(), alone).routers.empty());
    CHECK(c.features.every == Duration{1'000'000});
    CHECK(c.form.system == Tokens{1, 2});
    CHECK(c.names.model_version == "m7");
  }

  TEST_CASE("router config: versions are coordinated with several routers or with model.versions") {
    Small model;
    CHECK(router_config(model, among).coordinate);
    CHECK_FALSE(router_config(model, alone).coordinate);
    model.config.set("model.versions", "folder");
    CHECK(router_config(model, alone).coordinate);
  }

  TEST_CASE("router config: homes are reported if a policy splits the pool") {
    Small model;
    CHECK_FALSE(router_config(model, alone).reports_uses_elsewhere);
    model.config.set("pool.split", "marginal");
    CHECK(router_config(model, alone).reports_uses_elsewhere);
  }

  TEST_CASE("router config: the blocks that the configured policy looks up are precomputed") {
    using router::ItemBlockKind;
    Small model;
    const auto blocks = [&] { return router_config(model, alone).precompute.blocks; };
    model.prompt = shared_ranker(model.prompt);
    CHECK(blocks() == ItemBlockKind::prefix);
    for (const Arrangement first : {Arrangement::history, Arrangement::causal, Arrangement::user_first}) {
      model.prompt.arrangements = {first};
      model.prompt.interchangeable.clear();
      CHECK(blocks() == ItemBlockKind::none);
    }
    model.prompt.arrangements = {Arrangement::item_first};
    CHECK(blocks() == ItemBlockKind::prefix);
    model.prompt.arrangements = {Arrangement::causal};
    model.config.set("router.approximate", "0.5");
    CHECK(blocks() == ItemBlockKind::movable);
    model.config.set("router.approximate", "0");
    model.config.set("router.policy", "blocks+30");
    CHECK(blocks() == ItemBlockKind::movable);
    model.config.set("pool.precompute_items", "false");
    CHECK(blocks() == ItemBlockKind::none);
  }

  TEST_CASE("router config: beam width is limited by the model") {
    Small model;
    model.config.set("router.width_max", "100");
    CHECK(router_config(model, alone).limits.width_max == 100);
    model.facts.limits.width_max = 30;
    CHECK(router_config(model, alone).limits.width_max == 30);
    model.facts.limits.width_max = 300;
    CHECK(router_config(model, alone).limits.width_max == 100);
  }

  TEST_CASE("router config: the initial pace is the device's, or 20 us per token") {
    Small model;
    const auto costs = placement::unit_costs(model.facts.shape);
    const router::RouterConfig plain = router_config(model, alone);
    CHECK(plain.costs.token_operations == costs.token_operations);
    CHECK(plain.costs.layers == 2);
    CHECK(plain.pace.us_per_operation * costs.token_operations == doctest::Approx(20));
    CHECK(plain.block_pace.us_per_operation == placement::Pace{}.us_per_operation);
    const auto nominal = inference_config(model, alone);
    CHECK(nominal.nominal_pace.us_per_operation ==
          doctest::Approx(
              placement::pace_of(placement::find_device("cpu"), model.facts.shape).us_per_operation));
    model.config.set("router.device", "A100-40G");
    const auto pace = placement::pace_of(placement::find_device("A100-40G"), model.facts.shape);
    const router::RouterConfig named = router_config(model, alone);
    for (const placement::Pace& is :
         {named.pace, named.block_pace, inference_config(model, alone).nominal_pace}) {
      CHECK(is.us_per_operation == doctest::Approx(pace.us_per_operation));
      CHECK(is.us_per_byte == doctest::Approx(pace.us_per_byte));
    }
    model.config.set("router.device", "abacus");
    CHECK(refusal_of(model).starts_with("router.device: "));
  }

  TEST_CASE("router config: a policy without its prototypes and invalid weights are refused by setting") {
    Small model;
    CHECK(refusal_of(model) == "");
    model.config.set("router.tenant_weights", "shop=3,other=0.5");
    CHECK(router_config(model, alone).tenants.weights.size() == 2);
    model.config.set("router.tenant_weights", "shop=none");
    CHECK(refusal_of(model).starts_with("router.tenant_weights: "));
    model.config.set("router.tenant_weights", "");
    model.config.set("router.policy", "fastest");
    CHECK(refusal_of(model).starts_with("router.policy is \"fastest\"; expected "));
    model.prompt.arrangements = {Arrangement::causal};
    model.config.set("router.policy", "bat");
    CHECK(
        refusal_of(model) ==
        "router.policy is \"bat\", which serves user_first, item_first, but the model's form allows requests "
        "that name none causal alone; expected one of recompute, causal, blocks, all_blocks, planner, or a "
        "prompt form that lists these arrangements as interchangeable (troupe verify)");
    model.prompt = shared_ranker(model.prompt);
    CHECK(refusal_of(model).empty());
  }

  TEST_CASE("cache-meta config: has the nodes of the file and a lease of five heartbeats") {
    Config config;
    config.set("cluster.heartbeat", "300ms");
    const actors::CacheMetaConfig c = cache_meta_config(config, among);
    CHECK(c.node == 2);
    CHECK(c.kv_nodes == std::vector<NodeId>{5, 2});
    CHECK(c.routers == std::vector<NodeId>{1, 2, 7});
    CHECK(c.joined);
    CHECK(c.leader_lease == Duration{1'500'000});
    CHECK_FALSE(cache_meta_config(config, alone).joined);
  }

  TEST_CASE("KV-cache worker config: the pool is split by share, and pulls need other nodes") {
    Config config;
    config.set("pool.item_share", "0.3");
    config.set("pool.store_item_blocks", "true");
    const Small model;
    const ItemArea items = item_area(config.pool, {}, 100, false);
    const actors::KvWorkerConfig c = kv_worker_config(config, among, model.facts.layout, 100, items);
    CHECK(c.node == 2);
    CHECK(c.cache_metas == std::vector<NodeId>{3, 4});
    CHECK(c.pulls);
    CHECK(c.store);
    CHECK(c.token_bytes == 100);
    CHECK(c.pull_parts == 1);
    CHECK(c.pool.pages == 100);
    CHECK(c.pool.page_tokens == 4);
    REQUIRE(c.pool.areas.size() == 2);
    CHECK(c.pool.areas[0].split.pages == 30);
    CHECK(c.pool.areas[1].split.pages == 70);
    CHECK_FALSE(kv_worker_config(config, alone, model.facts.layout, 100, items).pulls);
    config.set("pool.store_item_blocks", "false");
    CHECK_FALSE(kv_worker_config(config, alone, model.facts.layout, 100, items).store);
    CHECK(allocator_config(config.pool, among, 100, items).shares ==
          std::vector<double>{0.3, remaining_pages});
  }

  TEST_CASE("inference config: has a lane per executor; tables are filled and sharded if there are any") {
    Small model;
    model.config.set("inference.executors", "3");
    model.config.set("model.table_refill", "5MiB");
    model.config.set("model.tables", "sharded");
    actors::InferenceConfig c = inference_config(model, among);
    CHECK(c.slots == 3);
    CHECK(c.page_tokens == 4);
    CHECK(c.refill_bytes == 0);
    CHECK(c.shard_owners.empty());
    CHECK(c.costs.layers == 2);
    model.facts.table_columns = 8;
    c = inference_config(model, among);
    CHECK(c.refill_bytes == 5 << 20);
    CHECK(c.shard_owners == std::vector<NodeId>{5, 2});
    model.config.set("model.tables", "mapped");
    CHECK(inference_config(model, among).shard_owners.empty());
  }

  TEST_CASE("pool size: whole pages, at least one") {
    Config config;
    config.set("pool.memory", "1MiB");
    CHECK(pages_of(config.pool, 1 << 18) == 4);
    CHECK(pages_of(config.pool, (1 << 18) + 1) == 3);
    CHECK(pages_of(config.pool, 1 << 20) == 1);
    CHECK_THROWS_WITH_AS(
        pages_of(config.pool, (1 << 20) + 1),
        "pool.memory is 1048576 bytes, less than one page; expected at least 1048577 bytes for this model",
        ConfigError);
  }
}

// ---- default values ----

// The defaults of cores' and ports' structs must equal the settings' defaults, so that tests and
// simulations that set nothing run what is shipped.
namespace {

struct Default {
  std::string setting, value;  // durations in microseconds, sizes in bytes

  Default(const char* name, std::string_view text) : setting(name), value(text) {}
  Default(const char* name, auto number) requires std::is_arithmetic_v<decltype(number)>
      : setting(name), value(std::to_string(static_cast<double>(number))) {}
};

struct Cores {
  router::RouterConfig router;
  actors::CacheMetaConfig cache_meta;
  actors::KvWorkerConfig kv_worker;
  actors::InferenceConfig inference;
};

// Lists the values of all settings in these cores.
std::vector<Default> values_of(const Cores& cores) {
  const auto& [router, cache_meta, kv_worker, inference] = cores;
  const double heartbeat = static_cast<double>(router.heartbeat.us);
  CHECK(heartbeat == cache_meta.heartbeat.us);
  CHECK(heartbeat == kv_worker.heartbeat.us);
  CHECK(heartbeat == inference.heartbeat.us);
  CHECK(5 * heartbeat == cache_meta.leader_lease.us);
  return {
      {"cluster.heartbeat", heartbeat},
      {"router.policy", router.policy.name()},
      {"router.requests_in_flight_max", router.in_flight_max},
      {"router.tenant_weights", router.tenants.weights.empty() ? "" : "some"},
      {"router.tenants_max", router.tenants.tenants_max},
      {"router.tenant_requests_max", router.tenants.requests_max},
      {"router.tenant_work_max", router.tenants.work_us_max},
      {"router.quantum", router.quantum.us},
      {"router.window", router.window.us},
      {"router.routing", std::string(router::routing_names()[static_cast<std::size_t>(router.routing.by)])},
      {"router.affinity", router.routing.alpha},
      {"router.approximate", router.limits.approximate},
      {"router.candidates_max", router.limits.candidates_max},
      {"router.width_max", router.limits.width_max},
      {"router.completion_tokens_max", router.limits.completion_tokens_max},
      {"router.score_items_max", router.limits.score_items_max},
      {"router.score_labels_max", router.limits.score_labels_max},
      {"router.request_tokens_max", router.limits.request_tokens_max},
      {"router.history_events_max", router.limits.history_max},
      {"router.unknown_user", std::string(word_of(router.limits.unknown_user))},
      {"router.deadline", router.budget.us},
      {"router.deadline_max", router.budget_max.us},
      {"router.pull_share", router.pull_share},
      {"router.measure_pulls", router.measures_pulls},
      {"router.shared_areas", router.shared_areas},
      {"router.frequency_window", cache_meta.user_popularity.window_us},
      {"router.frequency_window", cache_meta.item_popularity.window_us},
      {"router.needs_items", router.features.needs_items},
      {"verify.share", router.verify.share},
      {"replay.keep", router.replay.keep.us},
      {"pool.check_reads", kv_worker.check_reads},
      {"pool.scrub_interval", kv_worker.scrub.interval.us},
      {"pool.scrub_cost", kv_worker.scrub.cost},
      {"inference.queue_max", inference.queue_max},
      {"inference.overlap", inference.overlap},
      {"inference.batch_wait", inference.batch_wait.us},
      {"inference.batch_tokens_max", inference.batch_tokens_max}};
}

std::vector<Default> defaults_of_actors() {
  const actors::AllocatorConfig allocator;
  const double heartbeat = static_cast<double>(router::RouterConfig{}.heartbeat.us);
  CHECK(heartbeat == router::WorkerTableConfig{}.heartbeat.us);
  CHECK(3 * heartbeat == actors::FollowConfig{}.silent_after.us);
  return {{"pool.split_window", allocator.window.us},
          {"pool.split_objective", allocator.objective.us},
          {"router.window", router::WorkerTableConfig{}.window.us}};
}

std::vector<Default> defaults_of_edges() {
  const server::HttpServerConfig http_server;
  const RedisFeatureOptions redis;
  const CachedFeatureOptions cached;
  const UcxOptions ucx;
  const kernels::DecoderOptions decoder;
  CHECK(http_server.answer_us_max ==
        router::RouterConfig{}.budget_max.us + 2 * router::RouterConfig{}.heartbeat.us);
  return {{"router.candidates_max", http_server.limits.candidates_max},
          {"router.score_items_max", http_server.limits.score_items_max},
          {"router.score_labels_max", http_server.limits.score_labels_max},
          {"router.request_tokens_max", http_server.limits.request_tokens_max},
          {"router.history_events_max", http_server.limits.history_events_max},
          {"store.on_damage", StoreOptions{}.on_damage == OnDamage::refuse ? "refuse" : "start"},
          {"http.address", http_server.address},
          {"http.port", http_server.port},
          {"http.connections_max", http_server.connections_max},
          {"http.connections_per_address_max", http_server.connections_per_address_max},
          {"http.memory_max", http_server.memory_bytes_max},
          {"http.catalog_tenant", http_server.limits.catalog_tenant},
          {"http.header_bytes_max", http_server.header_bytes_max},
          {"http.body_bytes_max", http_server.body_bytes_max},
          {"http.streams_max", http_server.streams_max},
          {"http.timeout", http_server.timeout_us},
          {"http.admin_routes", http_server.limits.admin_routes},
          {"http.tenant_rate", http_server.tenant_limit.rate},
          {"http.tenant_requests_max", http_server.tenant_limit.at_once},
          {"features.on_outage", redis.when_away == WhenAway::refuse ? "refuse" : "last_known"},
          {"features.time_limit", redis.time_limit.count()},
          {"features.wait_replicas", redis.wait_replicas},
          {"features.freshness", cached.usual == Freshness::exact ? "exact" : "another"},
          {"features.expiry", cached.expiry.expiry.us},
          {"features.stale_for", cached.expiry.stale_for.us},
          {"features.unknown_expiry", cached.expiry.unknown_expiry.us},
          {"features.jitter", cached.expiry.jitter},
          {"features.cache_memory", cached.expiry.bytes_max},
          {"features.items", redis.cached_items ? "cached" : "whole"},
          {"transfer.transports", ucx.transports},
          {"transfer.devices", ucx.devices},
          {"node.log_level", LogOptions{}.least == LogLevel::info ? "info" : "another"},
          {"node.log_file", LogOptions{}.file},
          {"model.weights", kernels::format_name(decoder.weights)},
          {"pool.kv_format", kernels::format_name(decoder.kv)},
          {"inference.beams",
           decoder.beams == kernels::BeamPaths::together && !decoder.sort_all ? "together" : "another"},
          {"pool.page_tokens", decoder.page_tokens}};
}

// Settings that the structs above do not have: those of machines, files and addresses, those that the
// node reads itself, and shares of the pool (item_area_test.cc).
const std::set<std::string_view> of_the_box{"node.data_dir",
                                            "pool.precompute_items",
                                            "node.drain_notice",
                                            "node.drain_limit",
                                            "node.leave_time_min",
                                            "node.leave_time_max",
                                            "model.directory",
                                            "model.name",
                                            "model.control_tokens",
                                            "model.tables",
                                            "model.table_bandwidth",
                                            "model.table_refill",
                                            "model.prompt",
                                            "model.prototypes",
                                            "model.versions",
                                            "model.device",
                                            "model.device_format",
                                            "pool.memory",
                                            "pool.item_share",
                                            "pool.row_share",
                                            "pool.store_item_blocks",
                                            "pool.device_bytes",
                                            "pool.verify_on_read",
                                            "pool.store_bytes_max",
                                            "replay.bytes_max",
                                            "pool.placement",
                                            "pool.hot_share",
                                            "pool.split",
                                            "pool.split_trained",
                                            "node.log_file_max",
                                            "node.log_files",
                                            "http.access_log",
                                            "http.hosts",
                                            "telemetry.collector",
                                            "telemetry.sampled",
                                            "cluster.name",
                                            "cluster.coordination",
                                            "cluster.certificates",
                                            "cluster.listen_address",
                                            "cluster.coordination_login",
                                            "cluster.coordination_authority",
                                            "cluster.coordination_certificate",
                                            "cluster.coordination_key",
                                            "features.login",
                                            "features.authority",
                                            "features.certificate",
                                            "features.key",
                                            "http.api_keys_refresh",
                                            "features.store",
                                            "features.item_memory",
                                            "http.tls_certificate",
                                            "http.tls_key",
                                            "http.api_keys",
                                            "grpc.listen",
                                            "router.device",
                                            "inference.executors",
                                            "inference.cores",
                                            "router.history_part",
                                            "inference.memory_max",
                                            "transfer.encryption",
                                            "transfer.transport"};

// Returns a value, as written in a file, in the form of Default::value.
std::string shown(const Setting& setting, std::string_view text) {
  if (setting.kind == SettingKind::text || setting.kind == SettingKind::choice) return std::string(text);
  const auto parsed = parse_setting(setting, text);
  return std::visit(
      [](const auto& value) -> std::string {
        if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>)
          return std::to_string(static_cast<double>(value));
        else
          return value;
      },
      std::get<SettingValue>(parsed));
}

// Returns a value that differs from the default and from the values of all other settings.
std::string other_value(const Setting& setting, int number) {
  const std::string initial(setting.initial);
  switch (setting.kind) {
    case SettingKind::boolean:
      return initial == "true" ? "false" : "true";
    case SettingKind::integer: {
      const std::int64_t now = std::stoll(initial),
                         most = std::stoll(std::string(setting.range.substr(setting.range.find("..") + 2)));
      return std::to_string(now + number <= most ? now + number : now - number);
    }
    case SettingKind::real:
      return std::to_string(0.3 + number / 1000.0);
    case SettingKind::duration:
      return std::to_string((setting.range.ends_with("..1s") ? 0 : 5'000) + number) + "ms";
    default:
      return setting.name == "router.policy"    ? "item"
             : setting.name == "router.routing" ? std::string(router::routing_names()[1])
                                                : initial;
  }
}

}  // namespace

TEST_CASE("core configs: every setting of a core reaches its own field, and every core knows its peers") {
  deploy::ServedModel model;
  model.prompt = shared_ranker({{1, 2}, {3}, {4, 5}, {6}, 64, 40});
  model.names.model_version = "m7";
  model.facts.shape = {
      .name = "s", .layers = 2, .hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .intermediate = 16};
  model.facts.pass_tokens_max = 77;
  model.facts.token_bytes = 78;
  model.facts.table_columns = 4;
  int number = 0;
  std::map<std::string, std::string> texts;  // by setting
  for (const Default& given : values_of({})) {
    texts[given.setting] = other_value(*find_setting(given.setting), ++number);
    model.config.set(given.setting, texts[given.setting]);
  }
  kernels::PageLayout layout;
  layout.page_tokens = 4, layout.bytes = 400;
  const deploy::NodeRoles roles{.node = 2, .routers = {1, 2}, .cache_metas = {3, 4}, .workers = {2, 5}};
  const Cores cores{deploy::router_config(model, roles), deploy::cache_meta_config(model.config, roles),
                    deploy::kv_worker_config(model.config, roles, layout, 100, {}),
                    deploy::inference_config(model, roles)};
  for (const Default& given : values_of(cores)) {
    CAPTURE(given.setting);
    if (given.setting != "router.tenant_weights")
      CHECK(given.value == shown(*find_setting(given.setting), texts[given.setting]));
  }
  using Nodes = std::vector<NodeId>;
  CHECK(cores.router.node == 2);
  CHECK(cores.router.has_worker);
  CHECK(cores.router.has_cache_meta);
  CHECK(cores.cache_meta.has_worker);
  CHECK_FALSE(deploy::router_config(model, {.worker = false}).has_worker);
  CHECK(cores.router.routers == Nodes{1});
  CHECK(cores.router.cache_metas == Nodes{3, 4});
  CHECK(cores.router.workers == Nodes{2, 5});
  CHECK(cores.router.coordinate);
  CHECK(cores.router.model_version == "m7");
  CHECK(cores.router.limits.pass_tokens_max == 77);
  CHECK(cores.router.limits.token_bytes == 78);
  CHECK(cores.cache_meta.node == 2);
  CHECK(cores.cache_meta.kv_nodes == Nodes{2, 5});
  CHECK(cores.cache_meta.routers == Nodes{1, 2});
  CHECK(cores.kv_worker.node == 2);
  CHECK(cores.kv_worker.cache_metas == Nodes{3, 4});
  CHECK(cores.kv_worker.pulls);
  CHECK(cores.inference.node == 2);
  CHECK(cores.inference.routers == Nodes{1, 2});
  CHECK(cores.inference.model_version == "m7");
  CHECK(cores.inference.refill_bytes == model.config.model.table_refill);
  const actors::AllocatorConfig allocator = deploy::allocator_config(model.config.pool, roles, 100, {});
  CHECK(allocator.node == 2);
  CHECK(allocator.pages == 100);
}

TEST_CASE(
    "defaults: every struct has the settings' defaults, and every setting is in a struct or the node's own") {
  std::set<std::string_view> found;
  for (const auto& list : {values_of({}), defaults_of_actors(), defaults_of_edges()})
    for (const Default& given : list) {
      CAPTURE(given.setting);
      const Setting* setting = find_setting(given.setting);
      REQUIRE(setting);
      CHECK(given.value == shown(*setting, setting->initial));
      found.insert(setting->name);
    }
  for (const Setting& setting : setting_table()) {
    CAPTURE(setting.name);
    CHECK(found.contains(setting.name) != of_the_box.contains(setting.name));
  }
}
