#include "runtime/config/knobs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "kernels/base/check.h"

namespace troupe {
namespace {

using enum KnobKind;

constexpr Knob knobs[] = {
    {"node.data_dir", text, "", "", "",
     "Where profiles, the catalog and saved blocks are kept; must be set to serve."},
    {"node.log_level", choice, "info", "debug|info|warning|error", "", "The least level that is logged."},
    {"node.log_file", text, "", "", "", "Log lines are appended here; empty: they go to standard error."},
    {"node.log_file_max", size, "0B", "0B..1TiB", "",
     "When node.log_file is as large, it is set aside as FILE.1 and begun anew; 0: never."},
    {"node.log_files", integer, "5", "1..1000", "files", "So many of those set aside are kept."},

    {"node.notice", duration, "0s", "0s..10min", "",
     "At its end a node says for so long that it is not ready, before it refuses requests: for load "
     "balancers."},
    {"node.drain_limit", duration, "30s", "0s..10min", "",
     "Then it ends what it has begun, but waits no longer than this."},
    {"node.leave_for", duration, "30s", "0s..1h", "",
     "A worker that leaves the cluster (troupe leave) lets others pull its blocks for so long at least, and "
     "until its users' blocks are "
     "handed on and routers say that item blocks are where they belong without it."},
    {"node.leave_limit", duration, "10min", "0s..24h", "", "But it waits no longer than this."},

    {"model.directory", text, "", "", "",
     "Hugging Face model directory: config.json and safetensors; must be set to serve."},
    {"model.prompt", text, "", "", "", "Prompt file; empty: the one in the model directory."},
    {"model.prototypes", text, "", "", "",
     "File of what stands for tokens of histories (troupe prototypes), of this model; the same on all nodes. "
     "Empty: none."},
    {"model.tables", choice, "memory", "memory|mapped|sharded", "",
     "Where the item embedding of an HSTU or Climber model, or a ranker's prototypes are: in memory, or left "
     "in their file and mapped. Then each "
     "pass gets its rows from there, but for those that the pool's row area has (pool.row_share). Sharded: "
     "as mapped, but an item "
     "embedding is spread over the pools of the cluster's workers, in blocks of a page, and read from its "
     "file where none of them has a row."},
    {"model.table_bandwidth", size, "0B", "0B..16TiB", "",
     "Most bytes a second that come from a mapped table, to try what a slower disk or link would do; 0: as "
     "many as come."},
    {"model.table_refill", size, "64MiB", "0B..16TiB", "",
     "Bytes a second at which pages that the row area gets are filled with the rows that went last, less "
     "what passes miss; 0: "
     "only what they miss comes."},
    {"model.versions", text, "", "", "",
     "Folder with a model directory for each version, named by it: what /v1/models/reload may name. Empty: "
     "the "
     "model of the start stays."},
    {"model.weights", choice, "f32", "f32|int8", "",
     "How linear layers are kept and multiplied. int8 takes a quarter of the memory and is faster; logits "
     "move "
     "a little. On a GPU: f32, which means model.device_format."},
    {"model.device", text, "cpu", "", "",
     "What computes: cpu, cuda or cuda:N (GPU number N). A GPU needs pool.kv_format bf16 or f16 for "
     "decoders; all workers "
     "of "
     "a cluster have the same kind."},
    {"model.device_format", choice, "bf16", "bf16|f16", "",
     "How a GPU keeps weights and activations; f16 is finer, but ends at 65504."},

    {"pool.memory", size, "256MiB", "1MiB..16TiB", "",
     "Memory for cached keys and values; taken once, at start."},
    {"pool.page_tokens", integer, "4", "1..256", "tokens",
     "Tokens in a page. Small pages waste less on short items, large ones need less bookkeeping."},
    {"pool.kv_format", choice, "f32", "f32|f16|bf16", "",
     "How keys and values are stored. Both halves fit twice the blocks into pool.memory; f16 is finer, but "
     "overflows above 65504, which is then refused; bf16 has the range of f32, with 8 bits of precision. On "
     "a GPU f32 is for HSTU and Climber."},
    {"pool.device_bytes", size, "0B", "0B..16TiB", "",
     "Memory of the GPU for copies of the blocks in pool.memory that are used most; 0: half of what the "
     "model "
     "leaves free there, at most as much as pool.memory."},
    {"pool.item_share", real, "0.5", "0..1", "",
     "Share of the pages that the item area gets at start; users get the rest. Under the policy planner they "
     "borrow of each other."},
    {"pool.row_share", real, "0", "0..1", "",
     "Share of the pages that rows of embedding tables get at start, behind pool.item_share; only with "
     "model.tables: mapped or sharded."},
    {"pool.split", text, "", "", "",
     "How the areas' boundary is decided anew every pool.split_window: marginal (a page goes where it saves "
     "most time), "
     "static:SHARE, pid, bayes, or, of pool.split_trained, smart, ppo, ppo+adapter or trees. Empty: it "
     "stays, and moves by what areas lend."},
    {"pool.split_trained", text, "", "", "",
     "File that troupe train wrote (deploy/policies/split.txt), for the policies that learned."},
    {"pool.split_objective", duration, "100ms", "1ms..10min", "",
     "Time for which a request may hold its blocks, for policies of pool.split that go by latencies."},
    {"pool.split_window", duration, "5s", "100ms..1h", "", "Time between two decisions of pool.split."},
    {"pool.verify_on_read", boolean, "false", "", "",
     "Check a cached block's checksum each time it is read; on a GPU, each time it is brought there. Without "
     "it: where its bytes came into memory, before its first use, by pool.check_reads and "
     "pool.scrub_interval."},
    {"pool.check_reads", real, "0.01", "0..1", "",
     "Share of the reads of cached blocks for which the checksum is checked although it was before."},
    {"pool.scrub_interval", duration, "60s", "0s..24h", "",
     "All cached blocks are checked once in this time, in small pieces: so long may a bit that flips in "
     "memory "
     "stay unseen. 0: none are."},
    {"pool.scrub_cost", real, "0.02", "0.001..1", "",
     "Most of one core that this takes. If it is too little for pool.scrub_interval, a round takes longer."},
    {"pool.store_item_blocks", boolean, "true", "", "",
     "Keep item blocks in node.data_dir, so that a restart is warm."},
    {"pool.store_bytes_max", size, "64GiB", "1MiB..16TiB", "", "Most that saved blocks may take on disk."},
    {"pool.precompute_items", boolean, "true", "", "",
     "Compute item blocks in the background while nothing else runs."},
    {"pool.placement", text, "any", "", "",
     "Where item blocks are computed ahead: any (one worker after the other), replicate, hash, or a plan "
     "that "
     "troupe plan --json wrote (FILE or FILE:NAME)."},
    {"pool.hot_share", real, "0.001", "0..1", "",
     "An item with this share of the item accesses belongs to all workers, wherever pool.placement has it, "
     "until it has less than half of that; 0: none does."},

    {"store.on_damage", choice, "refuse", "refuse|start", "",
     "When files of profiles or the catalog in node.data_dir are damaged at the start: refuse, and change "
     "nothing; or "
     "start with what is whole, set the damaged store aside, and list what was lost."},

    {"cluster.name", text, "troupe", "", "", "Processes of another cluster are turned away."},
    {"cluster.coordination", text, "", "", "",
     "URLs of etcd, with commas between, such as http://10.0.0.9:2379; empty: a file in node.data_dir, "
     "for a process that is alone."},
    {"cluster.coordination_login", text, "", "", "",
     "File with one line user:password, of an etcd that asks for a login; empty: none."},
    {"cluster.coordination_authority", text, "", "", "",
     "PEM file of the authorities that sign etcd's certificate, where its URLs are https; empty: those that "
     "the system knows."},
    {"cluster.coordination_certificate", text, "", "", "",
     "PEM file of this process's certificate for an etcd that asks for one; empty: none."},
    {"cluster.coordination_key", text, "", "", "", "PEM file of that certificate's key."},
    {"cluster.certificates", text, "", "", "",
     "Folder with ca.pem and each node's NAME.pem and NAME.key (`troupe certs` makes them): nodes speak TLS; "
     "empty: in the clear."},
    {"cluster.listen_address", text, "", "", "",
     "Where a node listens for the others; empty: at its host in the list of nodes if that is an IP address, "
     "else everywhere."},
    {"cluster.heartbeat", duration, "200ms", "10ms..1min", "",
     "How often nodes say that they live; three silent ones are taken for a loss."},

    {"features.store", text, "", "", "",
     "Where profiles and the catalog are: redis://[user:password@]host[:port][/database], or rediss:// for "
     "TLS, which several "
     "routers may share; empty: in node.data_dir."},
    {"features.login", text, "", "", "",
     "File with one line user:password, or :password, of that Redis: then none stands in its address. Empty: "
     "none."},
    {"features.authority", text, "", "", "",
     "PEM file of the authorities that sign the Redis's certificate (rediss://); empty: those that the "
     "system knows."},
    {"features.certificate", text, "", "", "",
     "PEM file of this process's certificate for a Redis that asks for one; empty: none."},
    {"features.key", text, "", "", "", "PEM file of that certificate's key."},
    {"features.when_away", choice, "refuse", "refuse|last_known", "",
     "While Redis is away: refuse, or answer from what this router has read, as it was at one point."},
    {"features.time_limit", duration, "200ms", "1ms..10s", "", "For a round trip to Redis."},
    {"features.wait_replicas", integer, "0", "0..16", "replicas",
     "Replicas of Redis that must have a write before it is answered."},
    {"features.freshness", choice, "exact", "exact|wait|behind", "",
     "How new profiles have to be for requests that do not say: as they are in the store; read within "
     "features.expiry, else waited for; or whatever is known here, else nothing, and the store is asked "
     "behind."},
    {"features.expiry", duration, "60s", "1ms..24h", "",
     "How long a profile that was read is as good as in the store, for requests that take such."},
    {"features.stale_for", duration, "10min", "0s..24h", "",
     "How long after its expiry a profile is still answered with, for requests that do not wait."},
    {"features.unknown_expiry", duration, "5s", "1ms..24h", "",
     "How long a user that was not there stays so."},
    {"features.jitter", real, "0.1", "0..0.9", "",
     "Expiries are shorter by up to this share, so that what was read together is not read together again."},
    {"features.cache_memory", size, "64MiB", "0B..1TiB", "", "For profiles with an expiry."},

    {"transfer.transports", text, "tcp", "", "",
     "How pages go between nodes, in UCX's words (UCX_TLS): tcp, or with RDMA rc,ud,tcp."},
    {"transfer.devices", text, "", "", "",
     "Network devices that pages go over, in UCX's words (UCX_NET_DEVICES), such as eth0; empty: any."},
    {"transfer.encryption", choice, "auto", "auto|on|off", "",
     "Whether the pages that this node sends, and what is asked of it, are encrypted. auto: where it has "
     "cluster.certificates, for the keys go "
     "over these links. off: the network that carries pages is trusted."},

    {"router.policy", text, "planner", "", "",
     "How the plan of a request is chosen that does not say: recompute, user, item, larger, bat or "
     "planner; or, for models that rank so, causal, blocks or all_blocks with a repair."},
    {"router.undivided", boolean, "false", "", "",
     "Users' and items' memory is one under every policy, not only under planner, and an item's block "
     "displaces another only "
     "if it was wanted more often: what that part of planner is good for by itself."},
    {"router.approximate", real, "0", "0..1", "",
     "Under planner, of a prompt's tokens the largest share that may be approximate where a request does not "
     "say. 0: only "
     "those who ask get an approximate answer."},
    {"router.requests_in_flight_max", integer, "256", "1..1000000", "requests",
     "More than these are refused."},
    {"router.tenant_weights", text, "", "", "",
     "Shares of tenants in workers that are busy, as TENANT=WEIGHT with commas between, such as "
     "search=4,ads=0.5; "
     "who is not named has 1. Each router shares out what it sends."},
    {"router.tenants_max", integer, "256", "1..65536", "tenants",
     "Tenants without a weight that are told apart at a time; what others send counts as one tenant's."},
    {"router.tenant_requests_max", integer, "0", "0..1000000", "requests",
     "Of one tenant, without an answer; more are refused. 0: as many as router.requests_in_flight_max."},
    {"router.tenant_work_max", duration, "10s", "1ms..10min", "",
     "Predicted work of one tenant that waits for its turn, for each lane of the workers; more is refused."},
    {"router.turn", duration, "10ms", "100us..10s", "",
     "Predicted work of a tenant of weight 1 that goes to a worker before it is the next one's turn."},
    {"router.window", duration, "2ms", "0s..10s", "",
     "Predicted work for each lane of a worker that a router sends ahead, or as much as makes good batches; "
     "the rest "
     "waits at the router, where tenants have their shares. One plan more than lanes is always sent."},
    {"router.routing", choice, "earliest", "earliest|affinity|hits|load|joint", "",
     "By what a request's worker is chosen: who would be done first; RcLLM's score, router.affinity of what "
     "it holds less the "
     "rest of its load; one of these alone; or HLEM's Algorithm 1, which weighs them and the rows that are "
     "there by what misses cost."},
    {"router.affinity", real, "0.5", "0..1", "",
     "Weight of what a worker holds in that score; its load has the rest."},
    {"router.candidates_max", integer, "1000", "1..100000", "candidates",
     "Most candidates of one request, and most items that one allows or denies."},
    {"router.width_max", integer, "512", "1..4096", "paths",
     "Widest beam search of one request, and most items of it."},
    {"router.completion_tokens_max", integer, "256", "1..100000", "tokens",
     "Most tokens of each completion of /v1/completions."},
    {"router.history_events_max", integer, "10000", "1..1000000", "events",
     "Most history events of a profile."},
    {"router.history_part", integer, "64", "0..65536", "tokens",
     "Where items are generated, or tokens are items, a user's history is kept in parts of so many tokens, "
     "which serve it when it has grown, "
     "too; 0: as a whole. All routers should have the same."},
    {"router.score_items_max", integer, "1024", "1..100000", "items", "Most items of one /v1/score."},
    {"router.score_labels_max", integer, "256", "1..100000", "tokens", "Most label tokens of one /v1/score."},
    {"router.request_tokens_max", integer, "262144", "1..16777216", "tokens",
     "Most tokens of one request, all its parts together."},
    {"router.deadline", duration, "2s", "1ms..10min", "",
     "From receipt to answer, when a request does not say."},
    {"router.deadline_max", duration, "10s", "1ms..10min", "",
     "Longest deadline that a request may ask for."},
    {"router.frequency_window", duration, "300s", "1s..24h", "",
     "Sliding window over which accesses of a user or item are counted."},
    {"router.needs_items", boolean, "true", "", "",
     "Whether a router whose catalog has no items says that it is not ready; false: of one that only "
     "scores."},

    {"router.pull_share", real, "0.25", "0..1", "",
     "Time to pull a block from another node, of the time to compute it, until requests have measured it; "
     "1: nothing is pulled."},
    {"router.measure_pulls", boolean, "true", "", "",
     "Whether requests measure that; false: router.pull_share stays as it is."},
    {"router.device", text, "", "", "",
     "Profile of the workers' machines that troupe bench calibrate wrote, or a known device: computing a "
     "block, beside a pull of it, takes as long as it says; empty: as long as workers take for a token."},

    {"inference.executors", integer, "0", "0..256", "threads",
     "Batches computed at a time; 0: one per core, or two on a GPU."},
    {"inference.cores", integer, "0", "0..1024", "cores",
     "Cores that batches may use together: one batch is split when others leave cores idle; 0: all."},
    {"inference.batch_tokens_max", integer, "4096", "1..1048576", "tokens",
     "Computed tokens that are put into one batch; a larger request runs alone, and while all executors have "
     "requests of more "
     "than three batches, a batch of small ones runs beside them."},
    {"inference.memory_max", size, "128MiB", "1MiB..16TiB", "",
     "Working memory of forward passes on the CPU. Each executor keeps its share, at least for a batch; one "
     "pass at a "
     "time may take all, at least for the longest prompt of the model. A request beyond that is computed in "
     "several "
     "passes, or refused if it cannot be cut: raise it for large /v1/score requests."},
    {"inference.beams", choice, "together", "together|copied|tree|sorted|unconstrained|plain", "",
     "How beam searches run on the CPU. All but together are what it is measured by: each path attends to "
     "the prompt by "
     "itself and has pages of its own (copied), all tokens of all paths are one sequence under a mask "
     "(tree), all "
     "continuations are sorted (sorted), all tokens may follow and what is no item is dropped "
     "(unconstrained), or copied, "
     "sorted and unconstrained (plain)."},
    {"inference.overlap", boolean, "false", "", "",
     "A request begins while its blocks are on their way from other nodes, if nothing else is ready, and "
     "waits for them layer "
     "by layer. What does not come, or comes damaged, is computed before anything is answered."},
    {"inference.queue_max", integer, "1024", "1..1000000", "requests",
     "Requests that wait for an executor; more are refused."},

    {"http.address", text, "127.0.0.1", "", "",
     "Address to listen on; 0.0.0.0 opens the door to other machines."},
    {"http.port", integer, "8080", "0..65535", "", "0: any free one."},
    {"http.connections_max", integer, "1024", "1..1000000", "connections",
     "When so many are open, who waits longest of the address with the most is closed for a new one. Needs "
     "as many "
     "open files."},
    {"http.connections_per_address_max", integer, "256", "1..1000000", "connections",
     "The same for those from one IPv4 address, or one /64 of IPv6: a proxy's too."},
    {"http.memory_max", size, "8MiB", "64KiB..16GiB", "",
     "Memory for requests and responses on their way through the door; when it is full, the largest request "
     "of the "
     "address with the most bytes goes. At least two of http.body_bytes_max are taken."},
    {"http.header_bytes_max", size, "8KiB", "1KiB..1MiB", "", "Longest header of a request."},
    {"http.body_bytes_max", size, "1MiB", "1KiB..1GiB", "", "Longest body of a request."},
    {"http.timeout", duration, "10s", "10ms..10min", "",
     "For a client to send a request or to take its response."},
    {"http.tls_certificate", text, "", "", "",
     "PEM file of the door's certificate and those that sign it: clients speak TLS. Empty: in the clear. "
     "Read again at SIGHUP."},
    {"http.tls_key", text, "", "", "", "PEM file of that certificate's key."},
    {"http.api_keys", text, "", "", "",
     "File of API keys (troupe keys), or redis://host… or rediss://… (with login and certificates as "
     "features.store): who asks "
     "needs one, and is its tenant; only /v2/health/ is for everybody. Empty: nobody needs one, and a header "
     "names the tenant. "
     "Read again at SIGHUP."},
    {"http.api_keys_refresh", duration, "10s", "100ms..1h", "",
     "How often keys in a Redis are read. While it is away, or has none, those that were read last go on."},
    {"http.tenant_rate", real, "0", "0..1000000", "requests/s",
     "Most requests a second of one tenant through this door, unless its key says another; 0: any."},
    {"http.tenant_at_once", integer, "0", "0..1000000", "requests",
     "Most requests of one tenant at this door that have no answer yet, unless its key says another; 0: "
     "any."},
    {"http.access_log", choice, "off", "off|errors|all", "",
     "Of which requests the log has a line (event request, level info): none, those answered with 400 and "
     "above, or all."},
    {"http.admin_routes", boolean, "false", "", "",
     "Serve /v1/models/reload and /v1/catalog/reload, and let every tenant put and delete items: whoever "
     "reaches "
     "the door may change what is served. With http.api_keys each key says it for itself."},
    {"http.catalog_tenant", text, "", "", "",
     "The tenant that may put and delete items, which all tenants share; empty: requests without a tenant."},

    {"grpc.listen", text, "", "", "",
     "Where rankings, scores and generations are taken over gRPC, such as 127.0.0.1:8081; empty: nowhere. "
     "Certificate, keys and limits "
     "are those of http. A program that was built without gRPC refuses it."},

    {"telemetry.collector", text, "", "", "",
     "Where spans of recorded requests go: an OpenTelemetry collector that takes OTLP as JSON over HTTP, "
     "such as "
     "http://10.0.0.9:4318; empty: nowhere."},
    {"telemetry.sampled", real, "0", "0..1", "",
     "Of the requests whose client says nothing of a trace (traceparent), the share that is recorded."},
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
std::optional<double> parse_amount(KnobKind kind, std::string_view text) {
  if (kind == size) return parse_with_unit(text, size_units);
  if (kind == duration) return parse_with_unit(text, duration_units);
  return kind == real ? parse_number<double>(text) : parse_number<std::int64_t>(text);
}

bool in_range(const Knob& knob, double value) {
  const std::size_t dots = knob.range.find("..");
  const auto low = parse_amount(knob.kind, knob.range.substr(0, dots));
  const auto high = parse_amount(knob.kind, knob.range.substr(dots + 2));
  TROUPE_CHECK(low && high, knob.name);
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

std::optional<KnobValue> value_of(const Knob& knob, std::string_view text) {
  switch (knob.kind) {
    case KnobKind::text:
      return KnobValue(std::string(text));
    case choice:
      if (!is_choice(knob.range, text)) return std::nullopt;
      return KnobValue(std::string(text));
    case boolean:
      if (text != "true" && text != "false") return std::nullopt;
      return KnobValue(text == "true");
    default:
      break;
  }
  const auto amount = parse_amount(knob.kind, text);
  if (!amount || !in_range(knob, *amount)) return std::nullopt;
  if (knob.kind == real) return KnobValue(*amount);
  if (*amount != std::floor(*amount)) return std::nullopt;
  return KnobValue(static_cast<std::int64_t>(*amount));
}

}  // namespace

std::span<const Knob> knob_table() { return knobs; }

const Knob* find_knob(std::string_view name) {
  const auto found = std::ranges::find(knobs, name, &Knob::name);
  return found == std::end(knobs) ? nullptr : found;
}

std::variant<KnobValue, KnobFault> parse_knob(const Knob& knob, std::string_view text) {
  if (auto value = value_of(knob, text)) return std::move(*value);
  return KnobFault{expected_of(knob)};
}

std::string expected_of(const Knob& knob) {
  std::string range(knob.range);
  switch (knob.kind) {
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
      return range + (knob.unit.empty() ? "" : " " + std::string(knob.unit));
    case real:
      return range;
  }
  return range;
}

}  // namespace troupe
