// Table of all settings with kind, default, range, unit and help, and the parser of their
// values. Configuration files, the command line and the example file are derived from it.
#include "runtime/config/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "kernels/base/check.h"

namespace troupe {
namespace {

using enum SettingKind;

constexpr Setting settings[] = {
    {"node.data_dir", text, "", "", "",
     "Folder for profiles, the catalog and saved blocks. Must be set to serve."},
    {"node.log_level", choice, "info", "debug|info|warning|error", "", "Lowest level that is logged."},
    {"node.log_file", text, "", "", "", "File to which log lines are appended. Empty: standard error."},
    {"node.log_file_max", size, "0B", "0B..1TiB", "",
     "Size at which node.log_file is renamed to FILE.1 and a new file is started. 0: never."},
    {"node.log_files", integer, "5", "1..1000", "files", "Number of renamed log files to keep."},

    {"node.drain_notice", duration, "0s", "0s..10min", "",
     "On shutdown, report not-ready for this long before refusing requests, so that load balancers "
     "can drain."},
    {"node.drain_limit", duration, "30s", "0s..10min", "",
     "On shutdown, maximum time to wait for running requests after new ones are refused."},
    {"node.leave_time_min", duration, "30s", "0s..1h", "",
     "Minimum time for which a worker that leaves the cluster (troupe leave) lets others pull its "
     "blocks. It also waits until its user blocks have been migrated and routers report that no "
     "item block is missing without it."},
    {"node.leave_time_max", duration, "10min", "0s..24h", "",
     "Maximum time that a leaving worker waits for node.leave_time_min and its conditions."},

    {"model.directory", text, "", "", "",
     "Hugging Face model directory with config.json and safetensors. Must be set to serve."},
    {"model.prompt", text, "", "", "", "Prompt file. Empty: the one in the model directory."},
    {"model.prototypes", text, "", "", "",
     "File of prototypes that stand in for history tokens (troupe prototypes), made for this model; "
     "the same on all nodes. Empty: none."},
    {"model.tables", choice, "memory", "memory|mapped|sharded", "",
     "Where the item embedding of an HSTU or Climber model, or a ranker's prototypes, are kept. "
     "memory: in memory. mapped: in their file, from which each pass reads the rows that the pool's "
     "row area lacks (pool.row_share). sharded: as mapped, but an item embedding is spread over the "
     "pools of the cluster's workers, in blocks of a page; its file is read only for rows that no "
     "worker holds."},
    {"model.table_bandwidth", size, "0B", "0B..16TiB", "",
     "Maximum bytes per second read from the file of a mapped or sharded table (model.tables), "
     "for experiments that emulate a slower disk or link. 0: no limit."},
    {"model.table_refill", size, "64MiB", "0B..16TiB", "",
     "Bytes per second, including the reads of passes, at which new pages of the row area are "
     "refilled with the rows evicted last. 0: only rows that passes miss are read."},
    {"model.versions", text, "", "", "",
     "Folder with one model directory per version, named by the version, for /v1/models/reload. "
     "Empty: the model cannot be changed while serving."},
    {"model.weights", choice, "f32", "f32|int8", "",
     "Format of the weights of linear layers. int8 takes a quarter of the memory and is faster, but "
     "changes logits slightly. A GPU requires f32 here and uses model.device_format."},
    {"model.device", text, "cpu", "", "",
     "Device that computes: cpu, cuda or cuda:N (GPU number N). On a GPU, Qwen and Llama "
     "models need pool.kv_format bf16 or f16. All workers of a cluster must use the same kind "
     "of device."},
    {"model.device_format", choice, "bf16", "bf16|f16", "",
     "Format of weights and activations on a GPU. f16 is more precise, but overflows above 65504."},

    {"pool.memory", size, "256MiB", "1MiB..16TiB", "",
     "Memory for cached keys and values, allocated once at start."},
    {"pool.page_tokens", integer, "4", "1..256", "tokens",
     "Tokens per page. Small pages waste less memory on short items; large pages need less "
     "bookkeeping."},
    {"pool.kv_format", choice, "f32", "f32|f16|bf16", "",
     "Format of cached keys and values. f16 and bf16 fit twice as many blocks as f32. f16 is more "
     "precise, but values above 65504 overflow and are refused; bf16 has the range of f32 with 8 "
     "bits of precision. On a GPU, f32 is only for HSTU and Climber."},
    {"pool.device_bytes", size, "0B", "0B..16TiB", "",
     "GPU memory for copies of the most used blocks in pool.memory. 0: half of what the model "
     "leaves free on the GPU, at most pool.memory."},
    {"pool.item_share", real, "0.5", "0..1", "",
     "Share of the pool's pages that the item area gets at start; users get the others. Under the "
     "policy planner, the areas borrow pages from each other."},
    {"pool.row_share", real, "0", "0..1", "",
     "Share of the pool's pages that rows of embedding tables get at start, in addition to "
     "pool.item_share. Only with model.tables: mapped or sharded."},
    {"pool.split", text, "", "", "",
     "Policy that decides every pool.split_window how the pool is divided between user blocks, "
     "item blocks and rows of embedding tables. marginal (a page goes where it saves most "
     "time; needs no training), static:SHARE (a fixed share for rows), pid (a controller), bayes "
     "(Bayesian optimisation), or a trained policy from pool.split_trained: smart, ppo, "
     "ppo+adapter or trees. Empty: the boundaries move only when areas lend pages to each "
     "other."},
    {"pool.split_trained", text, "", "", "",
     "File written by troupe train (deploy/policies/split.txt), for the trained policies of "
     "pool.split."},
    {"pool.split_objective", duration, "100ms", "1ms..10min", "",
     "Target for the time that a request holds its blocks, for policies of pool.split that use "
     "latencies."},
    {"pool.split_window", duration, "5s", "100ms..1h", "", "Time between two decisions of pool.split."},
    {"pool.verify_on_read", boolean, "false", "", "",
     "Verify a cached block's checksum at each read; on a GPU, each time the block is copied "
     "there. If false, checksums are verified when bytes come into memory and before their "
     "first use, then at a sample of reads (pool.check_reads) and in the background "
     "(pool.scrub_interval)."},
    {"pool.check_reads", real, "0.01", "0..1", "",
     "Share of reads of cached blocks that verify the checksum again."},
    {"pool.scrub_interval", duration, "60s", "0s..24h", "",
     "Time in which the scrubber verifies all cached blocks once, in small steps; a flipped bit in "
     "memory may stay undetected for this long. 0: no scrubbing."},
    {"pool.scrub_cost", real, "0.02", "0.001..1", "",
     "Maximum share of one core for the scrubber. If it is too small for pool.scrub_interval, a "
     "round takes longer."},
    {"pool.store_item_blocks", boolean, "true", "", "",
     "Save item blocks in node.data_dir, so that the cache is warm after a restart."},
    {"pool.store_bytes_max", size, "64GiB", "1MiB..16TiB", "", "Maximum disk space for saved blocks."},
    {"pool.precompute_items", boolean, "true", "", "",
     "Compute item blocks in the background while the worker is idle."},
    {"pool.placement", text, "any", "", "",
     "Which workers precompute which item blocks: any (spread over the workers), replicate (every "
     "worker has all), hash, or a plan written by troupe plan --json (FILE or FILE:NAME)."},
    {"pool.hot_share", real, "0.001", "0..1", "",
     "An item is hot from this share of all recent item accesses on. The blocks of a hot item "
     "belong on all workers, whatever pool.placement says, until its share falls below half of "
     "this. 0: no item is hot."},

    {"store.on_damage", choice, "refuse", "refuse|start", "",
     "What to do if files of profiles or the catalog in node.data_dir are damaged at start. refuse: "
     "change nothing and do not start. start: start with the undamaged data, set the damaged store "
     "aside, and list what was lost."},

    {"cluster.name", text, "troupe", "", "",
     "Name of the cluster. Connections from processes of another cluster are refused."},
    {"cluster.coordination", text, "", "", "",
     "URLs of etcd, separated by commas, such as http://10.0.0.9:2379. Empty: a file in "
     "node.data_dir, for a single node."},
    {"cluster.coordination_login", text, "", "", "",
     "File with one line user:password for an etcd that requires a login. Empty: none."},
    {"cluster.coordination_authority", text, "", "", "",
     "PEM file of the authorities that sign etcd's certificate, for https URLs. Empty: those of the "
     "system."},
    {"cluster.coordination_certificate", text, "", "", "",
     "PEM file of this process's certificate for an etcd that requires one. Empty: none."},
    {"cluster.coordination_key", text, "", "", "",
     "PEM file of the key of cluster.coordination_certificate."},
    {"cluster.certificates", text, "", "", "",
     "Folder with ca.pem and each node's NAME.pem and NAME.key, as made by `troupe certs`. If "
     "set, nodes use TLS among themselves. Empty: no encryption."},
    {"cluster.listen_address", text, "", "", "",
     "Address on which a node listens for other nodes. Empty: its host in the list of nodes if that "
     "is an IP address, otherwise all addresses."},
    {"cluster.heartbeat", duration, "200ms", "10ms..1min", "",
     "Interval of the nodes' heartbeats. A node is considered lost after three missing ones."},

    {"features.store", text, "", "", "",
     "Store of profiles and the catalog: redis://[user:password@]host[:port][/database], or "
     "rediss:// for TLS, which several routers may share. Empty: node.data_dir."},
    {"features.login", text, "", "", "",
     "File with one line user:password, or :password, for the Redis of features.store, in "
     "place of a login in that address. Empty: none."},
    {"features.authority", text, "", "", "",
     "PEM file of the authorities that sign the certificate of the Redis server (rediss://). Empty: "
     "those of the system."},
    {"features.certificate", text, "", "", "",
     "PEM file of this process's certificate for a Redis server that requires one. Empty: none."},
    {"features.key", text, "", "", "", "PEM file of the key of features.certificate."},
    {"features.on_outage", choice, "refuse", "refuse|last_known", "",
     "What to do while Redis is unreachable. refuse: refuse requests. last_known: answer with "
     "the profile that this router read last and the catalog as of that moment; requests for "
     "users that it has not read are refused."},
    {"features.time_limit", duration, "200ms", "1ms..10s", "", "Time limit for a round trip to Redis."},
    {"features.wait_replicas", integer, "0", "0..16", "replicas",
     "Number of Redis replicas that must have a write before it is acknowledged."},
    {"features.freshness", choice, "exact", "exact|wait|behind", "",
     "Required freshness of profiles for requests that do not specify it. exact: as in the store "
     "now. wait: read within features.expiry, otherwise the request waits for a read. behind: "
     "whatever this router knows, possibly nothing; the store is read after the answer."},
    {"features.expiry", duration, "60s", "1ms..24h", "",
     "Time for which a profile that was read counts as fresh, for requests that accept cached "
     "profiles (features.freshness wait or behind)."},
    {"features.stale_for", duration, "10min", "0s..24h", "",
     "Time after its expiry for which a stale profile may still be used, for requests that do not "
     "wait."},
    {"features.unknown_expiry", duration, "5s", "1ms..24h", "",
     "Time for which a missing user is remembered as missing."},
    {"features.jitter", real, "0.1", "0..0.9", "",
     "Expiries are shortened by a random share up to this, so that profiles read together are not "
     "all read again together."},
    {"features.cache_memory", size, "64MiB", "0B..1TiB", "",
     "Maximum memory of a router's cache of profiles."},

    {"transfer.transports", text, "tcp", "", "",
     "Transports for pages between nodes, as in UCX_TLS: tcp, or with RDMA rc,ud,tcp."},
    {"transfer.devices", text, "", "", "",
     "Network devices for pages between nodes, as in UCX_NET_DEVICES, such as eth0. Empty: any."},
    {"transfer.encryption", choice, "auto", "auto|on|off", "",
     "Whether the pages that this node sends, and other nodes' requests to it for pages, are "
     "encrypted. auto: if it has cluster.certificates, since nodes exchange the keys over their TLS "
     "connections. off: for a trusted network."},

    {"router.policy", text, "planner", "", "",
     "Policy that chooses the plan of a request that does not name one: recompute (reuses "
     "nothing), user or item (always that prefix), larger (the longer prefix), bat (the BAT "
     "paper's rule) or planner (the best balance of time now and reuse later). For models that "
     "support them also causal (the plain prompt) and, with a repair, blocks or all_blocks "
     "(reuse at any position)."},
    {"router.shared_areas", boolean, "false", "", "",
     "Let user and item blocks share one memory under every policy, not only under planner; an item "
     "block then evicts another block only if it was wanted more often. For measuring this part of "
     "planner alone."},
    {"router.approximate", real, "0", "0..1", "",
     "Under planner, maximum share of a prompt's tokens that may be approximate if the request does "
     "not say. 0: only requests that ask for approximation get it."},
    {"router.requests_in_flight_max", integer, "256", "1..1000000", "requests",
     "Maximum number of unanswered requests; more are refused."},
    {"router.tenant_weights", text, "", "", "",
     "Weights of tenants in sharing busy workers, as TENANT=WEIGHT separated by commas, such as "
     "search=4,ads=0.5. Other tenants have weight 1. Each router applies them to its own requests."},
    {"router.tenants_max", integer, "256", "1..65536", "tenants",
     "Maximum number of tenants without a weight that are tracked separately at a time; further "
     "ones count as one tenant."},
    {"router.tenant_requests_max", integer, "0", "0..1000000", "requests",
     "Maximum number of unanswered requests per tenant; more are refused. 0: as "
     "router.requests_in_flight_max."},
    {"router.tenant_work_max", duration, "10s", "1ms..10min", "",
     "Maximum predicted compute time of a tenant's waiting requests, per executor of the workers; "
     "more is refused."},
    {"router.quantum", duration, "10ms", "100us..10s", "",
     "Predicted compute time of requests that a tenant of weight 1 may send to a worker before "
     "the next tenant is served."},
    {"router.window", duration, "2ms", "0s..10s", "",
     "Predicted compute time per executor that a router sends to a worker ahead of its answers, or "
     "more if good batches need it. Further requests wait at the router, where tenants get their "
     "shares. One plan more than executors is always sent."},
    {"router.routing", choice, "earliest", "earliest|affinity|hits|load|joint", "",
     "How the worker of a request is chosen. earliest: the one predicted to finish first. affinity: "
     "RcLLM's score, which weighs held blocks by router.affinity and load by the remainder. hits or "
     "load: only one of these. joint: HLEM's Algorithm 1, which weighs held blocks, load and table "
     "rows by the cost of misses."},
    {"router.affinity", real, "0.5", "0..1", "",
     "Weight of the held blocks in router.routing: affinity; the load has the remaining weight."},
    {"router.candidates_max", integer, "1000", "1..100000", "candidates",
     "Maximum number of candidates per request, and of items in its allow list and in its deny "
     "list, each."},
    {"router.width_max", integer, "512", "1..4096", "paths",
     "Maximum width of a request's beam search, and maximum number of items that it returns."},
    {"router.completion_tokens_max", integer, "256", "1..100000", "tokens",
     "Maximum number of tokens per completion of /v1/completions."},
    {"router.history_events_max", integer, "10000", "1..1000000", "events",
     "Maximum number of history events in a profile."},
    {"router.history_part", integer, "64", "0..65536", "tokens",
     "For generators and models whose tokens are items (HSTU and Climber): tokens per block of "
     "a user's history, so that earlier blocks stay usable when the history grows. 0: one "
     "block for the whole history. Routers with different values do not reuse each other's "
     "history blocks."},
    {"router.score_items_max", integer, "1024", "1..100000", "items",
     "Maximum number of items per /v1/score request."},
    {"router.score_labels_max", integer, "256", "1..100000", "tokens",
     "Maximum number of label tokens per /v1/score request."},
    {"router.request_tokens_max", integer, "262144", "1..16777216", "tokens",
     "Maximum number of tokens of a request, including all its parts."},
    {"router.deadline", duration, "2s", "1ms..10min", "",
     "Time from receipt to answer for requests that do not set a limit of their own "
     "(budget_us)."},
    {"router.deadline_max", duration, "10s", "1ms..10min", "",
     "Maximum time that a request may set from receipt to answer."},
    {"router.frequency_window", duration, "300s", "1s..24h", "",
     "Sliding window over which accesses of a user or item are counted."},
    {"router.needs_items", boolean, "true", "", "",
     "Whether a router whose catalog has no items reports not-ready. Use false for a router that "
     "only serves scores."},

    {"router.pull_share", real, "0.25", "0..1", "",
     "Time to pull a block from another node, as a share of the time to compute it, until it "
     "has been measured (router.measure_pulls). 1: blocks are never pulled."},
    {"router.measure_pulls", boolean, "true", "", "",
     "Whether measured pulls update the estimate that starts at router.pull_share. false: it stays "
     "fixed."},
    {"router.device", text, "", "", "",
     "Cost model for computing a block rather than pulling it: a profile of the workers' machines "
     "written by troupe bench calibrate, or the name of a known device. Empty: the measured time "
     "per token of the workers."},

    {"inference.executors", integer, "0", "0..256", "threads",
     "Number of batches computed at a time. 0: one per core, or two on a GPU."},
    {"inference.cores", integer, "0", "0..1024", "cores",
     "Cores that all batches may use together; a batch is spread over cores that other batches "
     "leave idle. 0: all."},
    {"inference.batch_tokens_max", integer, "4096", "1..1048576", "tokens",
     "Maximum number of computed tokens per batch; a larger request runs alone. While every "
     "executor runs a request of more than three full batches, one batch of small requests runs "
     "beside them."},
    {"inference.memory_max", size, "128MiB", "1MiB..16TiB", "",
     "Working memory of forward passes on the CPU. Each executor keeps a share, enough for one "
     "batch; one pass at a time may use all of it, at least what the model's longest prompt needs. "
     "A larger request is computed in several passes, or refused if it cannot be split: raise this "
     "for large /v1/score requests."},
    {"inference.beams", choice, "together", "together|copied|tree|sorted|unconstrained|plain", "",
     "How beam searches run on the CPU. together is the one to use; the others are baselines. "
     "copied: each path attends to the prompt by itself and has its own pages. tree: all tokens of "
     "all paths form one sequence under a mask. sorted: all continuations are sorted. "
     "unconstrained: any token may follow, and paths that are no items are dropped. plain: copied, "
     "sorted and unconstrained."},
    {"inference.overlap", boolean, "false", "", "",
     "Start a request while its blocks are still being pulled, if no other request is ready, and "
     "wait for them layer by layer. Blocks that do not arrive, or arrive damaged, are computed "
     "before the answer."},
    {"inference.queue_max", integer, "1024", "1..1000000", "requests",
     "Maximum number of requests that wait for an executor; more are refused."},

    {"http.address", text, "127.0.0.1", "", "",
     "Address on which the HTTP server listens; 0.0.0.0 makes it reachable from other machines."},
    {"http.port", integer, "8080", "0..65535", "", "Port of the HTTP server. 0: any free port."},
    {"http.connections_max", integer, "1024", "1..1000000", "connections",
     "Maximum number of open connections. Beyond it, a new connection closes the longest idle "
     "one of the address with the most connections. The process's limit of open files must be "
     "above this."},
    {"http.connections_per_address_max", integer, "256", "1..1000000", "connections",
     "Maximum number of open connections from one IPv4 address or one /64 of IPv6. A proxy counts "
     "as one address."},
    {"http.memory_max", size, "8MiB", "64KiB..16GiB", "",
     "Memory for requests and responses inside the HTTP server, at least twice http.body_bytes_max. "
     "When it is full, the largest request of the address with the most bytes is dropped."},
    {"http.header_bytes_max", size, "8KiB", "1KiB..1MiB", "", "Maximum size of a request's header."},
    {"http.body_bytes_max", size, "1MiB", "1KiB..1GiB", "", "Maximum size of a request's body."},
    {"http.timeout", duration, "10s", "10ms..10min", "",
     "Time limit for a client to send a request or to receive its response."},
    {"http.tls_certificate", text, "", "", "",
     "PEM file of the HTTP server's certificate chain: clients use TLS. Empty: no encryption. Read "
     "again at SIGHUP."},
    {"http.tls_key", text, "", "", "", "PEM file of the key of http.tls_certificate."},
    {"http.api_keys", text, "", "", "",
     "API keys: a file made by `troupe keys`, or redis://host… or rediss://… (login and "
     "certificates as for features.store). Every request except /v2/health/ then needs a key, "
     "which determines its tenant. Empty: no keys, and the header x-troupe-tenant names the "
     "tenant. Read again at SIGHUP."},
    {"http.api_keys_refresh", duration, "10s", "100ms..1h", "",
     "Interval at which keys in a Redis are read. While it is unreachable or has no keys, the keys "
     "read last stay valid."},
    {"http.tenant_rate", real, "0", "0..1000000", "requests/s",
     "Maximum requests per second of one tenant through this HTTP server, unless its key sets "
     "another. 0: no limit."},
    {"http.tenant_requests_max", integer, "0", "0..1000000", "requests",
     "Maximum number of unanswered requests of one tenant at this HTTP server, unless its key sets "
     "another. 0: no limit."},
    {"http.access_log", choice, "off", "off|errors|all", "",
     "Requests that are logged (event request, level info): none, those answered with status 400 or "
     "above, or all."},
    {"http.admin_routes", boolean, "false", "", "",
     "Serve /v1/models/reload and /v1/catalog/reload, and let every tenant put and delete items: "
     "any client may then change what is served. With http.api_keys, each key has this right or not."},
    {"http.catalog_tenant", text, "", "", "",
     "Tenant that may put and delete items, which all tenants share. Empty: requests without a "
     "tenant."},

    {"grpc.listen", text, "", "", "",
     "Address and port of the gRPC server for rankings, scores and generations, such as "
     "127.0.0.1:8081. Certificate, keys and limits are those of http. Refused by a program that was "
     "built without gRPC. Empty: no gRPC."},

    {"telemetry.collector", text, "", "", "",
     "OpenTelemetry collector that receives the spans of sampled requests as OTLP JSON over HTTP, "
     "such as http://10.0.0.9:4318. Empty: none."},
    {"telemetry.sampled", real, "0", "0..1", "",
     "Share of requests that are sampled among those whose client sends no trace (traceparent)."},
};

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit size_units[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                               {"TiB", 0x1p40}, {"B", 1},        {"", 1}};
constexpr Unit duration_units[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"min", 60e6}, {"h", 3600e6}};

template <class Number>
std::optional<double> parse_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return static_cast<double>(value);
}

std::optional<double> parse_with_unit(std::string_view text, std::span<const Unit> units) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string_view unit = text.substr(digits);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const auto number = parse_number<double>(text.substr(0, digits));
  const auto found = std::ranges::find(units, unit, &Unit::name);
  if (!number || found == units.end()) return std::nullopt;
  return *number * found->factor;
}

// Bounds and values of every kind of number fit a double exactly: all are below 2^53.
std::optional<double> parse_amount(SettingKind kind, std::string_view text) {
  if (kind == size) return parse_with_unit(text, size_units);
  if (kind == duration) return parse_with_unit(text, duration_units);
  return kind == real ? parse_number<double>(text) : parse_number<std::int64_t>(text);
}

bool in_range(const Setting& setting, double value) {
  const std::size_t dots = setting.range.find("..");
  const auto low = parse_amount(setting.kind, setting.range.substr(0, dots));
  const auto high = parse_amount(setting.kind, setting.range.substr(dots + 2));
  TROUPE_CHECK(low && high, setting.name);
  return *low <= value && value <= *high;
}

bool is_choice(std::string_view choices, std::string_view word) {
  while (!choices.empty()) {
    const std::string_view first = choices.substr(0, choices.find('|'));
    if (first == word) return true;
    choices.remove_prefix(std::min(first.size() + 1, choices.size()));
  }
  return false;
}

std::optional<SettingValue> value_of(const Setting& setting, std::string_view text) {
  switch (setting.kind) {
    case SettingKind::text:
      return SettingValue(std::string(text));
    case choice:
      if (!is_choice(setting.range, text)) return std::nullopt;
      return SettingValue(std::string(text));
    case boolean:
      if (text != "true" && text != "false") return std::nullopt;
      return SettingValue(text == "true");
    default:
      break;
  }
  const auto amount = parse_amount(setting.kind, text);
  if (!amount || !in_range(setting, *amount)) return std::nullopt;
  if (setting.kind == real) return SettingValue(*amount);
  if (*amount != std::floor(*amount)) return std::nullopt;
  return SettingValue(static_cast<std::int64_t>(*amount));
}

}  // namespace

std::span<const Setting> setting_table() { return settings; }

const Setting* find_setting(std::string_view name) {
  const auto found = std::ranges::find(settings, name, &Setting::name);
  return found == std::end(settings) ? nullptr : found;
}

std::variant<SettingValue, SettingError> parse_setting(const Setting& setting, std::string_view text) {
  if (auto value = value_of(setting, text)) return std::move(*value);
  return SettingError{expected_of(setting)};
}

std::string expected_of(const Setting& setting) {
  std::string range(setting.range);
  switch (setting.kind) {
    case text:
      return "text";
    case boolean:
      return "true or false";
    case choice:
      for (std::size_t at = 0; (at = range.find('|', at)) != range.npos; at += 3) range.replace(at, 1, " | ");
      return range;
    case size:
      return range + " (B, KiB, MiB, GiB, TiB)";
    case duration:
      return range + " (us, ms, s, min, h)";
    case integer:
      return range + (setting.unit.empty() ? "" : " " + std::string(setting.unit));
    case real:
      return range;
  }
  return range;
}

}  // namespace troupe
