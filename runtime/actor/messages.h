#pragma once
// Messages between actors, as plain structs. The wire form is Cap'n Proto (runtime/wire/schema/,
// one file per conversation); only runtime/wire/codec.cc knows both. Durations cross hosts,
// absolute times never. Messages never carry tensors: they name pages by id and generation.
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/base/plan.h"
#include "runtime/actor/block_use.h"
#include "runtime/actor/identity.h"
#include "runtime/actor/stored_messages.h"
#include "runtime/actor/trace_context.h"

namespace troupe {

using kernels::Beam, kernels::Plan, kernels::Readout, kernels::Repair, kernels::Search,
    kernels::VisibleSegments, kernels::Segment, kernels::SegmentKind, kernels::Token, kernels::Tokens;

// ---- serving.capnp: HTTP server ↔ router, router ↔ inference worker

// A typed rejection. `status` is the HTTP status of the answer; `code` is a stable word for
// programs.
struct Refusal {
  std::uint16_t status = 500;
  // e.g. "unknown_user", "unknown_item", "repeated_candidate", "too_many_candidates", "overloaded"
  std::string code;
  std::string what;      // what is wrong
  std::string where;     // the field, file or actor concerned
  std::string expected;  // what a valid input would be
  // seconds that a client should wait before a retry, sent as an HTTP header; 0 = unknown
  std::uint16_t retry_after_s = 0;
  bool operator==(const Refusal&) const = default;
};

struct RankRequest {
  RequestId id = 0;
  std::string tenant;  // "" = the default tenant
  std::string user;
  std::vector<std::string> candidates;  // item ids
  std::uint32_t top_k = 0;              // items to return; 0 = all candidates
  std::string policy;                   // recompute | user | item | bat | …; "" = the configured policy
  std::int64_t budget_us = 0;           // microseconds from receipt to answer; 0 = the configured budget
  // seconds since 1970, for models that use times; 0 = the HTTP server sets the present
  std::int64_t request_timestamp = 0;
  // Maximum share of the prompt's tokens that may be approximate (Repair); negative = no limit
  // beyond the policy's.
  double approximate = -1;
  std::uint32_t scenario = 0;  // scenario of the request, for models that distinguish scenarios
  std::string task;            // name of the model's task that orders the candidates; "" = the first one
  std::string features;        // required freshness of features: exact | wait | behind; "" = as configured
  std::string unknown;         // treatment of candidates missing from the catalog: refuse | skip; "" = refuse
  // history of a user without a profile, in place of `user`: item ids, oldest first
  std::vector<std::string> history;
  TraceContext trace;
  bool operator==(const RankRequest&) const = default;
};

struct RankedItem {
  std::string id;
  std::string title;
  double score = 0;  // logit of the item's identifier token at the discriminant token, or score of a task
  double probability = 0;           // softmax of the scores over this request's candidates (BAT §2.2)
  std::vector<double> task_scores;  // parallel to RankReply::tasks
  bool operator==(const RankedItem&) const = default;
};

struct Timings {  // microseconds of each step; the steps follow one another
  std::int64_t features = 0, lookup = 0, blocks = 0, queue = 0, compute = 0, total = 0;
  std::int64_t pull = 0;  // part of `blocks`: until blocks of other nodes had arrived
  // the router's estimate, when it chose the node, of the time until the answer; 0 = none
  std::int64_t predicted = 0;
  std::int64_t turn = 0;  // between lookup and blocks: waiting at the router for a worker
  bool operator==(const Timings&) const = default;
};

struct RankReply {
  RequestId id = 0;
  std::string user;
  std::vector<RankedItem> items;  // best first; ties in candidate order
  std::string policy;             // policy that chose the plan
  std::string plan;               // plan that was run: "user", "item", …
  std::uint32_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0;
  std::uint32_t blocks_reused = 0, blocks_written = 0;
  std::uint32_t history_cut = 0;  // history events dropped (oldest first) to fit the model's positions
  std::string model_version, catalog_version;
  std::uint64_t profile_version = 0;
  NodeId node = 0;  // node that ran the plan
  Timings timings;
  // share of the prompt's tokens whose keys and values come from blocks computed apart
  double approximate = 0;
  std::vector<std::string> tasks;  // names of the model's tasks; empty = a single task without a name
  // 1 if the answer used stale features, or had none
  std::uint32_t features_stale = 0, features_missing = 0;
  std::vector<std::string> skipped;  // candidates missing from the catalog
  bool operator==(const RankReply&) const = default;
};

// Scores of label tokens after query + item, item by item (a request form that other engines
// offer).
struct TokenList {
  std::vector<Token> tokens;
  bool operator==(const TokenList&) const = default;
};
struct ScoreRequest {
  RequestId id = 0;
  std::string tenant;
  std::vector<Token> query;
  std::vector<TokenList> items;
  std::vector<Token> label_tokens;
  bool apply_softmax = false;  // over the label tokens
  std::int64_t budget_us = 0;
  TraceContext trace;
  bool operator==(const ScoreRequest&) const = default;
};
struct ScoreRow {
  std::vector<double> scores;  // one per label token
  bool operator==(const ScoreRow&) const = default;
};
struct ScoreReply {
  RequestId id = 0;
  std::vector<ScoreRow> items;
  std::uint32_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0;
  std::string model_version;
  Timings timings;
  bool operator==(const ScoreReply&) const = default;
};

// Asks for items of the whole catalog that a user may want next: those whose identifiers (their
// tokens) a beam search finds most probable behind the user's history.
struct GenerateRequest {
  RequestId id = 0;
  std::string tenant;  // "" is the default tenant
  std::string user;
  std::uint32_t top_k = 0;         // items to return; 0 = the default number
  std::uint32_t width = 0;         // paths kept at each step; 0 = the default number
  bool exclude_seen = false;       // excludes items whose identifiers are in the history
  std::vector<std::string> allow;  // item ids to choose from; empty = the whole catalog
  std::vector<std::string> deny;   // item ids to exclude; unknown ids are ignored
  // probabilities over the tokens that may follow, instead of the whole vocabulary
  bool among_allowed = false;
  std::int64_t budget_us = 0;  // microseconds from receipt to answer; 0 = the configured budget
  bool logprobs = false;       // the answer includes the log probability of each token
  std::string features;        // as RankRequest::features
  TraceContext trace;
  bool operator==(const GenerateRequest&) const = default;
};
struct GeneratedItem {
  std::string id, title;
  std::vector<Token> tokens;  // its identifier
  double log_probability = 0;
  std::vector<double> by_token = {};  // one per token, if requested
  bool operator==(const GeneratedItem&) const = default;
};
struct GenerateReply {
  RequestId id = 0;
  std::string user;
  // best first; items that share an identifier are in the order of their ids, compared as texts
  std::vector<GeneratedItem> items;
  std::string reason;       // why there are fewer items than requested; "" = there are enough
  std::uint32_t width = 0;  // width of the search
  std::uint32_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0;  // tokens of the prompt
  std::uint32_t blocks_reused = 0, blocks_written = 0;
  std::uint32_t history_cut = 0;  // history events dropped (oldest first) to fit the model's positions
  std::string model_version, catalog_version;
  std::uint64_t profile_version = 0;
  NodeId node = 0;  // node that ran the plan
  Timings timings;
  std::uint32_t features_stale = 0, features_missing = 0;  // as in RankReply
  bool operator==(const GenerateReply&) const = default;
};

// Asks a generator for the most probable continuations of a prompt that a beam search finds, in a
// form that other engines offer. The catalog is used only if `items` is set.
struct CompleteRequest {
  RequestId id = 0;
  std::string tenant;  // "" is the default tenant
  std::string model;   // model version; "" = the served one
  std::vector<Token> prompt;
  std::uint32_t max_tokens = 16;  // exact length of each completion; with `items`, the maximum length
  std::uint32_t n = 1;            // completions to return
  std::uint32_t beam_width = 0;   // paths kept at each step; 0 = n; 1 = greedy decoding
  bool items = false;             // only identifiers of the catalog are completions
  bool logprobs = false;          // the answer includes log probabilities
  std::int64_t budget_us = 0;     // microseconds from receipt to answer; 0 = the configured budget
  TraceContext trace;
  bool operator==(const CompleteRequest&) const = default;
};
struct CompleteReply {
  RequestId id = 0;
  std::vector<Beam> completions;  // most probable first; fewer than `n` only if there are no more
  std::uint32_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0;  // tokens of the prompt
  bool logprobs = false, items = false;                                    // as in the request
  std::string model_version, catalog_version;                              // the catalog's only with `items`
  NodeId node = 0;                                                         // node that ran the plan
  Timings timings;
  bool operator==(const CompleteReply&) const = default;
};

// Operator's command: serve another model or catalog from now on; "" keeps the present one.
// Answered when every live worker has loaded it and no request of this router runs on the old
// version any more (promise 4).
struct Reload {
  RequestId id = 0;
  std::string model_version, catalog_version;
  // share of users that get the model; below 1 the present model keeps serving the others
  double share = 1;
  bool operator==(const Reload&) const = default;
};
struct Stored {  // answer to writes and reloads
  RequestId id = 0;
  // version of the profile or the catalog; for Reload, the epoch of the versions
  std::uint64_t version = 0;
  bool operator==(const Stored&) const = default;
};

struct Refused {  // answer to any request above
  RequestId id = 0;
  Refusal refusal;
  bool operator==(const Refused&) const = default;
};

// Block under which the keys and values of a plan's segment may be reused.
struct SegmentBlock {
  std::optional<BlockName> name;  // absent = never reused, never kept
  std::string owner;              // user or item id that owns the block; "" = the system segment
  NodeId at = 0;                  // another node that is reported to hold the block; 0 = none known
  bool operator==(const SegmentBlock&) const = default;
};

enum class Priority : std::uint8_t { serving, background };

// Tells the KV-cache worker which blocks may be evicted for a request's blocks, and how long those
// are worth keeping. The sender of the plan fills it; the inference worker forwards it.
struct Retention {
  // coldest user blocks, evicted first if pages are needed (BAT §5.3)
  std::vector<BlockName> evict_first;
  // All areas share one LRU; copies that other nodes have are evicted earlier. An item's block is
  // kept only if it was wanted more often lately than the blocks it would evict. A user's block is
  // always kept, since the sender of the plan weighed it.
  bool keep_hotter = false;
  bool belongs = false;  // the blocks belong on this node: pulled ones, too, evict others and stay
  // with `keep_hotter`: cost of pulling a block again relative to computing it, 0 to 1
  double copy_worth = 0;
  // The user's home is another node, or the home was told of this request: this node does not count
  // the savings of keeping the user's blocks.
  bool remote_home = false;
  // Blocks of users whose home is this node, but whose recent requests ran elsewhere: the savings
  // that keeping them here would have brought.
  std::vector<BlockUse> elsewhere;
  bool operator==(const Retention&) const = default;
};

// Router → inference worker. Answered by Executed or Refused.
struct Execute {
  RequestId id = 0;
  Priority priority = Priority::serving;
  std::int64_t budget_us = 0;
  // Versions that the plan was made for and is computed with; a worker that lacks one of them
  // refuses. An empty catalog version: the plan uses the catalog only through its tokens.
  std::string model_version, catalog_version;
  bool alone = false;  // runs in a batch of its own, because a worker was lost while it ran (promise 12)
  Plan plan;
  std::vector<SegmentBlock> blocks;  // one per segment of the plan
  Retention retention;
  TraceContext trace;
  bool operator==(const Execute&) const = default;
};
struct Executed {
  RequestId id = 0;
  std::vector<ScoreRow> readouts;    // logits, one row per readout
  std::vector<std::uint8_t> reused;  // per segment: 1 if its block was reused
  std::uint32_t blocks_written = 0;
  std::int64_t blocks_us = 0, queue_us = 0, compute_us = 0;
  std::string model_version;  // version that computed it
  std::int64_t pull_us = 0;   // part of blocks_us: until blocks of other nodes had arrived
  std::vector<Beam> beams;    // beams of the plan's search, best first
  bool operator==(const Executed&) const = default;
};

// ---- cache.capnp: router ↔ cache-meta, inference worker ↔ KV-cache worker, KV-cache worker ↔ both

// BAT's "read": asks which of these blocks exist, which nodes hold them, and how popular their
// users and items are. With `count_access` it counts one access of the user and of each item's
// block (background precomputation does not count).
struct BlockQuery {
  BlockName name;
  SegmentKind kind = SegmentKind::item;  // users and items have separate popularity
  std::uint32_t tokens = 0;
  bool operator==(const BlockQuery&) const = default;
};
struct LookupBlocks {
  RequestId id = 0;
  std::string user;                // tenant-qualified key; "" = the request has no user
  std::vector<BlockQuery> blocks;  // blocks of all plans that could answer the request
  std::vector<NodeId> prefer;      // nodes that may run the plan; they are named first among many holders
  bool count_access = true;
  bool all_holders = false;  // false = names only a few of many holders
  TraceContext trace;
  bool operator==(const LookupBlocks&) const = default;
};
struct BlocksFound {
  RequestId id = 0;
  // Holders of all blocks in one list: the first counts[0] belong to LookupBlocks::blocks[0], and
  // so on.
  std::vector<std::uint8_t> counts;
  std::vector<NodeId> holders;
  // Expected further uses of each block, if it were kept as long as others. For a user's block:
  // from how often such blocks are wanted again. For an item's block: its earlier uses in the
  // window, or 0 while no node that may run the plan has free pages.
  std::vector<double> uses;
  double user_frequency = 0;  // accesses in the sliding window, including this one
  // lowest frequency of the cached user blocks; 0 while the user area has free pages for the
  // requested block
  double coldest_frequency = 0;
  std::vector<BlockName> coldest;  // user blocks to evict, coldest first, enough for the requested block
  bool operator==(const BlocksFound&) const = default;
};

// Inference worker → KV-cache worker of the same node: pins the blocks that exist and reserves
// pages for those that will be written. Each block is granted completely or not at all. Grants last
// until they are released, as both actors are in one process.
//
// KV-cache worker → KV-cache worker of another node, with `read_only`: pins existing blocks so that
// they can be pulled. Those grants end after BlocksAcquired::lease_us, which the requester counts
// from the moment it asked.
struct BlockWant {
  BlockName name;
  SegmentKind kind = SegmentKind::item;
  std::string owner;
  std::uint32_t tokens = 0;
  NodeId at = 0;  // as SegmentBlock::at
  // microseconds that finding the block saves: computing less reading, as far as the requester
  // knows
  float compute_us = 0;
  bool operator==(const BlockWant&) const = default;
};
struct AcquireBlocks {
  RequestId id = 0;
  std::int64_t budget_us = 0;  // how long to wait for a block that another request computes
  std::vector<BlockWant> wants;
  Retention retention;
  bool may_evict = true;   // false = uses only free pages (background precomputation)
  bool read_only = false;  // reserves nothing and waits for nothing
  // If every missing block is on its way from other nodes, the worker answers twice: when the
  // transfers begin, with grants marked `in_flight`, and when all have ended.
  bool early = false;
  TraceContext trace;
  bool operator==(const AcquireBlocks&) const = default;
};
enum class Grant : std::uint8_t {
  none,  // missing, and no pages are free: compute it, do not keep it
  read,  // present and pinned: reuse it
  write  // reserved for this request: compute into these pages, then report
};
struct BlockGrant {
  Grant grant = Grant::none;
  std::uint64_t generation = 0;
  std::uint64_t checksum = 0;  // for read: checksum of the bytes
  std::vector<std::uint32_t> pages;
  bool check = false;  // for read: compare the bytes with the checksum and report the outcome
  // for read: in flight; PageArrivals tells which parts may be read. Do not answer before the
  // transfer has succeeded.
  bool in_flight = false;
  bool pulled = false;  // for read: pulled from another node's memory for this request
  bool operator==(const BlockGrant&) const = default;
};
struct BlocksAcquired {
  RequestId id = 0;
  Incarnation incarnation = 0;     // incarnation of the pages' owner
  std::int64_t lease_us = 0;       // 0 = until released
  std::vector<BlockGrant> grants;  // parallel to AcquireBlocks::wants
  // from the request until the last block of another node arrived; 0 = none was pulled
  std::int64_t pull_us = 0;
  bool operator==(const BlocksAcquired&) const = default;
};
enum class Outcome : std::uint8_t { done, written, abandoned, corrupt };
struct BlockOutcome {
  BlockName name;
  std::uint64_t generation = 0;
  // for read: done (the bytes were checked) | corrupt; for write: written | abandoned
  Outcome outcome = Outcome::done;
  std::uint64_t checksum = 0;  // for written: checksum of the bytes
  bool operator==(const BlockOutcome&) const = default;
};
// Releases a request's grants. No answer. A read that succeeded without a check need not be listed;
// a write that is not listed was abandoned.
struct ReleaseBlocks {
  RequestId id = 0;
  std::vector<BlockOutcome> outcomes;
  bool operator==(const ReleaseBlocks&) const = default;
};

// KV-cache worker → every cache-meta (BAT's "write"): the index follows the owner of the blocks. No
// answer. `sequence` counts these messages from 1 within an incarnation. The worker sends one at
// every change, and also on a timer. A receiver that sees a gap or a new incarnation asks for the
// inventory.
struct BlockEntry {
  BlockName name;
  SegmentKind kind = SegmentKind::item;
  std::string owner;
  std::uint32_t tokens = 0;
  std::uint64_t generation = 0;
  bool operator==(const BlockEntry&) const = default;
};
struct BlockVersion {
  BlockName name;
  std::uint64_t generation = 0;
  bool operator==(const BlockVersion&) const = default;
};
struct AreaCapacity {
  std::uint64_t free_tokens = 0, total_tokens = 0;
  bool operator==(const AreaCapacity&) const = default;
};
struct CacheChanges {
  Incarnation incarnation = 0;
  std::uint64_t sequence = 0;
  std::vector<BlockEntry> added;  // in order of generation; applied before `removed`
  std::vector<BlockVersion> removed;
  std::vector<BlockName> refused;   // users' blocks that requests wanted to keep but that got no pages
  std::vector<AreaCapacity> areas;  // in order of the pool's areas (runtime/pool/pool_areas.h)
  bool operator==(const CacheChanges&) const = default;
};
// Cache-meta → KV-cache worker: asks for the next part of the ready blocks, those with a generation
// above `after`, in order of generation.
struct InventoryRequest {
  Incarnation incarnation = 0;  // the worker's, as far as known; 0 = any
  std::uint64_t after = 0;
  bool operator==(const InventoryRequest&) const = default;
};
struct InventoryPart {
  Incarnation incarnation = 0;
  std::uint64_t after = 0;     // `after` of the request
  std::uint64_t sequence = 0;  // sequence of the last CacheChanges before this part
  std::vector<BlockEntry> blocks;
  bool last = false;
  bool operator==(const InventoryPart&) const = default;
};
// Router → leading cache-meta → KV-cache workers: the content of this owner changed, so its blocks
// will not be requested again. Workers obey the highest token that they have seen and refuse lower
// ones (promise 5).
struct Forget {
  SegmentKind kind = SegmentKind::user;
  std::string owner;
  std::uint64_t token = 0;           // the leader's fencing token; 0 from a router
  std::optional<BlockName> present;  // block of the new content, if known: it stays
  std::uint32_t below = 0;           // only blocks with fewer tokens; 0 = blocks of any size
  bool operator==(const Forget&) const = default;
};

// ---- cluster.capnp: allocator agent ↔ KV-cache worker; anyone → anyone

// Areas of the pool, in the order of the table in runtime/pool/pool_areas.h.
struct AreaSplit {
  std::uint64_t pages = 0;
  std::uint64_t least = 0;  // minimum that other areas cannot borrow
  bool operator==(const AreaSplit&) const = default;
};
struct SetSplit {               // allocator agent → KV-cache worker
  Incarnation incarnation = 0;  // incarnation of the addressed worker
  std::uint64_t epoch = 0;
  std::vector<AreaSplit> areas;
  bool operator==(const SetSplit&) const = default;
};
struct AreaReport {
  std::uint64_t pages = 0;  // pages of the split, plus pages borrowed since, less pages lent
  std::uint64_t used = 0;
  std::uint64_t hits = 0, misses = 0;  // wanted blocks, or rows, since the start: present or missing
  double saved_us = 0;                 // microseconds that those hits saved
  // Microseconds that would have been saved with each share of the pool, 0 to 100 hundredths; never
  // falls with the share. Empty = not measured.
  std::vector<double> savings = {};
  bool operator==(const AreaReport&) const = default;
};
// Totals of the node's requests since the start, each from when its blocks were wanted until they
// were released.
struct ServedReport {
  std::uint64_t requests = 0;
  std::uint64_t hot_requests = 0;  // requests of frequent users
  std::uint64_t user_tokens = 0;   // tokens of users' blocks
  // histogram of request times (placement/split/latency_counts.h)
  std::vector<std::uint64_t> latencies = {};
  bool operator==(const ServedReport&) const = default;
};
struct PoolReport {  // KV-cache worker → allocator agent, after each SetSplit and on a timer
  Incarnation incarnation = 0;
  std::uint64_t epoch = 0;
  std::vector<AreaReport> areas;
  ServedReport served = {};
  bool operator==(const PoolReport&) const = default;
};

// KV-cache worker → inference worker of its node, which keeps rows of embedding tables: pages of
// the pool's row area that it may fill from now on, and the number of pages to give back. Only one
// is outstanding; it is repeated until PagesLent answers it.
struct LendPages {
  Incarnation incarnation = 0;  // incarnation of both actors: they share one process
  // counts these messages from 1: an earlier one is ignored, the same one is answered again
  std::uint64_t number = 0;
  std::vector<std::uint32_t> pages;
  // pages to give back; the worker may give back fewer while rows are being read
  std::uint32_t give_back = 0;
  bool operator==(const LendPages&) const = default;
};
struct PagesLent {
  Incarnation incarnation = 0;
  std::uint64_t number = 0;
  std::vector<std::uint32_t> given_back;  // no longer read or written
  std::uint64_t hits = 0, misses = 0;     // wanted rows since the start: present or missing
  double saved_us = 0;                    // as in AreaReport
  std::vector<double> savings = {};
  bool operator==(const PagesLent&) const = default;
};

// Inference worker → every router, once per heartbeat and whenever it starts or stops draining. No answer.
struct Heartbeat {
  Incarnation incarnation = 0;
  std::uint64_t sequence = 0;  // counts heartbeats from 1 within an incarnation: an older one is ignored
  bool draining = false;       // accepts no new plans
  std::uint32_t slots = 0, slots_busy = 0;
  std::uint32_t plans_waiting = 0;  // plans that do not run yet
  // Work of the waiting plans, as far as known, and recent executor time per unit of work
  // (placement/cost/work.h). A time of 0 = nothing was computed yet.
  double operations_waiting = 0, bytes_waiting = 0, passes_waiting = 0;
  double us_per_operation = 0, us_per_byte = 0, us_per_pass = 0;
  std::uint64_t plans_executed = 0;  // since the start; shows progress
  std::uint64_t versions_epoch = 0;  // epoch of the Versions that it follows
  std::vector<std::string> models;   // loaded models, in order of version
  // Next model of those Versions if it cannot be loaded here, however often that is tried, and the
  // reason; otherwise "".
  std::string refused_model, refused_why;
  // For a table that is not in memory: recent time to fetch a row; consecutive rows per shard; and
  // per shard, hundredths of its recently wanted rows that were found.
  double us_per_row = 0;
  std::uint32_t shard_rows = 0;
  std::vector<std::uint8_t> rows_found;
  bool operator==(const Heartbeat&) const = default;
};
// Model and catalog to which new requests are pinned. Hard state: `epoch` is its revision in the
// Coordination; an actor that hears of a higher one follows it. Router → inference workers whose
// heartbeat shows an older epoch. No answer.
struct Versions {
  std::uint64_t epoch = 0;
  std::string model_version, catalog_version;
  std::string next_model;  // model to be loaded beside the present one; "" = none
  // catalog that changes in the same step as next_model; "" = the present one stays
  std::string next_catalog;
  // Thousandths of users that get next_model once every worker has loaded it. All users: it becomes
  // the present model. Fewer: both models are served, chosen by user, until the operator decides
  // otherwise.
  static constexpr std::uint32_t all_users = 1000;
  std::uint32_t next_share = all_users;
  bool is_shared() const { return !next_model.empty() && next_share < all_users; }
  bool operator==(const Versions&) const = default;
};
// A process that seems lost. It is alive if it sends a heartbeat with the number `proof` or a
// higher one.
struct Loss {
  NodeId node = 0;
  Incarnation process = 0;
  std::uint64_t proof = 0;
  bool operator==(const Loss&) const = default;
};
// A strike against a request: one for all losses of concurrent runs, otherwise one per run. It
// counts while at least one of the losses may be true.
struct Strike {
  std::vector<Loss> losses;  // losses that may turn out to be false
  bool sure = true;
  bool operator==(const Strike&) const = default;
};
// Router → routers: a request of this content was running on workers that were lost (promise 12).
// No answer.
struct Suspect {
  std::uint64_t fingerprint = 0;  // hash of tenant, user, profile version and candidates
  std::uint32_t strikes = 0;      // 0 = it ran successfully
  std::vector<Strike> uncertain;  // the latest strikes; earlier ones are certain
  bool operator==(const Suspect&) const = default;
};
// Leading cache-meta → routers and KV-cache workers, once per heartbeat. No answer.
struct LeaderBeat {
  std::uint64_t token = 0;  // fencing token: the revision at which it became leader
  bool operator==(const LeaderBeat&) const = default;
};
// Operator → router, inference worker or cache-meta: accept nothing new and finish what runs; with
// `on` false, serve again. Operator → KV-cache worker: migrate blocks to other nodes. Answered by
// StatusReply, whose field "drained" is "yes" when nothing is left; the operator repeats the
// command until then (promise 13).
struct Drain {
  RequestId id = 0;
  bool on = true;
  // nodes that receive the users' blocks of a KV-cache worker that leaves for good
  std::vector<NodeId> user_targets = {};
  bool operator==(const Drain&) const = default;
};
struct StatusRequest {
  RequestId id = 0;
  bool operator==(const StatusRequest&) const = default;
};
struct StatusField {
  std::string name, value;
  bool operator==(const StatusField&) const = default;
};
struct StatusReply {
  RequestId id = 0;
  NodeId node = 0;
  Role role = Role::server;
  bool ready = false;  // this actor can serve
  std::vector<StatusField> fields;
  bool operator==(const StatusReply&) const = default;
};

using AnyMessage =
    std::variant<RankRequest, RankReply, ScoreRequest, ScoreReply, PutUser, DeleteUser, PutItem, DeleteItem,
                 Reload, Stored, Refused, Execute, Executed, LookupBlocks, BlocksFound, AcquireBlocks,
                 BlocksAcquired, ReleaseBlocks, CacheChanges, InventoryRequest, InventoryPart, Forget,
                 SetSplit, PoolReport, Heartbeat, Versions, Suspect, LeaderBeat, Drain, StatusRequest,
                 StatusReply, GenerateRequest, GenerateReply, CompleteRequest, CompleteReply, LendPages,
                 PagesLent, AppendEvents, Appended, GetUser, UserReply, GetItem, ItemReply>;

// A type of its own instead of an alias of the variant: the code that copies, moves, compares and
// destroys so many kinds is compiled once, in messages.cc, and not in every file that forwards a
// message.
struct Message : AnyMessage {
  template <class Kind>
  requires(!std::derived_from<std::remove_cvref_t<Kind>, AnyMessage> &&
           std::constructible_from<AnyMessage, Kind>) Message(Kind&& kind)
      : AnyMessage(std::forward<Kind>(kind)) {}
  Message();
  Message(const Message&);
  Message(Message&&) noexcept;
  Message& operator=(const Message&);
  Message& operator=(Message&&) noexcept;
  ~Message();
  bool operator==(const Message&) const;
};

}  // namespace troupe
