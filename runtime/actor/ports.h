#pragma once
// Ports: how a core asks for slow or physical things. A job goes out as an effect, one result comes back as
// `Done`. A port does its work in one blocking call; the host decides on which thread (CAF) or at what
// virtual cost (simulation), so ports hold no policy.
#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/actor/catalog.h"
#include "runtime/actor/coordination.h"
#include "runtime/actor/messages.h"

namespace troupe {

// ---- features (router): profiles and catalog
// ----------------------------------------------------------------

struct Profile {
  std::uint64_t version = 0;
  std::vector<Token> tokens;          // the history's tokens, oldest first, without the prompt's own tokens
  std::vector<std::uint32_t> events;  // tokens of each history event, oldest first; sums to tokens.size()
  std::vector<Feature> features;      // of the events; each has a value for every one
  bool operator==(const Profile&) const = default;
};
using ProfilePointer = std::shared_ptr<const Profile>;

// How new what a request sees of its user has to be (runtime/features/cached_features.h).
enum class Freshness : std::uint8_t {
  configured,
  exact,  // as it is in the store
  wait,   // read from the store within the expiry
  behind  // what is known here now, else nothing; the store is asked behind the answer
};

struct FindFeatures {
  std::string tenant, user;
  std::vector<std::string> items;
  std::string model_version;    // whose block names the items carry; "": the port's own
  std::string catalog_version;  // that the request is pinned to; "": the present one
  bool paths = false;           // the catalog's paths are made, too
  Freshness freshness = Freshness::configured;
};
// One consistent state of the profile and of the catalog (promise 4), shared with whoever else sees it.
struct Features {
  ProfilePointer user;  // null: there is none
  CatalogPointer catalog;
  std::vector<ItemNumber>
      items;  // in `catalog`; parallel to FindFeatures::items, no_item where there is none
  // Where the request allowed it: `user` was read within the expiry, or before; or nothing of it is known
  // yet, and it is answered as one without events.
  enum class Of : std::uint8_t { store, cache, stale, missing };
  Of of = Of::store;
};
// Answered by Written or Refusal. PutUser and AppendEvents fail with `unknown_item` if their history names
// one; all with `changed_meanwhile` if their condition is not met.
struct Write {
  std::variant<PutUser, DeleteUser, PutItem, DeleteItem, AppendEvents> what;
};
struct Written {
  std::uint64_t version = 0;
  std::uint32_t appended = 0, repeated = 0, dropped = 0, events = 0;  // as of Appended
};
// What is stored, as it was put. Answered by UserReply, ItemReply or Refusal.
struct Read {
  std::variant<GetUser, GetItem> what;
};
// The present catalog in order of number, a page at a time: what the background precomputation walks over.
struct ListItems {
  ItemNumber from = 0;
  std::uint32_t count = 0;
};
struct ItemList {
  CatalogPointer catalog;
  std::vector<ItemNumber> items;
  bool last = false;
};

// ---- compute (inference worker)
// -----------------------------------------------------------------------------

struct BatchSegmentKv {
  Grant grant = Grant::none;   // read: reuse these pages; write: compute into them; none: compute only
  std::uint64_t checksum = 0;  // for read: what the bytes were summed up to where they came into the arena
  std::vector<std::uint32_t> pages;
  std::uint64_t generation = 0;  // of the block: never that of other bytes, as long as the process runs
  bool check = false;            // for read: the bytes are compared with the checksum before use
  bool coming = false;           // for read: on its way into these pages, layer after layer (PageArrivals)
};
struct BatchRequest {
  Plan plan;
  std::vector<SegmentBlock> blocks;  // one per segment
  std::vector<BatchSegmentKv> kv;    // one per segment
  std::string model_version;         // "": the port's own
  std::string catalog_version;       // as Execute::catalog_version
  std::int64_t coming_us = 0;        // what is coming is waited for so long, then computed
};
// Of an embedding table that is spread over nodes' memory: so many consecutive rows as a page holds. It is a
// block like others.
struct TableShard {
  BlockName table;  // of its model's version, its size and its place there
  std::uint32_t shard = 0;
  auto operator<=>(const TableShard&) const = default;
};
struct GrantedShard {
  TableShard shard;
  BlockGrant grant;  // read: rows are read there; write: whoever needs one fills it from the table; none: the
                     // table has them
};
struct RunBatch {
  std::vector<BatchRequest> requests;
  // A pass that misses rows of shards that are not granted ends, and says which; else it reads them from the
  // table.
  bool asks_for_shards = false;
  std::vector<GrantedShard> shards;
};
struct BatchReply {
  std::optional<Refusal> refusal;  // this request failed alone
  std::vector<ScoreRow> readouts;
  std::vector<Beam> beams;
  std::vector<std::uint64_t> checksums;  // per segment; of written pages, else 0
  std::vector<std::uint32_t>
      corrupt;  // segments whose cached bytes failed their checksum (they were computed)
  std::vector<std::uint32_t>
      missed;  // segments whose blocks were coming and did not come (they were computed)
};
// What a batch did with the device's copies of the pool's pages. All zero where there is no such device.
struct DeviceUse {
  std::uint64_t blocks_hit = 0, blocks_missed = 0;  // of those that were to be read
  std::uint64_t blocks_evicted = 0;
  std::uint64_t bytes_to_device = 0, bytes_to_host = 0;
  std::uint32_t pages = 0, pages_used = 0;  // when the batch began
};
// Of the table that passes read last, by shards of as many consecutive rows: what was found, lately
// (Heartbeat::rows_found).
struct ShardsFound {
  std::uint32_t shard_rows = 0;  // 0: nothing is known
  std::array<std::uint8_t, row_shards> hundredths{};
  double us_per_row = 0;  // that is fetched
};
// What became of rows of embedding tables since the port was made. All zero where all tables are in memory.
struct RowTotals {
  std::uint64_t hits = 0, misses = 0;  // distinct rows of each pass, in the pool's pages or not
  std::uint64_t repeats = 0;           // of rows within a pass: fetched once
  std::uint64_t bytes_missed = 0, bytes_refilled = 0;  // from the slow side, for passes and ahead of them
  std::uint64_t evicted = 0, dropped = 0, corrupt = 0;
  // Of `misses`, where tables are spread over nodes: by whose memory had them. The others came from the
  // table.
  std::uint64_t from_here = 0, from_nodes = 0, from_table = 0;
  bool wants_refill = false;
  ShardsFound shards;
};
struct BatchDone {
  std::vector<BatchReply> replies;  // parallel to RunBatch::requests
  std::int64_t compute_us = 0;
  DeviceUse device;
  RowTotals rows;
  // Of a request whose blocks were coming: how long they still came while it ran, and how long of that it
  // waited. What is between the two was spared.
  std::int64_t coming_us = 0, waited_us = 0;
  // Shards without which a pass ended: then nothing else is said, and the batch is to be run again.
  std::vector<TableShard> away;
  std::vector<BlockOutcome> shards;  // of those that were granted: written, checked, or corrupt
};

// Fills granted shards from their tables, and says which tables there are. Answered by ShardsFilled.
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

// Pages for rows come and go, by number: see LendPages. Answered by RowPages.
struct ChangeRowPages {
  std::vector<std::uint32_t> pages;
  std::uint32_t give_back = 0;
};
struct RowPages {
  std::vector<std::uint32_t> given_back;
  RowTotals rows;
  double saved_us = 0;  // as AreaReport's
  std::vector<double> savings = {};
};
// Brings rows back that went, into pages with room, as long as no pass misses one. Answered by RowsRefilled.
struct RefillRows {
  std::uint64_t bytes = 0;  // at most
};
struct RowsRefilled {
  RowTotals rows;
};

// Answered by ModelChanged, or by Refusal if there is no such model or no room for it. A model that is
// dropped is not in use by a running batch; dropping an unknown one does nothing.
struct LoadModel {
  std::string model_version;
};
struct DropModel {
  std::string model_version;
};
struct ModelChanged {};

// ---- transfer (KV-cache worker): pages of other nodes
// --------------------------------------------------------

// Copies pages that their owner has pinned for this node into reserved local pages. A block is good only if
// its bytes match the checksum after they have arrived. Refusal: the peer cannot be reached, or is another
// incarnation.
struct PullBlocks {
  struct One {
    BlockName name;
    std::uint64_t generation = 0;  // at the owner
    std::uint64_t checksum = 0;
    std::uint32_t tokens = 0;
    std::vector<std::uint32_t> from, to;  // pages there and here
    std::uint64_t here = 0;               // generation of the reservation here: its name in PageArrivals
  };
  NodeId node = 0;
  Incarnation incarnation = 0;
  std::int64_t budget_us = 0;  // the lease: pages may be somebody else's after that
  std::vector<One> blocks;
  // Where this is above 1, each page comes in so many parts, the first ones of all pages first, and
  // PageArrivals are told.
  std::uint32_t parts = 1;
};
struct Pulled {
  std::vector<std::uint8_t> ok;  // parallel to PullBlocks::blocks
};

// ---- memory (KV-cache worker): bytes of ready blocks
// ------------------------------------------------------------

// Reads pages that nobody writes meanwhile and compares them with what their blocks were summed up to.
struct CheckBlocks {
  struct One {
    std::uint64_t generation = 0;
    std::uint64_t checksum = 0;
    std::vector<std::uint32_t> pages;
  };
  std::vector<One> blocks;
};
struct Checked {
  std::vector<std::uint8_t> ok;  // parallel to CheckBlocks::blocks
  std::int64_t took_us = 0;
};

// ---- block store (KV-cache worker): the persistent tier
// -----------------------------------------------------

struct StoredBlock {
  BlockName name;
  SegmentKind kind = SegmentKind::item;
  std::string owner;
  std::uint32_t tokens = 0;
  std::uint64_t checksum = 0;
};
struct ListStored {};  // names and sizes of all blocks of the loaded model, in order of name
struct StoredList {
  std::vector<StoredBlock> blocks;
};
struct SaveBlock {
  StoredBlock block;
  std::vector<std::uint32_t> pages;  // pinned until the result
};
struct Saved {
  bool ok = false;
  std::string why;       // when not ok: "disk full: …"
  bool corrupt = false;  // when not ok: the pages do not match their checksum; the disk is well
  bool full = false;     // when not ok: there would be room if something were erased
};
struct LoadBlocks {  // several at a time, so that a warm start is not one disk read a step
  struct One {
    BlockName name;
    std::vector<std::uint32_t> pages;
    std::uint32_t tokens = 0;
    std::uint64_t checksum = 0;
  };
  std::vector<One> blocks;
};
struct Loaded {
  std::vector<std::uint8_t> ok;  // per block: bytes are there and match the checksum
};
struct EraseBlocks {
  std::vector<BlockName> names;
};
struct Erased {};

using AnyJob = std::variant<FindFeatures, Write, Read, ListItems, RunBatch, LoadModel, DropModel, PullBlocks,
                            CheckBlocks, ListStored, SaveBlock, LoadBlocks, EraseBlocks, Coordinate,
                            ChangeRowPages, RefillRows, FillShards>;
// Refusal: the job could not be done (the port's own failure, or bad input found by it).
using AnyJobResult = std::variant<Features, Written, UserReply, ItemReply, ItemList, BatchDone, ModelChanged,
                                  Pulled, StoredList, Checked, Saved, Loaded, Erased, Coordinated, RowPages,
                                  RowsRefilled, ShardsFilled, Refusal>;
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
  // `lane` is the index of the calling executor, in [0, lanes given to the host). Never throws.
  virtual JobResult run(const Job& job, std::uint32_t lane) = 0;
  // Called first, on the thread of the core that asks: the answer to a job that neither waits nor takes
  // longer than waking a lane would (some tens of µs); none, and run() is called on a lane. Never throws.
  virtual std::optional<JobResult> run_now(const Job&) { return std::nullopt; }
};

}  // namespace troupe
