#pragma once
// The index of cache-meta: which nodes hold each block, who owns it, and how hot its owner was when
// last asked. The index is soft state. KV-cache workers own the blocks and report which they add
// and remove. A missing or wrong entry costs a miss, never a wrong answer. User blocks are also
// kept in order of hotness, coldest first.
//
// One block on one node is a holding. A million blocks with four holders each take about 0.4 GB.
// Holdings that a node has lost as a whole (it restarted, or a walk through its inventory has
// ended) are stale. Stale holdings are not shown any more and are erased a few at a time, so that
// no request waits while a hundred thousand of them are erased.
//
// Names that collide (tests/sim/mutants) share an entry, which keeps the first name and owner
// reported. Hash tables are only looked up, never iterated.
#include <boost/unordered/unordered_flat_map.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/actor/block_name.h"

namespace troupe::actors {

class BlockIndex {
 public:
  struct Block;
  using NamedBlock = std::pair<const BlockName, Block>;
  using Owners = std::unordered_map<std::string, NamedBlock*>;  // owner → the first of its blocks
  using Owner = Owners::value_type;

  struct Holder {
    std::uint64_t generation = 0;
    NodeId node = 0;
    std::uint32_t position = 0;  // index in Node::held
  };
  struct Block {
    Owner* owner = nullptr;
    NamedBlock *previous = nullptr, *next = nullptr;  // blocks of the same owner
    std::vector<Holder> holders;                      // in order of node; never empty
    std::uint64_t ordinal = 0;                        // counts blocks in order of arrival
    // The owner's frequency as of the last `set_frequency`; user blocks only.
    double frequency = 0;
    std::uint32_t tokens = 0;
    SegmentKind kind = SegmentKind::item;
  };
  struct ColdBlock {
    double frequency = 0;
    std::uint64_t ordinal = 0;
    const NamedBlock* block = nullptr;
    bool operator<(const ColdBlock& other) const {
      return frequency != other.frequency ? frequency < other.frequency : ordinal < other.ordinal;
    }
  };

  explicit BlockIndex(std::size_t holdings_max) : holdings_max_(holdings_max) {}
  BlockIndex(const BlockIndex&) = delete;
  BlockIndex& operator=(const BlockIndex&) = delete;

  // Returns false if the index is full, or if it knows a younger generation on that node. A new
  // user block has frequency 0 until `set_frequency`.
  bool add(NodeId node, BlockEntry block);
  // Removes the block's holding on `node` if it has that generation or an older one. Returns false
  // if there is none.
  bool remove(NodeId node, const BlockVersion& block);
  void forget_node(NodeId node);  // makes all its holdings stale

  // Brackets a walk through a node's inventory. Holdings that were not added again between the two
  // calls become stale.
  void begin_walk(NodeId node) { ++nodes_[node].walk; }
  void end_walk(NodeId node);
  // Looks at up to `count` holdings that may be stale, and erases the stale ones.
  void sweep(std::size_t count);

  // Answers name only holders with `named` set, which is the initial state of a node.
  void set_named(NodeId node, bool named) { nodes_[node].named = named; }
  bool named(NodeId node) const;
  // Finds up to `most` (at most 255) named holders of each block. Those in `prefer` come first, in
  // that order. The others follow in order of node, starting at the one that `rotation` selects.
  // Appends the number of holders per block to `counts`, and the holders to `holders`.
  void find_holders(std::span<const BlockQuery> blocks, std::span<const NodeId> prefer,
                    std::uint64_t rotation, std::size_t most, std::vector<std::uint8_t>& counts,
                    std::vector<NodeId>& holders) const;
  // Returns true if a named node among `nodes` holds the block. With empty `nodes`, any named node
  // counts.
  bool held_by_any(const BlockName& name, std::span<const NodeId> nodes) const;

  const std::string* owner_of(const BlockName& name) const;  // null if unknown
  // Returns true if the block is an item's, and no named node but this one holds it.
  bool is_last_of_item(const BlockName& name, NodeId node) const;
  std::uint64_t generation_of(const BlockName& name, NodeId node) const;  // 0 if not held there
  void set_frequency(const std::string& user, double frequency);

  // Returns user blocks, coldest first; of equally cold blocks the one known longest comes first.
  const std::set<ColdBlock>& coldest() const { return coldest_; }
  // Returns the next user after `user`, in order of key, who has a block and a frequency above 0.
  // Wraps around after the last user. Returns nothing if there is no such user.
  std::optional<std::string> user_after(const std::string& user) const;

  std::size_t blocks() const { return blocks_.size(); }
  std::size_t users() const { return users_.size(); }
  std::size_t holdings() const { return holdings_; }  // including stale ones
  std::size_t holdings(NodeId node) const;
  bool full() const { return holdings_ >= holdings_max_; }
  // Less than 90 % full: enough free holdings for a walk to be useful.
  bool has_free_holdings() const { return holdings_ * 10 < holdings_max_ * 9; }
  std::string check_bounds() const;  // "" or the violated bound

 private:
  struct Holding {
    NamedBlock* block = nullptr;
    std::uint32_t walk = 0;  // walk in which it was last added
  };
  struct Node {
    std::vector<Holding> held;
    std::uint32_t walk = 0;
    std::uint32_t valid_from = 0;  // holdings last added in an earlier walk than this are stale
    std::size_t unswept = 0;       // all stale holdings are among the first `unswept` of `held`
    bool named = true;
  };
  using Holders = std::vector<Holder>;

  Owners& owners(SegmentKind kind) { return kind == SegmentKind::user ? users_ : others_; }
  NamedBlock& make_block(BlockEntry&& entry);
  void erase_block(NamedBlock& block);
  void add_holding(NodeId node, NamedBlock& block, std::uint64_t generation);
  void erase_holding(Holder holder);
  void erase_holding(Node& node, NodeId id, std::size_t position);
  NamedBlock* find(const BlockName& name) const;  // null if unknown
  static bool stale(const Node& node, std::size_t position) {
    return position < node.unswept && node.held[position].walk < node.valid_from;
  }
  bool shown(const Holder& holder) const;
  void choose_holders(const Holders& all, std::span<const NodeId> prefer, std::uint64_t rotation,
                      std::size_t count, std::vector<NodeId>& chosen) const;
  void make_stale(NodeId id, Node& node);

  std::size_t holdings_max_;
  std::size_t holdings_ = 0;
  std::uint64_t ordinals_ = 0;
  boost::unordered_flat_map<BlockName, std::unique_ptr<NamedBlock>, BlockNameHash> blocks_;
  std::map<NodeId, Node> nodes_;
  std::set<NodeId> sweeping_;  // nodes with unswept holdings
  Owners users_, others_;
  std::set<ColdBlock> coldest_;
  // Users with a frequency above 0; views of keys of users_.
  std::set<std::string_view> warm_users_;
};

}  // namespace troupe::actors
