#pragma once
// Migrates user blocks when their worker leaves the cluster for good. Each block is offered to the
// node that serves its user from then on: the user's home among the nodes that stay. If that fails,
// the next nodes are tried. A node that accepts pulls the block as any other. Blocks that a staying
// node has already are not offered. Blocks used last are offered first, so that if time runs out
// the least wanted remain. The class reads the pool only at the begin of the migration.
//
// An offer is an AcquireBlocks that is not `read_only`, for blocks that the sender itself has. A
// lost or unanswered offer counts as failed. At the next try, a node that had taken the block says
// that it has it.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/kv_worker/kv_worker_timer.h"
#include "runtime/actor/core.h"
#include "runtime/actor/messages.h"
#include "runtime/pool/page_pool.h"

namespace troupe::actors {

class Migration {
 public:
  struct Bounds {
    // Blocks: in one lookup at a cache-meta, and looked up but not yet offered.
    std::size_t lookup_blocks = 64, waiting_max = 256;
    std::size_t part_blocks = 16;        // blocks in one offer; each node has at most one open offer
    std::uint32_t part_tokens = 16'384;  // tokens in one offer; a single block may have more
    std::uint32_t tries_max = 3;         // offers per block
    Duration lookup_wait{1'000'000};
    Duration offer_wait{5'000'000};  // time allowed for an offer
    Duration back_off{1'000'000};    // back-off after a node took nothing
    // Failed offers in a row after which a node has no free pages any more.
    std::uint32_t full_after = 2;
  };
  struct Block {
    BlockName name;
    std::string owner;
    std::uint32_t tokens = 0;
    bool displaces = false;  // may evict the receiver's least recently used blocks
    std::uint32_t tries = 0;
  };
  struct Counts {
    std::uint64_t blocks = 0, migrated = 0, held_elsewhere = 0, left_behind = 0;
    bool operator==(const Counts&) const = default;
  };

  // `tick`: longest time between two calls of `advance` while blocks are open.
  Migration(NodeId own, Duration tick, Bounds bounds) : own_(own), tick_(tick), bounds_(bounds) {}

  // Begins, follows or stops a migration. Drain is sent repeatedly, as to other roles. With nodes
  // in `user_targets` this worker is leaving. Without any there is nothing to migrate to.
  void on_drain(Instant now, Drain&& drain, const PagePool& pool, Effects& effects);
  // Sends the next lookups and offers, and reports the end once.
  void advance(Instant now, std::span<const NodeId> cache_metas, Serials& serials, Effects& effects);
  // Returns false if the message answers something else.
  bool on_found(const BlocksFound& found);
  bool on_answer(Instant now, Address from, const BlocksAcquired& answer);
  void lose(Instant now, NodeId node);

  bool begun() const { return begun_; }
  bool done() const { return begun_ && blocks_open() == 0; }

  const Counts& counts() const { return counts_; }
  std::size_t blocks_open() const;
  std::string check_bounds() const;  // "" or the exceeded bound

 private:
  struct OpenRequest {
    std::uint64_t id = 0;
    Instant until;
    std::vector<Block> blocks;
  };
  void begin(Instant now, std::vector<NodeId>&& nodes, const PagePool& pool, Effects& effects);
  void follow(std::vector<NodeId>&& nodes);
  void stop();
  void send_next(Instant now, std::span<const NodeId> cache_metas, Serials& serials, Effects& effects);
  void end_unanswered(Instant now);
  void count(Effects& effects);
  void report_end(Instant now, Effects& effects);
  NodeId target(Instant now, const Block& block) const;  // 0 = no node has free pages for it
  bool is_in_back_off(Instant now, NodeId node) const;
  void enqueue(Instant now, Block block);
  void retry_block(Block block);
  void note_failed_offer(Instant now, NodeId node, bool displaces);
  void requeue_blocks(NodeId node);
  LookupBlocks look_up(Instant now, std::uint64_t id);
  AcquireBlocks offer(Instant now, NodeId node, std::deque<Block>& from, std::uint64_t id);
  std::size_t waiting() const;

  const NodeId own_;
  const Duration tick_;
  const Bounds bounds_;
  bool begun_ = false, end_reported_ = false;
  Instant began_;
  std::vector<NodeId> nodes_;
  std::deque<Block> not_looked_up_;  // not yet looked up
  std::optional<OpenRequest> look_up_;
  std::size_t failed_lookups_ = 0;  // failed lookups
  std::deque<Block> to_offer_;      // held by no node that stays
  std::map<NodeId, std::deque<Block>> queues_;
  std::map<NodeId, OpenRequest> offers_;
  std::map<NodeId, Instant> back_off_until_;  // end of the back-off
  // Answers in a row that took none of the blocks that may not evict others.
  std::map<NodeId, std::uint32_t> full_;
  Counts counts_, counted_;  // so far, and as of the last metrics update
};

}  // namespace troupe::actors
