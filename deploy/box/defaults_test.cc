// What a core or a port does when nobody says otherwise is what a box does: the defaults of their structs are
// the knobs', so that tests and simulations that set nothing try what is shipped.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "actors/allocator/allocator_core.h"
#include "actors/cache_meta/cache_meta_core.h"
#include "actors/inference/inference_core.h"
#include "actors/kv_worker/kv_worker_core.h"
#include "deploy/box/core_configs.h"
#include "deploy/box/served_model.h"
#include "kernels/decoder/decoder.h"
#include "placement/heat/hot_items.h"
#include "placement/heat/popularity.h"
#include "router/core/router_core.h"
#include "router/door/front_door.h"
#include "runtime/features/cached_features.h"
#include "runtime/redis/redis_features.h"
#include "runtime/settings/config.h"
#include "runtime/settings/log.h"
#include "runtime/store/store.h"
#include "runtime/transfer/ucx_transport.h"
#include "sim/scenario/scenario.h"

using namespace troupe;

namespace {

struct Default {
  std::string knob, value;  // durations in microseconds, sizes in bytes

  Default(const char* name, std::string_view text) : knob(name), value(text) {}
  Default(const char* name, auto number) requires std::is_arithmetic_v<decltype(number)>
      : knob(name), value(std::to_string(static_cast<double>(number))) {}
};

struct Cores {
  router::RouterConfig router;
  actors::CacheMetaConfig cache_meta;
  actors::KvWorkerConfig kv_worker;
  actors::InferenceConfig inference;
};

// What the knobs came to in them.
std::vector<Default> values_of(const Cores& cores) {
  const auto& [router, cache_meta, kv_worker, inference] = cores;
  const double heartbeat = static_cast<double>(router.heartbeat.us);
  CHECK(heartbeat == cache_meta.heartbeat.us);
  CHECK(heartbeat == kv_worker.heartbeat.us);
  CHECK(heartbeat == inference.heartbeat.us);
  CHECK(5 * heartbeat == cache_meta.leader_lease.us);
  return {{"cluster.heartbeat", heartbeat},
          {"router.policy", router.policy.name()},
          {"router.requests_in_flight_max", router.in_flight_max},
          {"router.tenant_weights", router.tenants.weights.empty() ? "" : "some"},
          {"router.tenants_max", router.tenants.tenants_max},
          {"router.tenant_requests_max", router.tenants.requests_max},
          {"router.tenant_work_max", router.tenants.work_us_max},
          {"router.turn", router.quantum.us},
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
          {"router.deadline", router.budget.us},
          {"router.deadline_max", router.budget_max.us},
          {"router.pull_share", router.pull_share},
          {"router.measure_pulls", router.measures_pulls},
          {"router.undivided", router.undivided},
          {"router.frequency_window", cache_meta.user_popularity.window_us},
          {"router.frequency_window", cache_meta.item_popularity.window_us},
          {"router.needs_items", router.features.needs_items},
          {"pool.precompute_items", router.precompute.on},
          {"pool.hot_share", router.precompute.refresh.hot_share},
          {"pool.check_reads", kv_worker.check_reads},
          {"pool.scrub_interval", kv_worker.scrub.interval.us},
          {"pool.scrub_cost", kv_worker.scrub.cost},
          {"inference.queue_max", inference.queue_max},
          {"inference.overlap", inference.overlap},
          {"inference.batch_tokens_max", inference.batch_tokens_max}};
}

std::vector<Default> defaults_of_actors() {
  const actors::AllocatorConfig allocator;
  const double heartbeat = static_cast<double>(router::RouterConfig{}.heartbeat.us);
  CHECK(heartbeat == router::WorkerTableConfig{}.heartbeat.us);
  CHECK(3 * heartbeat == actors::FollowConfig{}.silent_after.us);
  return {{"pool.split_window", allocator.window.us},
          {"pool.split_objective", allocator.objective.us},
          {"router.window", router::WorkerTableConfig{}.window.us},
          {"pool.hot_share", placement::HotItemsConfig{}.hot_share}};
}

std::vector<Default> defaults_of_edges() {
  const router::DoorConfig door;
  const RedisFeatureOptions redis;
  const CachedFeatureOptions cached;
  const UcxOptions ucx;
  const kernels::DecoderOptions decoder;
  CHECK(door.answer_us_max == router::RouterConfig{}.budget_max.us + 2 * router::RouterConfig{}.heartbeat.us);
  return {{"router.candidates_max", door.limits.candidates_max},
          {"router.score_items_max", door.limits.score_items_max},
          {"router.score_labels_max", door.limits.score_labels_max},
          {"router.request_tokens_max", door.limits.request_tokens_max},
          {"router.history_events_max", door.limits.history_events_max},
          {"store.on_damage", StoreOptions{}.on_damage == OnDamage::refuse ? "refuse" : "start"},
          {"http.address", door.address},
          {"http.port", door.port},
          {"http.connections_max", door.connections_max},
          {"http.connections_per_address_max", door.connections_per_address_max},
          {"http.memory_max", door.memory_bytes_max},
          {"http.catalog_tenant", door.limits.catalog_tenant},
          {"http.header_bytes_max", door.header_bytes_max},
          {"http.body_bytes_max", door.body_bytes_max},
          {"http.timeout", door.timeout_us},
          {"http.admin_routes", door.limits.admin_routes},
          {"http.tenant_rate", door.tenant_limit.rate},
          {"http.tenant_at_once", door.tenant_limit.at_once},
          {"features.when_away", redis.when_away == WhenAway::refuse ? "refuse" : "last_known"},
          {"features.time_limit", redis.time_limit.count()},
          {"features.wait_replicas", redis.wait_replicas},
          {"features.freshness", cached.usual == Freshness::exact ? "exact" : "another"},
          {"features.expiry", cached.expiry.expiry.us},
          {"features.stale_for", cached.expiry.stale_for.us},
          {"features.unknown_expiry", cached.expiry.unknown_expiry.us},
          {"features.jitter", cached.expiry.jitter},
          {"features.cache_memory", cached.expiry.bytes_max},
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

// But for its policy: a scenario that names none is a paper's, or a drawn one.
std::vector<Default> defaults_of_scenario() {
  const sim::Scenario s;
  return {{"cluster.heartbeat", s.heartbeat.us},
          {"router.requests_in_flight_max", s.in_flight_max},
          {"router.deadline", s.deadline.us},
          {"router.tenants_max", s.tenants_max},
          {"router.turn", s.turn.us},
          {"router.window", s.window.us},
          {"router.pull_share", s.pull_share},
          {"router.frequency_window", s.frequency_window.us},
          {"pool.page_tokens", s.page_tokens},
          {"pool.item_share", s.item_share},
          {"pool.row_share", s.row_share},
          {"pool.store_item_blocks", s.store},
          {"pool.precompute_items", s.precompute},
          {"inference.queue_max", s.queue_max},
          {"inference.overlap", s.overlap},
          {"inference.batch_tokens_max", s.batch_tokens_max}};
}

// Machines', files' and addresses' own: no struct can know them, or the box itself reads them.
const std::set<std::string_view> of_the_box{
    "node.data_dir",     "node.notice",          "node.drain_limit", "node.leave_for", "node.leave_limit",          "model.directory",
    "model.tables",      "model.table_bandwidth", "model.table_refill",
    "model.prompt",      "model.prototypes",     "model.versions",       "model.device",         "model.device_format",       "pool.memory",
    "pool.device_bytes", "pool.verify_on_read",  "pool.store_bytes_max",      "pool.placement",
    "pool.split",        "pool.split_trained", "node.log_file_max",    "node.log_files",            "http.access_log",
    "telemetry.collector", "telemetry.sampled",
    "cluster.name",      "cluster.coordination", "cluster.certificates",      "cluster.listen_address",
    "cluster.coordination_login", "cluster.coordination_authority", "cluster.coordination_certificate", "cluster.coordination_key",
    "features.login",    "features.authority",   "features.certificate",      "features.key",              "http.api_keys_refresh",
    "features.store",    "http.tls_certificate", "http.tls_key",        "http.api_keys",        "grpc.listen",          "router.device",        "inference.executors",
    "inference.cores", "router.history_part",
    "inference.memory_max", "transfer.encryption"};

std::string shown(const Config& config, const Knob& knob) {
  const std::string_view name = knob.name;
  switch (knob.kind) {
    case KnobKind::text:
    case KnobKind::choice:
      return config.text(name);
    case KnobKind::boolean:
      return std::to_string(static_cast<double>(config.boolean(name)));
    case KnobKind::integer:
      return std::to_string(static_cast<double>(config.integer(name)));
    case KnobKind::real:
      return std::to_string(config.real(name));
    case KnobKind::size:
      return std::to_string(static_cast<double>(config.size_bytes(name)));
    case KnobKind::duration:
      return std::to_string(static_cast<double>(config.duration_us(name)));
  }
  return "";
}

// Another value than the default, and than that of any other knob.
std::string other_value(const Knob& knob, int number) {
  const std::string initial(knob.initial);
  switch (knob.kind) {
    case KnobKind::boolean:
      return initial == "true" ? "false" : "true";
    case KnobKind::integer: {
      const std::int64_t now = std::stoll(initial), most = std::stoll(std::string(knob.range.substr(knob.range.find("..") + 2)));
      return std::to_string(now + number <= most ? now + number : now - number);
    }
    case KnobKind::real:
      return std::to_string(0.3 + number / 1000.0);
    case KnobKind::duration:
      return std::to_string(5'000 + number) + "ms";
    default:
      return knob.name == "router.policy" ? "item" : knob.name == "router.routing" ? std::string(router::routing_names()[1]) : initial;
  }
}

}  // namespace

TEST_CASE("every knob of a core reaches the field that is its own, whatever it is set to, and every core knows its peers") {
  deploy::ServedModel model;
  model.prompt = {{1, 2}, {3}, {4, 5}, {6}, 64, 40};
  model.names.model_version = "m7";
  model.facts.shape = {.name = "s", .layers = 2, .hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .intermediate = 16};
  model.facts.pass_tokens_max = 77;
  model.facts.token_bytes = 78;
  model.facts.table_columns = 4;
  int number = 0;
  for (const Default& given : values_of({}))
    model.config.set(given.knob, other_value(*find_knob(given.knob), ++number));
  kernels::PageLayout layout;
  layout.page_tokens = 4, layout.bytes = 400;
  const deploy::Place place{.node = 2, .routers = {1, 2}, .cache_metas = {3, 4}, .workers = {2, 5}};
  const Cores cores{deploy::router_config(model, place), deploy::cache_meta_config(model.config, place),
                    deploy::kv_worker_config(model.config, place, layout, 100), deploy::inference_config(model, place)};
  for (const Default& given : values_of(cores)) {
    CAPTURE(given.knob);
    if (given.knob != "router.tenant_weights") CHECK(given.value == shown(model.config, *find_knob(given.knob)));
  }
  using Nodes = std::vector<NodeId>;
  CHECK(cores.router.node == 2);
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
  CHECK(cores.inference.refill_bytes == model.config.size_bytes("model.table_refill"));
  const actors::AllocatorConfig allocator = deploy::allocator_config(model.config, place, 100);
  CHECK(allocator.node == 2);
  CHECK(allocator.pages == 100);
}

TEST_CASE(
    "the defaults of every struct are the knobs', and every knob has such a struct or is the box's own") {
  const Config config;
  std::set<std::string_view> found;
  for (const auto& list : {values_of({}), defaults_of_actors(), defaults_of_edges(), defaults_of_scenario()})
    for (const Default& given : list) {
      CAPTURE(given.knob);
      const Knob* knob = find_knob(given.knob);
      REQUIRE(knob);
      CHECK(given.value == shown(config, *knob));
      found.insert(knob->name);
    }
  for (const Knob& knob : knob_table()) {
    CAPTURE(knob.name);
    CHECK(found.contains(knob.name) != of_the_box.contains(knob.name));
  }
}
