#pragma once
// What the actors say to each other, as plain structs. The wire form is Cap'n Proto (runtime/wire/schema/,
// one file per conversation); only runtime/wire/codec.cc knows both. Durations cross hosts, absolute times
// never. Tensors never travel in messages: pages are named by id and generation.
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/base/plan.h"
#include "runtime/actor/identity.h"
#include "runtime/actor/noted_uses.h"
#include "runtime/actor/stored_messages.h"
#include "runtime/actor/trace_context.h"

namespace troupe {

using kernels::Beam, kernels::Plan, kernels::Readout, kernels::Repair, kernels::Search, kernels::Sees,
    kernels::Segment, kernels::SegmentKind, kernels::Token, kernels::Tokens;

// ---- serving.capnp: door ↔ router, router ↔ inference worker
// -------------------------------------------------

// A typed "no". `status` is the HTTP status that the door answers with; `code` is a stable word for programs.
struct Refusal {
  std::uint16_t status = 500;
  std::string
      code;  // "unknown_user", "unknown_item", "repeated_candidate", "too_many_candidates", "overloaded", …
  std::string what;                 // what is wrong
  std::string where;                // the field, file or actor
  std::string expected;             // what would have been right
  std::uint16_t retry_after_s = 0;  // how long a client should wait; 0: nobody knows. Over HTTP a header
  bool operator==(const Refusal&) const = default;
};

struct RankRequest {
  RequestId id = 0;
  std::string tenant;  // "" is the default tenant
  std::string user;
  std::vector<std::string> candidates;  // item ids
  std::uint32_t top_k = 0;              // 0: all candidates
  std::string policy;                   // "" is the configured one; else recompute | user | item | bat
  std::int64_t budget_us = 0;           // time from receipt to answer; 0: the configured one
  std::int64_t request_timestamp =
      0;  // seconds since 1970, for models that know times; 0: the door puts the present in
  // Most of the prompt's tokens, as a share, that may be approximate (Repair); negative: as many as the
  // policy leaves.
  double approximate = -1;
  std::uint32_t scenario = 0;  // where it was asked, for models that know scenarios
  std::string task;            // of the model's tasks, the one that orders the candidates; "": the first
  std::string features;        // how new they have to be: exact | wait | behind; "": as configured
  std::string unknown;         // candidates that the catalog does not have: refuse | skip; "": refuse
  std::vector<std::string>
      history;  // instead of a user: of somebody without a profile, item ids, oldest first
  TraceContext trace;
  bool operator==(const RankRequest&) const = default;
};

struct RankedItem {
  std::string id;
  std::string title;
  double score = 0;        // the logit of the item's identifier token at the discriminant token, or of a task
  double probability = 0;  // softmax of the scores over this request's candidates (BAT §2.2)
  std::vector<double> task_scores;  // parallel to RankReply::tasks
  bool operator==(const RankedItem&) const = default;
};

struct Timings {  // microseconds, one step after the other
  std::int64_t features = 0, lookup = 0, blocks = 0, queue = 0, compute = 0, total = 0;
  std::int64_t pull = 0;  // of `blocks`: until those of other nodes were here
  std::int64_t predicted =
      0;                  // by the router when it chose the node: from then to the answer; 0: nothing was
  std::int64_t turn = 0;  // between lookup and blocks: at the router, until it was its turn at the worker
  bool operator==(const Timings&) const = default;
};

struct RankReply {
  RequestId id = 0;
  std::string user;
  std::vector<RankedItem> items;  // best first; ties by candidate order
  std::string policy;             // the policy that chose
  std::string plan;               // that was run: "user", "item", …
  std::uint32_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0;
  std::uint32_t blocks_reused = 0, blocks_written = 0;
  std::uint32_t history_cut = 0;  // history events dropped (oldest first) to fit the model's positions
  std::string model_version, catalog_version;
  std::uint64_t profile_version = 0;
  NodeId node = 0;  // where it ran
  Timings timings;
  double approximate = 0;  // share of the prompt's tokens that have keys and values of blocks made elsewhere
  std::vector<std::string> tasks;  // names of the model's tasks; none: it has one without a name
  std::uint32_t features_stale = 0, features_missing = 0;  // that it was answered with, or without
  std::vector<std::string> skipped;                        // candidates that the catalog does not have
  bool operator==(const RankReply&) const = default;
};

// Scores of label tokens after query + item, item by item (the form that other engines offer).
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

// Items that a user may want next, of the whole catalog: those whose identifiers (their tokens) a beam search
// finds most probable behind the user's history.
struct GenerateRequest {
  RequestId id = 0;
  std::string tenant;  // "" is the default tenant
  std::string user;
  std::uint32_t top_k = 0;         // items; 0: as many as are usual
  std::uint32_t width = 0;         // paths kept at each step; 0: as many as are usual
  bool exclude_seen = false;       // no items whose identifiers are in the history
  std::vector<std::string> allow;  // item ids; not empty: only these
  std::vector<std::string> deny;   // item ids: none of these; those that the catalog does not have are none
  bool among_allowed = false;      // probabilities over the tokens that may follow, not over the vocabulary
  std::int64_t budget_us = 0;      // time from receipt to answer; 0: the configured one
  bool logprobs = false;           // the answer says each token's, too
  std::string features;            // as RankRequest::features
  TraceContext trace;
  bool operator==(const GenerateRequest&) const = default;
};
struct GeneratedItem {
  std::string id, title;
  std::vector<Token> tokens;  // its identifier
  double log_probability = 0;
  std::vector<double> by_token = {};  // of `tokens`, where it was asked for
  bool operator==(const GeneratedItem&) const = default;
};
struct GenerateReply {
  RequestId id = 0;
  std::string user;
  std::vector<GeneratedItem>
      items;                // best first; items that share an identifier by id, as texts are compared
  std::string reason;       // why there are fewer than were asked for; "": there are as many
  std::uint32_t width = 0;  // that was searched with
  std::uint32_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0;  // of the prompt
  std::uint32_t blocks_reused = 0, blocks_written = 0;
  std::uint32_t history_cut = 0;  // history events dropped (oldest first) to fit the model's positions
  std::string model_version, catalog_version;
  std::uint64_t profile_version = 0;
  NodeId node = 0;  // where it ran
  Timings timings;
  std::uint32_t features_stale = 0, features_missing = 0;  // as RankReply's
  bool operator==(const GenerateReply&) const = default;
};

// What a generator would say behind a prompt: the most probable continuations that a beam search finds, in
// the form that other engines offer. No catalog is asked but for `items`.
struct CompleteRequest {
  RequestId id = 0;
  std::string tenant;  // "" is the default tenant
  std::string model;   // the version that is asked; "": whichever is served
  std::vector<Token> prompt;
  std::uint32_t max_tokens = 16;  // of each completion, no fewer; of `items` at most
  std::uint32_t n = 1;            // completions
  std::uint32_t beam_width = 0;   // paths kept at each step; 0: n. 1 is greedy decoding
  bool items = false;             // only identifiers of the catalog
  bool logprobs = false;          // the answer says them
  std::int64_t budget_us = 0;     // time from receipt to answer; 0: the configured one
  TraceContext trace;
  bool operator==(const CompleteRequest&) const = default;
};
struct CompleteReply {
  RequestId id = 0;
  std::vector<Beam> completions;  // most probable first; fewer than `n` only if there are no more
  std::uint32_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0;  // of the prompt
  bool logprobs = false, items = false;                                    // as it was asked for
  std::string model_version, catalog_version;                              // of a catalog only for `items`
  NodeId node = 0;                                                         // where it ran
  Timings timings;
  bool operator==(const CompleteReply&) const = default;
};

// An operator's wish: serve another model or catalog from now on; "" keeps the present one. Answered when
// every worker that is alive has it and no request of this router runs on the old one any more (promise 4).
struct Reload {
  RequestId id = 0;
  std::string model_version, catalog_version;
  double share = 1;  // of users that get the model; below 1 the present one goes on beside it, for the others
  bool operator==(const Reload&) const = default;
};
struct Stored {  // answer to writes and reloads
  RequestId id = 0;
  std::uint64_t version = 0;  // of the profile, of the catalog, or (Reload) the epoch of the versions
  bool operator==(const Stored&) const = default;
};

struct Refused {  // answer to any request above
  RequestId id = 0;
  Refusal refusal;
  bool operator==(const Refused&) const = default;
};

// Under which name the keys and values of a plan's segment may be reused.
struct SegmentBlock {
  std::optional<BlockName> name;  // absent: never reused, never kept
  std::string owner;              // user or item id that the block belongs to; "" for system
  NodeId at = 0;                  // another node that is said to hold the block; 0: none is known
  bool operator==(const SegmentBlock&) const = default;
};

enum class Priority : std::uint8_t { serving, background };

// What may make room for a request's blocks, and what they are worth once they are there. Whoever makes the
// plan fills it; the inference worker passes it on to the KV-cache worker.
struct Retention {
  std::vector<BlockName> evict_first;  // coldest user blocks, if room must be made (BAT §5.3)
  // All areas are one: whatever was used longest ago makes room, copies of what other nodes have sooner. An
  // item's block is kept only if it was wanted more often lately than what must go; a user's is, since
  // whoever sent the plan weighed it.
  bool keep_hotter = false;
  bool belongs = false;   // the blocks belong on this node: pulled ones, too, displace others and stay
  double copy_worth = 0;  // with `keep_hotter`: of 0 to 1, pulling a block again over computing it
  // What keeping the user's blocks would spare is not counted here: his home is another node, or has been
  // told of this request.
  bool guest = false;
  // Blocks of users whose home is here, and whose requests were sent elsewhere lately: what keeping them here
  // would have spared.
  std::vector<BlockUse> elsewhere;
  bool operator==(const Retention&) const = default;
};

// Router → inference worker. Answered by Executed or Refused.
struct Execute {
  RequestId id = 0;
  Priority priority = Priority::serving;
  std::int64_t budget_us = 0;
  // What the plan was made against, and what it is computed with; a worker without either refuses. No
  // catalog: the plan takes nothing from one but its tokens.
  std::string model_version, catalog_version;
  bool alone = false;  // in a batch of its own: a worker was lost while it ran (promise 12)
  Plan plan;
  std::vector<SegmentBlock> blocks;  // one for each of the plan's segments
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
  std::string model_version;  // that computed it
  std::int64_t pull_us = 0;   // of blocks_us: until those of other nodes were here
  std::vector<Beam> beams;    // of the plan's search, best first
  bool operator==(const Executed&) const = default;
};

// ---- cache.capnp: router ↔ cache-meta, inference worker ↔ KV-cache worker, KV-cache worker ↔ cache-meta and
// ---- each other
// ------------------------------------------------------------------------------------------------

// BAT's "read": which of these exist, where, and how hot is whose they are? Counts one access of the user and
// of each item's block if `count_access` (background precomputation only asks).
struct AskedBlock {
  BlockName name;
  SegmentKind kind = SegmentKind::item;  // whose it is: users and items are hot, each in their way
  std::uint32_t tokens = 0;
  bool operator==(const AskedBlock&) const = default;
};
struct LookupBlocks {
  RequestId id = 0;
  std::string user;                // tenant-qualified key; "" if the request has no user
  std::vector<AskedBlock> blocks;  // of all plans by which the request could be answered
  std::vector<NodeId> prefer;      // nodes where the plan may run: of many holders these are named first
  bool count_access = true;
  bool all_holders = false;  // false: of many holders a few are named
  TraceContext trace;
  bool operator==(const LookupBlocks&) const = default;
};
struct BlocksFound {
  RequestId id = 0;
  // Holders of all blocks, one after the other: the first counts[0] are those of LookupBlocks::blocks[0], and
  // so on.
  std::vector<std::uint8_t> counts;
  std::vector<NodeId> holders;
  // Of each block further uses to expect, were it kept as long as others. Of a user's as such blocks are
  // wanted again; of an item's its earlier uses in the window, 0 while no node where the plan may run has
  // room for more.
  std::vector<double> uses;
  double user_frequency = 0;  // accesses in the sliding window, this one included
  double coldest_frequency =
      0;  // of the cached user blocks; 0 while the user area has room for the one asked for
  std::vector<BlockName> coldest;  // user blocks to give up, coldest first, enough for the one asked for
  bool operator==(const BlocksFound&) const = default;
};

// Inference worker → KV-cache worker of the same node: pin what is there, reserve what will be written. All
// or nothing per block. The grants last until they are released: both are one process. KV-cache worker →
// KV-cache worker of another node, with `read_only`: pin what is there, so that it can be pulled. Those
// grants end after BlocksAcquired::lease_us, which the asker counts from the moment it asked.
struct BlockWant {
  BlockName name;
  SegmentKind kind = SegmentKind::item;
  std::string owner;
  std::uint32_t tokens = 0;
  NodeId at = 0;  // as SegmentBlock::at
  float compute_us =
      0;  // what it is spared who finds it, of computing less of reading it, as far as the asker knows
  bool operator==(const BlockWant&) const = default;
};
struct AcquireBlocks {
  RequestId id = 0;
  std::int64_t budget_us = 0;  // how long to wait for a block that another request is computing
  std::vector<BlockWant> wants;
  Retention retention;
  bool may_evict = true;   // false: only free room is taken (background precomputation)
  bool read_only = false;  // nothing is reserved, nothing waited for
  // There are two answers where all that is missing is on its way from other nodes: one when it begins to
  // come, in which those grants are `coming`, and one when all has its end.
  bool early = false;
  TraceContext trace;
  bool operator==(const AcquireBlocks&) const = default;
};
enum class Grant : std::uint8_t {
  none,  // not there and no room: compute, do not keep
  read,  // there and pinned: reuse
  write  // reserved for this request: compute into these pages, then report
};
struct BlockGrant {
  Grant grant = Grant::none;
  std::uint64_t generation = 0;
  std::uint64_t checksum = 0;  // of the bytes, for read
  std::vector<std::uint32_t> pages;
  bool check = false;   // for read: compare the bytes with the checksum, and say how it went
  bool coming = false;  // for read: only what PageArrivals says is there, and nothing is to be said before it
                        // has ended well
  bool pulled = false;  // for read: another node's memory had it, and this request brought it here
  bool operator==(const BlockGrant&) const = default;
};
struct BlocksAcquired {
  RequestId id = 0;
  Incarnation incarnation = 0;     // of the owner of the pages
  std::int64_t lease_us = 0;       // 0: until released
  std::vector<BlockGrant> grants;  // parallel to AcquireBlocks::wants
  std::int64_t pull_us = 0;        // from the question until the last block of another node was here; 0: none
  bool operator==(const BlocksAcquired&) const = default;
};
enum class Outcome : std::uint8_t { done, written, abandoned, corrupt };
struct BlockOutcome {
  BlockName name;
  std::uint64_t generation = 0;
  Outcome outcome =
      Outcome::done;  // read → done (the bytes were checked) | corrupt; write → written | abandoned
  std::uint64_t checksum = 0;  // for written
  bool operator==(const BlockOutcome&) const = default;
};
// No answer. A read that ended well without a check need not be named; a write that is not named was
// abandoned.
struct ReleaseBlocks {
  RequestId id = 0;
  std::vector<BlockOutcome> outcomes;
  bool operator==(const ReleaseBlocks&) const = default;
};

// KV-cache worker → every cache-meta (BAT's "write"): the index follows the owner. No answer. `sequence`
// counts these messages from 1 within an incarnation; one is sent at every change and, with no change, on a
// timer. Whoever sees a gap or a new incarnation asks for the inventory.
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
struct AreaRoom {
  std::uint64_t free_tokens = 0, total_tokens = 0;
  bool operator==(const AreaRoom&) const = default;
};
struct CacheChanges {
  Incarnation incarnation = 0;
  std::uint64_t sequence = 0;
  std::vector<BlockEntry> added;  // in order of generation; applied before `removed`
  std::vector<BlockVersion> removed;
  std::vector<BlockName> refused;  // users' blocks that requests wanted to keep, and that found no room
  std::vector<AreaRoom> areas;     // in order of the pool's areas (runtime/pool/pool_areas.h)
  bool operator==(const CacheChanges&) const = default;
};
// Cache-meta → KV-cache worker, a part at a time: the ready blocks with a generation above `after`, in order
// of it.
struct InventoryRequest {
  Incarnation incarnation = 0;  // of the worker, as far as known; 0: any
  std::uint64_t after = 0;
  bool operator==(const InventoryRequest&) const = default;
};
struct InventoryPart {
  Incarnation incarnation = 0;
  std::uint64_t after = 0;     // of the request
  std::uint64_t sequence = 0;  // of the last CacheChanges before this part
  std::vector<BlockEntry> blocks;
  bool last = false;
  bool operator==(const InventoryPart&) const = default;
};
// Router → leading cache-meta → KV-cache workers: the content of this owner changed; its blocks will never be
// asked for. Workers obey the highest token that they have seen and refuse lower ones (promise 5).
struct Forget {
  SegmentKind kind = SegmentKind::user;
  std::string owner;
  std::uint64_t token = 0;           // the leader's; 0 from a router
  std::optional<BlockName> present;  // of the new content, where it is known: that one stays
  std::uint32_t below = 0;           // only blocks of fewer tokens; 0: of any number
  bool operator==(const Forget&) const = default;
};

// ---- cluster.capnp: allocator agent ↔ KV-cache worker; anyone → anyone
// -------------------------------------

// Areas in order of the table in runtime/pool/pool_areas.h.
struct AreaSplit {
  std::uint64_t pages = 0;
  std::uint64_t least = 0;  // what it keeps whatever other areas would borrow of it
  bool operator==(const AreaSplit&) const = default;
};
struct SetSplit {               // allocator agent → KV-cache worker
  Incarnation incarnation = 0;  // of the worker that is meant
  std::uint64_t epoch = 0;
  std::vector<AreaSplit> areas;
  bool operator==(const SetSplit&) const = default;
};
struct AreaReport {
  std::uint64_t pages = 0;  // of the split, with what was borrowed since, without what was lent
  std::uint64_t used = 0;
  std::uint64_t hits = 0, misses = 0;  // blocks that requests wanted, or rows, since the start, there or not
  double saved_us = 0;                 // by those hits
  // What would have been, with so many hundredths of the pool: of 0 to 100, never falling. Empty: nobody
  // counts.
  std::vector<double> savings = {};
  bool operator==(const AreaReport&) const = default;
};
// What the node's requests came to since the start, from when their blocks were wanted until these were let
// go.
struct ServedReport {
  std::uint64_t requests = 0;
  std::uint64_t hot_requests = 0;             // of users who come often
  std::uint64_t user_tokens = 0;              // of users' blocks
  std::vector<std::uint64_t> latencies = {};  // requests by time (placement/split/latency_counts.h)
  bool operator==(const ServedReport&) const = default;
};
struct PoolReport {  // KV-cache worker → allocator agent, after each SetSplit and on a timer
  Incarnation incarnation = 0;
  std::uint64_t epoch = 0;
  std::vector<AreaReport> areas;
  ServedReport served = {};
  bool operator==(const PoolReport&) const = default;
};

// KV-cache worker → inference worker of its node, that keeps rows of embedding tables: pages of the pool's
// row area that it may fill from now on, and how many it has to give back. One at a time; told again until it
// is answered by PagesLent.
struct LendPages {
  Incarnation incarnation = 0;  // of both: they are one process
  std::uint64_t number = 0;     // counts them from 1: an earlier one is ignored, the same one answered again
  std::vector<std::uint32_t> pages;
  std::uint32_t give_back = 0;  // fewer, where rows that are read now are in the way
  bool operator==(const LendPages&) const = default;
};
struct PagesLent {
  Incarnation incarnation = 0;
  std::uint64_t number = 0;
  std::vector<std::uint32_t> given_back;  // nobody reads or writes them any more
  std::uint64_t hits = 0, misses = 0;     // rows that passes wanted since the start, there or not
  double saved_us = 0;                    // as AreaReport's
  std::vector<double> savings = {};
  bool operator==(const PagesLent&) const = default;
};

// Inference worker → every router, once per heartbeat and whenever it starts or stops draining. No answer.
struct Heartbeat {
  Incarnation incarnation = 0;
  std::uint64_t sequence = 0;  // counts them from 1 within an incarnation: an older one is ignored
  bool draining = false;       // takes no new plans
  std::uint32_t lanes = 0, lanes_busy = 0;
  std::uint32_t plans_waiting = 0;  // that do not run yet
  // The work of those, as far as known, and lane time per unit of work, lately (placement/cost/work.h); a
  // pace of 0: nothing computed yet.
  double operations_waiting = 0, bytes_waiting = 0, passes_waiting = 0;
  double us_per_operation = 0, us_per_byte = 0, us_per_pass = 0;
  std::uint64_t plans_executed = 0;  // since its start: progress
  std::uint64_t versions_epoch = 0;  // of the Versions it follows
  std::vector<std::string> models;   // loaded, in order of version
  // The next model of those Versions, if it cannot be loaded here however often it is tried, and why; else
  // "".
  std::string refused_model, refused_why;
  // Of a table that is not in memory: what fetching a row takes, lately; how many consecutive rows are a
  // shard; of each shard, hundredths of its rows that passes wanted lately and found.
  double us_per_row = 0;
  std::uint32_t shard_rows = 0;
  std::vector<std::uint8_t> rows_found;
  bool operator==(const Heartbeat&) const = default;
};
// Which model and catalog new requests are pinned to. Hard state: `epoch` is its revision in the
// Coordination; whoever hears of a higher one follows it. Router → inference workers whose heartbeat shows an
// older epoch. No answer.
struct Versions {
  std::uint64_t epoch = 0;
  std::string model_version, catalog_version;
  std::string next_model;    // to be loaded beside the present one; "" if none
  std::string next_catalog;  // that comes with next_model, in the same step; "": the present one stays
  // Thousandths of users that have next_model once every worker has it. All: then it becomes the present one.
  // Fewer: both are served, by the user, until somebody wishes for something else.
  static constexpr std::uint32_t all_users = 1000;
  std::uint32_t next_share = all_users;
  bool is_shared() const { return !next_model.empty() && next_share < all_users; }
  bool operator==(const Versions&) const = default;
};
// A process that seems lost. It is not if it says something later: a heartbeat of it with the number `proof`,
// or a higher one.
struct Loss {
  NodeId node = 0;
  Incarnation process = 0;
  std::uint64_t proof = 0;
  bool operator==(const Loss&) const = default;
};
// One for all losses of runs beside others, else one for each run. It counts while one of them may be true.
struct Strike {
  std::vector<Loss> losses;  // that may turn out to be none
  bool sure = true;
  bool operator==(const Strike&) const = default;
};
// Router → routers: a request of this content was running on workers that were lost (promise 12). No answer.
struct Suspect {
  std::uint64_t fingerprint = 0;  // of tenant, user, profile version and candidates
  std::uint32_t strikes = 0;      // 0: it ran well
  std::vector<Strike> doubted;    // the latest of them; earlier ones are sure
  bool operator==(const Suspect&) const = default;
};
// Leading cache-meta → routers and KV-cache workers, once per heartbeat. No answer.
struct LeaderBeat {
  std::uint64_t token = 0;  // fencing token: the revision at which it became leader
  bool operator==(const LeaderBeat&) const = default;
};
// Operator → router, inference worker or cache-meta: take nothing new, end what runs (or, with `on` false,
// serve again); → KV-cache worker: hand on. Answered by StatusReply, whose "drained" says "yes" when nothing
// is left; asked again until it does (promise 13).
struct Drain {
  RequestId id = 0;
  bool on = true;
  std::vector<NodeId> users_to = {};  // where users' blocks go of a KV-cache worker that leaves for good
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
  Role role = Role::door;
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

// A type of its own and not another name of the variant: what copies, moves, compares and destroys so many
// kinds is compiled once, in messages.cc, and not in every file that hands a message on.
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
