#pragma once
// Ports: how a core asks for slow or physical things. A job goes out as an effect, one result comes back as
// `Done`. A port does its work in one blocking call; the host decides on which thread (CAF) or at what
// virtual cost (simulation), so ports hold no policy.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/actor/coordination.h"
#include "runtime/actor/messages.h"

namespace troupe {

// ---- features (router): profiles and catalog
// ----------------------------------------------------------------

struct Profile {
  std::uint64_t version = 0;
  std::vector<Token> tokens;          // the history's tokens, oldest first, without the prompt's own tokens
  std::vector<std::uint32_t> events;  // tokens of each history event, oldest first; sums to tokens.size()
  bool operator==(const Profile&) const = default;
};
struct Item {
  std::string id, title;
  std::vector<Token> tokens;
  Token identifier = -1;
  BlockName block;  // of its item-prefix block under the loaded model
  bool operator==(const Item&) const = default;
};

struct FindFeatures {
  std::string tenant, user;
  std::vector<std::string> items;
  std::string model_version;    // whose block names the items carry; "": the port's own
  std::string catalog_version;  // that the request is pinned to; "": the present one
};
// One consistent state of the profile and of the catalog (promise 4).
struct Features {
  std::optional<Profile> user;
  std::vector<std::optional<Item>> items;  // parallel to FindFeatures::items
  std::string catalog_version;
};
// Answered by Written or Refusal. PutUser fails with `unknown_item` if its history names one.
struct Write {
  std::variant<PutUser, DeleteUser, PutItem, DeleteItem> what;
};
struct Written {
  std::uint64_t version = 0;
};
// The catalog in order of id, a page at a time: what the background precomputation walks over.
struct ListItems {
  std::string after;  // exclusive; "" from the start
  std::uint32_t count = 0;
};
struct ItemList {
  std::vector<Item> items;
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
};
struct BatchRequest {
  std::vector<PlannedSegment> segments;
  std::vector<PlannedReadout> readouts;
  std::vector<BatchSegmentKv> kv;  // one per segment
  std::string model_version;       // "": the port's own
};
struct RunBatch {
  std::vector<BatchRequest> requests;
};
struct BatchReply {
  std::optional<Refusal> refusal;  // this request failed alone
  std::vector<ScoreRow> readouts;
  std::vector<std::uint64_t> checksums;  // per segment; of written pages, else 0
  std::vector<std::uint32_t>
      corrupt;  // segments whose cached bytes failed their checksum (they were computed)
};
// What a batch did with the device's copies of the pool's pages. All zero where there is no such device.
struct DeviceUse {
  std::uint64_t blocks_hit = 0, blocks_missed = 0;  // of those that were to be read
  std::uint64_t blocks_evicted = 0;
  std::uint64_t bytes_to_device = 0, bytes_to_host = 0;
  std::uint32_t pages = 0, pages_used = 0;  // when the batch began
};
struct BatchDone {
  std::vector<BatchReply> replies;  // parallel to RunBatch::requests
  std::int64_t compute_us = 0;
  DeviceUse device;
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
  };
  NodeId node = 0;
  Incarnation incarnation = 0;
  std::int64_t budget_us = 0;  // the lease: pages may be somebody else's after that
  std::vector<One> blocks;
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

using Job = std::variant<FindFeatures, Write, ListItems, RunBatch, LoadModel, DropModel, PullBlocks,
                         CheckBlocks, ListStored, SaveBlock, LoadBlocks, EraseBlocks, Coordinate>;
// Refusal: the job could not be done (the port's own failure, or bad input found by it).
using JobResult = std::variant<Features, Written, ItemList, BatchDone, ModelChanged, Pulled, StoredList,
                               Checked, Saved, Loaded, Erased, Coordinated, Refusal>;

class Port {
 public:
  virtual ~Port() = default;
  // `lane` is the index of the calling executor, in [0, lanes given to the host). Never throws.
  virtual JobResult run(const Job& job, std::uint32_t lane) = 0;
};

}  // namespace troupe
