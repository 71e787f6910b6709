#pragma once
// Ports: the way a core asks for slow or physical work. A job goes out as an effect; one result
// comes back as `Done`. A port does its work in one blocking call, or begins it and has a thread of its
// own that ends it. The host decides on which thread (CAF) or at what virtual cost (simulation) calls
// run, so ports hold no policy.
#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/actor/catalog.h"
#include "runtime/actor/coordination.h"
#include "runtime/actor/messages.h"

namespace troupe {

// ---- features (router): profiles and catalog

struct Profile {
  std::uint64_t version = 0;
  std::vector<Token> tokens;  // tokens of the history, oldest first, without the prompt's own tokens
  // number of tokens per event of the history, oldest first; sums to tokens.size()
  std::vector<std::uint32_t> events;
  std::vector<Feature> features;  // features of the events; each has one value per event
  bool operator==(const Profile&) const = default;
};
using ProfilePointer = std::shared_ptr<const Profile>;

// History that a request has in place of a user. Members are those of PutUser.
struct GivenHistory {
  std::vector<std::string> history;  // item ids, oldest first; or `tokens`
  std::vector<Token> tokens;
  std::vector<Feature> features;
};

struct FindFeatures {
  std::string tenant, user;
  std::vector<std::string> items;
  // model version of the block names that the items carry; "" = the port's own
  std::string model_version;
  std::string catalog_version;  // version to which the request is pinned; "" = the present one
  bool paths = false;           // also builds the catalog's paths
  Freshness freshness = Freshness::configured;
  // Becomes the profile, of version 0, by the rules of a PutUser; `user` is empty then.
  std::optional<GivenHistory> history = {};
};
// A consistent state of the profile and of the catalog (promise 4), shared with other readers.
struct Features {
  ProfilePointer user;  // null = no such user
  CatalogPointer catalog;
  // Numbers in `catalog`, parallel to FindFeatures::items; no_item = not in the catalog.
  std::vector<ItemNumber> items;
  // Origin of `user`: read from the store, cached within the expiry, stale, or missing (answered as
  // a user without events). The request must allow the latter ones.
  enum class Source : std::uint8_t { store, cache, stale, missing };
  Source of = Source::store;
};
// Answered by Written or Refusal. PutUser and AppendEvents fail with `unknown_item` if their
// history names an unknown item. All fail with `changed_meanwhile` if their condition is not met.
struct Write {
  std::variant<PutUser, DeleteUser, PutItem, DeleteItem, AppendEvents> what;
};
struct WriteResult {
  std::uint64_t version = 0;
  std::uint32_t appended = 0, repeated = 0, dropped = 0, events = 0;  // as in Appended
};
// Reads an entry as it was put. Answered by UserReply, ItemReply or Refusal.
struct Read {
  std::variant<GetUser, GetItem> what;
};
// Lists the present catalog in order of number, up to `count` items at a time, for the background
// precomputation.
struct ListItems {
  ItemNumber from = 0;
  std::uint32_t count = 0;
};
struct ItemList {
  CatalogPointer catalog;
  std::vector<ItemNumber> items;
  bool last = false;
  // Why this is the catalog as it was known last: the store does not answer. "" = the store's own answer.
  std::string stale = {};
};

// ---- compute (inference worker)

struct BatchSegmentKv {
  Grant grant = Grant::none;   // read = reuse these pages; write = compute into them; none = compute only
  std::uint64_t checksum = 0;  // for read: checksum that the bytes had when they came into the arena
  std::vector<std::uint32_t> pages;
  // generation of the block; never reused for other bytes while the process runs
  std::uint64_t generation = 0;
  bool check = false;      // for read: compare the bytes with the checksum before use
  bool in_flight = false;  // for read: in flight into these pages, layer after layer (PageArrivals)
};
struct BatchRequest {
  Plan plan;
  std::vector<SegmentBlock> blocks;  // one per segment
  std::vector<BatchSegmentKv> kv;    // one per segment
  std::string model_version;         // "" = the port's own
  std::string catalog_version;       // as in Execute
};
// Shared by the job and the core, which may run the request again. Nobody copies or changes it.
using BatchRequestPointer = std::shared_ptr<const BatchRequest>;  // never null
// Shard of an embedding table that is spread over the nodes' memory: as many consecutive rows as a
// page holds. Shards are blocks like others.
struct TableShard {
  BlockName table;  // name made of the model version, the table's size and its position in the model
  std::uint32_t shard = 0;
  auto operator<=>(const TableShard&) const = default;
};
struct GrantedShard {
  TableShard shard;
  // read = read rows from these pages; write = the first reader fills them from the table; none =
  // read rows from the table.
  BlockGrant grant;
};
struct RunBatch {
  std::vector<BatchRequestPointer> requests;
  // A pass that misses rows of shards that are not granted ends early and lists those shards;
  // otherwise it reads them from the table.
  bool asks_for_shards = false;
  std::vector<GrantedShard> shards;
  std::int64_t in_flight_us = 0;  // maximum wait for blocks in flight, before they are computed
};
struct BatchReply {
  std::optional<Refusal> refusal;  // refusal of this request alone
  std::vector<ScoreRow> readouts;
  std::vector<Beam> beams;
  std::vector<std::uint64_t> checksums;  // per segment: checksum of written pages, otherwise 0
  // Segments whose cached bytes failed their checksum; they were computed.
  std::vector<std::uint32_t> corrupt;
  // Segments whose blocks were in flight and did not arrive; they were computed.
  std::vector<std::uint32_t> missed;
};
// Use of the device's copies of pool pages by a batch. All 0 without such a device.
struct DeviceUse {
  std::uint64_t blocks_hit = 0, blocks_missed = 0;  // blocks to read, by whether the device had a copy
  std::uint64_t blocks_evicted = 0;
  std::uint64_t bytes_to_device = 0, bytes_to_host = 0;
  std::uint32_t pages = 0, pages_used = 0;  // at the begin of the batch
};
// Recent hits per shard of the table that passes read last (Heartbeat::rows_found). Each shard has
// `shard_rows` consecutive rows.
struct ShardHitRates {
  std::uint32_t shard_rows = 0;  // 0 = nothing is known
  std::array<std::uint8_t, row_shards> hundredths{};
  double us_per_row = 0;  // microseconds to fetch a row
};
// Totals for rows of embedding tables since the port was made. All 0 where all tables are in
// memory.
struct RowTotals {
  std::uint64_t hits = 0, misses = 0;  // distinct rows of each pass, in the pool's pages or not
  std::uint64_t repeats = 0;           // repeated uses within a pass; each row was fetched once
  // bytes read from the table, for passes and to refill pages
  std::uint64_t bytes_missed = 0, bytes_refilled = 0;
  std::uint64_t evicted = 0, dropped = 0, corrupt = 0;
  // For sharded tables, `misses` by the memory that had the row: this node's, another node's, or
  // none (read from the table).
  std::uint64_t from_here = 0, from_nodes = 0, from_table = 0;
  bool wants_refill = false;
  ShardHitRates shards;
};
struct BatchDone {
  std::vector<BatchReply> replies;  // parallel to RunBatch::requests
  std::int64_t compute_us = 0;
  DeviceUse device;
  RowTotals rows;
  // For a request with blocks in flight: how long they were in flight while it ran, and how long it
  // waited for them. The difference was saved.
  std::int64_t in_flight_us = 0, waited_us = 0;
  // Shards that a pass missed. If there are any, everything else is empty and the batch must run
  // again.
  std::vector<TableShard> away;
  std::vector<BlockOutcome> shards;  // outcomes of granted shards: written, checked or corrupt
};

// Fills granted shards from their tables, and lists the tables. Answered by ShardsFilled.
struct FillShards {
  std::vector<GrantedShard> shards;
};
struct ShardsFilled {
  struct Table {
    BlockName name;
    std::uint32_t shards = 0;
  };
  std::vector<Table> tables;  // in order of name
  std::vector<BlockOutcome> outcomes;
};

// Adds and removes pages for rows, by number: see LendPages. Answered by RowPages.
struct ChangeRowPages {
  std::vector<std::uint32_t> pages;
  std::uint32_t give_back = 0;
};
struct RowPages {
  std::vector<std::uint32_t> given_back;
  RowTotals rows;
  double saved_us = 0;  // as in AreaReport
  std::vector<double> savings = {};
};
// Refills free slots in pages with rows that were evicted, as long as no pass misses a row.
// Answered by RowsRefilled.
struct RefillRows {
  std::uint64_t bytes = 0;  // maximum to read
};
struct RowsRefilled {
  RowTotals rows;
};

// Answered by ModelChanged, or by Refusal if the model does not exist or does not fit into memory.
// A dropped model must not be in use by a running batch; dropping an unknown one does nothing.
struct LoadModel {
  std::string model_version;
};
struct DropModel {
  std::string model_version;
};
struct ModelChanged {};

// ---- transfer (KV-cache worker): pages of other nodes

// Copies pages that their owner has pinned for this node into reserved local pages. A block is
// valid only if its bytes match the checksum after they have arrived. Refusal: the peer cannot be
// reached, or is another incarnation.
struct PullBlocks {
  struct One {
    BlockName name;
    std::uint64_t generation = 0;  // generation at the owner
    std::uint64_t checksum = 0;
    std::uint32_t tokens = 0;
    std::vector<std::uint32_t> from, to;  // pages at the owner and here
    std::uint64_t here = 0;               // generation of the reservation here; key in PageArrivals
  };
  NodeId node = 0;
  Incarnation incarnation = 0;
  std::int64_t budget_us = 0;  // length of the lease: the owner may reuse the pages after it
  std::vector<One> blocks;
  // If above 1, each page is transferred in this many parts, the first parts of all pages first,
  // and PageArrivals records their progress.
  std::uint32_t parts = 1;
};
struct PullResult {
  std::vector<std::uint8_t> ok;  // parallel to PullBlocks::blocks
};

// ---- memory (KV-cache worker): bytes of ready blocks

// Compares the bytes of blocks with their checksums. Nothing writes these pages meanwhile.
struct CheckBlocks {
  struct One {
    std::uint64_t generation = 0;
    std::uint64_t checksum = 0;
    std::vector<std::uint32_t> pages;
  };
  std::vector<One> blocks;
};
struct BlockCheckResult {
  std::vector<std::uint8_t> ok;  // parallel to CheckBlocks::blocks
  std::int64_t took_us = 0;
};

// ---- block store (KV-cache worker): the persistent tier

struct StoredBlock {
  BlockName name;
  SegmentKind kind = SegmentKind::item;
  std::string owner;
  std::uint32_t tokens = 0;
  std::uint64_t checksum = 0;
};
struct ListStored {};  // lists all blocks of the loaded model, in order of name
struct StoredList {
  std::vector<StoredBlock> blocks;
};
struct SaveBlock {
  StoredBlock block;
  std::vector<std::uint32_t> pages;  // pinned until the result
};
struct BlockSaveResult {
  bool ok = false;
  std::string why;       // if not ok: the reason, e.g. "disk full: …"
  bool corrupt = false;  // if not ok: the pages do not match their checksum; the disk works
  bool full = false;     // if not ok: the store is full; erasing blocks would help
};
// several blocks per job, so that a warm start is not limited to one disk read per step
struct LoadBlocks {
  struct One {
    BlockName name;
    std::vector<std::uint32_t> pages;
    std::uint32_t tokens = 0;
    std::uint64_t checksum = 0;
  };
  std::vector<One> blocks;
};
// Outcome of a block: its bytes were read and match the checksum; they are damaged; or the
// store does not have it, or has another one by that name, because it was erased or saved meanwhile.
enum class BlockLoad : std::uint8_t { corrupt, sound, gone };
struct BlockLoadResult {
  std::vector<BlockLoad> found;  // per block
};
struct EraseBlocks {
  std::vector<BlockName> names;
};
struct BlockEraseResult {};

// ---- records (router): answered requests that can be computed again (replay.keep)

// Holds everything that computing the request again needs. The ids and the budget are 0.
struct AnswerRecord {
  ReplayReply reply;              // with the recorded values alone; the port sets the time of the answer
  Execute plan;                   // computes the request without any cached block
  std::uint64_t fingerprint = 0;  // of the request's content (router/fleet/fingerprint.h)
  Executed answer;                // values that the answer was made of
  bool operator==(const AnswerRecord&) const = default;
};
struct RecordOwner {
  std::string tenant, user;
  bool operator==(const RecordOwner&) const = default;
};
// Stores records; a later one replaces an earlier one with its tenant and request id. Answered by
// RecordsChanged, like the two that follow the next one.
struct KeepRecords {
  std::vector<AnswerRecord> records;
};
// Answered by FoundRecord.
struct FindRecord {
  std::string tenant, request_id;
};
// Erases the records of these users.
struct DropRecords {
  std::vector<RecordOwner> of;
};
// Erases records that are too old, and those of users that were deleted elsewhere.
struct SweepRecords {};
struct FoundRecord {
  std::optional<AnswerRecord> record;  // nullopt: there is none, or it is damaged
};
struct RecordsChanged {
  std::uint64_t records = 0, bytes = 0;  // that are kept now
  std::uint64_t lost = 0;                // records of this job that were not stored
  std::string why;                       // the first failure; "" = none
  bool more = false;                     // the sweep has further users to look up
};

// ---- placement (router): the plan file of pool.placement, which may be replaced while serving

// Reads the plan if its file has changed since the last time. Answered by PlacementRead.
struct ReadPlacement {};
// Listed items: index of a node in `nodes`, or the values for all nodes and for none
// (placement/assignment/placement.h).
using ListedItems = std::unordered_map<std::string, std::uint16_t>;
struct PlacementRead {
  std::shared_ptr<const ListedItems> items;  // null: the file has not changed, or is invalid
  std::vector<NodeId> nodes;                 // sorted
  std::string why;                           // what is wrong with the changed file; "" = nothing
};

using AnyJob =
    std::variant<FindFeatures, Write, Read, ListItems, RunBatch, LoadModel, DropModel, PullBlocks,
                 CheckBlocks, ListStored, SaveBlock, LoadBlocks, EraseBlocks, Coordinate, ChangeRowPages,
                 RefillRows, FillShards, KeepRecords, FindRecord, DropRecords, SweepRecords, ReadPlacement>;
// Refusal: the job could not be done (the port's own failure, or bad input found by it).
using AnyJobResult =
    std::variant<Features, WriteResult, UserReply, ItemReply, ItemList, BatchDone, ModelChanged, PullResult,
                 StoredList, BlockCheckResult, BlockSaveResult, BlockLoadResult, BlockEraseResult,
                 CoordinationReply, RowPages, RowsRefilled, ShardsFilled, FoundRecord, RecordsChanged,
                 PlacementRead, Refusal>;
// Types of their own for the same reason as Message.
struct Job : AnyJob {
  template <class Kind>
  requires(!std::derived_from<std::remove_cvref_t<Kind>, AnyJob> && std::constructible_from<AnyJob, Kind>)
      Job(Kind&& kind)
      : AnyJob(std::forward<Kind>(kind)) {}
  Job();
  Job(const Job&);
  Job(Job&&) noexcept;
  Job& operator=(const Job&);
  Job& operator=(Job&&) noexcept;
  ~Job();
};
struct JobResult : AnyJobResult {
  template <class Kind>
  requires(!std::derived_from<std::remove_cvref_t<Kind>, AnyJobResult> &&
           std::constructible_from<AnyJobResult, Kind>) JobResult(Kind&& kind)
      : AnyJobResult(std::forward<Kind>(kind)) {}
  JobResult();
  JobResult(const JobResult&);
  JobResult(JobResult&&) noexcept;
  JobResult& operator=(const JobResult&);
  JobResult& operator=(JobResult&&) noexcept;
  ~JobResult();
};

class Port {
 public:
  virtual ~Port() = default;
  // Runs a job in one blocking call. `slot` is the index of the calling executor slot, below the
  // number of slots given to the host. Never throws.
  virtual JobResult run(const Job& job, std::uint32_t slot) = 0;
  // Called first, on the thread of the core. Returns the result of a job that neither blocks nor
  // takes longer than waking an executor would (some tens of µs). Otherwise returns nothing, and
  // the host calls run() on an executor slot. Never throws.
  virtual std::optional<JobResult> run_now(const Job&) { return std::nullopt; }
  // Called second, on the thread of the core. Returns true if the port does the job without an executor:
  // `finish` then gets its result once, on a thread of the port, during this call or later. Otherwise
  // returns false and leaves both arguments as they are, and the host calls run(). Never throws.
  using Finish = std::function<void(JobResult)>;
  virtual bool begin(Job&, const Finish&) { return false; }
};

}  // namespace troupe
