#pragma once
// What becomes of users' blocks when their worker leaves the cluster for good: each is offered to the node
// where its user is served from then on, his home among those that stay, and after that in vain to the next
// ones; who takes it pulls it as any other block. What somebody who stays has already is not offered. Blocks
// that were used last come first, so that where the time ends what is left was wanted least. It knows no pool
// and sends nothing; the core does what it says.
//
// An offer is an AcquireBlocks that is no `read_only`, of blocks that the asker itself has. Lost or without
// an answer it is taken for one in vain: at the next try whoever had taken the block says that it is there.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/actor/core.h"
#include "runtime/actor/messages.h"

namespace troupe::actors {

class HandOn {
 public:
  struct Bounds {
    std::size_t looked_up = 64,
                waiting_max = 256;  // blocks: in one question to a cache-meta, and told about and not offered
    std::size_t part_blocks = 16;   // in one offer; one at a time for each node
    std::uint32_t part_tokens = 16'384;  // or as many as one block has
    std::uint32_t tries_max = 3;         // of a block
    Duration lookup_wait{1'000'000};
    Duration patience{5'000'000};  // of an offer
    Duration rest{1'000'000};      // a node that took nothing is left alone for so long
    std::uint32_t full_after = 2;  // such answers in a row: it has no free room any more
  };
  struct Block {
    BlockName name;
    std::string owner;
    std::uint32_t tokens = 0;
    bool displaces = false;  // what was used longest ago there may go for it
    std::uint32_t tries = 0;
  };
  struct Counts {
    std::uint64_t blocks = 0, handed_on = 0, held_elsewhere = 0, left_behind = 0;
    bool operator==(const Counts&) const = default;
  };
  using Said = std::vector<std::pair<Address, Message>>;

  HandOn(NodeId own, Bounds bounds) : own_(own), bounds_(bounds) {}

  // To these nodes, without its own; the blocks that were used last first.
  void begin(Instant now, std::vector<NodeId> nodes, std::vector<Block> blocks);
  void follow(std::vector<NodeId> nodes);  // others stay than was said before
  void stop();
  bool begun() const { return begun_; }
  bool done() const { return begun_ && blocks_open() == 0; }
  std::optional<Duration> take_end(Instant now);  // once: how long all of it took

  Said next(Instant now, std::span<const NodeId> cache_metas, std::uint64_t& next_id);
  // False: that answers something else.
  bool on_found(const BlocksFound& found);
  bool on_answer(Instant now, Address from, const BlocksAcquired& answer);
  void lose(Instant now, NodeId node);
  void tick(Instant now);  // what had no answer in time

  const Counts& counts() const { return counts_; }
  std::size_t blocks_open() const;
  std::string check_bounds() const;  // "" or what exceeds its bound

 private:
  struct Asked {
    std::uint64_t id = 0;
    Instant until;
    std::vector<Block> blocks;
  };
  NodeId target(Instant now, const Block& block) const;  // 0: nobody has room for it
  bool rests(Instant now, NodeId node) const;
  void line_up(Instant now, Block block);
  void try_again(Block block);
  void note_vain(Instant now, NodeId node, bool displaces);
  void give_back_line(NodeId node);
  LookupBlocks look_up(Instant now, std::uint64_t id);
  AcquireBlocks offer(Instant now, NodeId node, std::deque<Block>& from, std::uint64_t id);
  std::size_t waiting() const;

  const NodeId own_;
  const Bounds bounds_;
  bool begun_ = false, told_ = false;
  Instant began_;
  std::vector<NodeId> nodes_;
  std::deque<Block> unknown_;  // of which nobody was asked yet whether others have them
  std::optional<Asked> look_up_;
  std::size_t asked_metas_ = 0;  // in vain
  std::deque<Block> known_;      // that nobody else has
  std::map<NodeId, std::deque<Block>> lines_;
  std::map<NodeId, Asked> offers_;
  std::map<NodeId, Instant> rests_;       // until then
  std::map<NodeId, std::uint32_t> full_;  // answers in a row that took nothing of what may displace nothing
  Counts counts_;
};

}  // namespace troupe::actors
