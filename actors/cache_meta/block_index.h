#pragma once
// The index of cache-meta: which nodes hold each block, whose it is, and how hot its owner was when last
// asked. It is soft state: KV-cache workers own the blocks and say when they come and go; an entry that is
// missing or wrong costs a miss, never a wrong answer. User blocks are also kept in order of hotness, coldest
// first.
//
// What a node has lost as a whole (it restarted, or a walk through its inventory has ended) is stale: not
// shown any more, and erased a few holdings at a time, so that nobody waits for a hundred thousand of them.
//
// One block on one node is a holding; a million blocks with four holders each take about 0.4 GB. Names that
// collide (runtime/actor/planted.h) share an entry, which keeps the name and owner that it was told first.
// Hash tables are looked up only, never walked.
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
  using Named = std::pair<const BlockName, Block>;
  using Owners = std::unordered_map<std::string, Named*>;  // owner → the first of its blocks
  using Owner = Owners::value_type;

  struct Holder {
    std::uint64_t generation = 0;
    NodeId node = 0;
    std::uint32_t place = 0;  // in Node::held
  };
  struct Block {
    Owner* owner = nullptr;
    Named *previous = nullptr, *next = nullptr;  // of the same owner
    std::vector<Holder> holders;                 // by node; never empty
    std::uint64_t ordinal = 0;                   // blocks are numbered as they come
    double frequency = 0;  // of the owner, user blocks only; as of the last `set_frequency`
    std::uint32_t tokens = 0;
    SegmentKind kind = SegmentKind::item;
  };
  struct ColdBlock {
    double frequency = 0;
    std::uint64_t ordinal = 0;
    const Named* block = nullptr;
    bool operator<(const ColdBlock& other) const {
      return frequency != other.frequency ? frequency < other.frequency : ordinal < other.ordinal;
    }
  };

  explicit BlockIndex(std::size_t holdings_max) : holdings_max_(holdings_max) {}
  BlockIndex(const BlockIndex&) = delete;
  BlockIndex& operator=(const BlockIndex&) = delete;

  // False if there is no room, or if a younger generation on that node is known. A user block that is new is
  // as cold as can be until `set_frequency`.
  bool add(NodeId node, const BlockEntry& block);
  // That generation on that node, or an older one, is gone.
  bool remove(NodeId node, const BlockVersion& block);
  void forget_node(NodeId node);  // all that it holds becomes stale

  // A walk through a node's inventory: what was not added again between the two becomes stale.
  void begin_walk(NodeId node) { ++nodes_[node].walk; }
  void end_walk(NodeId node);
  void sweep(std::size_t count);  // looks at so many holdings of such nodes, and erases the stale ones

  // Holders in answers are only those that are named; nodes are until told otherwise.
  void set_named(NodeId node, bool named) { nodes_[node].named = named; }
  bool named(NodeId node) const;
  // Of each block up to `most` (at most 255) named holders: those in `prefer` first, in that order, then in
  // order of node from the one that `rotation` falls on. How many goes to `counts`, they to `holders`.
  void find_holders(std::span<const AskedBlock> blocks, std::span<const NodeId> prefer,
                    std::uint64_t rotation, std::size_t most, std::vector<std::uint8_t>& counts,
                    std::vector<NodeId>& holders) const;
  // By one of `nodes` that is named; by any that is named, if there are none.
  bool held_by_any(const BlockName& name, std::span<const NodeId> nodes) const;

  const std::string* owner_of(const BlockName& name) const;               // null if unknown
  std::uint64_t generation_of(const BlockName& name, NodeId node) const;  // 0 if not held there
  void set_frequency(const std::string& user, double frequency);

  // User blocks, coldest first; of equally cold ones the one that is known longest.
  const std::set<ColdBlock>& coldest() const { return coldest_; }
  // Of the users with a block and a frequency above 0 the one after this in order of key, from the first
  // again after the last. None if there is no such user.
  std::optional<std::string> user_after(const std::string& user) const;

  std::size_t blocks() const { return blocks_.size(); }
  std::size_t users() const { return users_.size(); }
  std::size_t holdings() const { return holdings_; }  // the stale ones, too
  std::size_t holdings(NodeId node) const;
  bool full() const { return holdings_ >= holdings_max_; }
  bool has_room() const { return holdings_ * 10 < holdings_max_ * 9; }  // enough for a walk to be worth it
  std::string check_bounds() const;                                     // "" or what is wrong

 private:
  struct Held {
    Named* block = nullptr;
    std::uint32_t walk = 0;  // in which it was last added
  };
  struct Node {
    std::vector<Held> held;
    std::uint32_t walk = 0;
    std::uint32_t valid_from = 0;  // walk: what was last added in an earlier one is stale
    std::size_t unswept = 0;       // all stale ones are among so many of the first of `held`
    bool named = true;
  };
  using Holders = std::vector<Holder>;

  Owners& owners(SegmentKind kind) { return kind == SegmentKind::user ? users_ : others_; }
  Named& make_block(const BlockEntry& entry);
  void erase_block(Named& block);
  void add_holding(NodeId node, Named& block, std::uint64_t generation);
  void erase_holding(Holder holder);
  void erase_holding(Node& node, NodeId id, std::size_t place);
  Named* find(const BlockName& name) const;  // null if unknown
  static bool stale(const Node& node, std::size_t place) {
    return place < node.unswept && node.held[place].walk < node.valid_from;
  }
  bool shown(const Holder& holder) const;
  void choose_holders(const Holders& all, std::span<const NodeId> prefer, std::uint64_t rotation,
                      std::size_t count, std::vector<NodeId>& chosen) const;
  void make_stale(NodeId id, Node& node);

  std::size_t holdings_max_;
  std::size_t holdings_ = 0;
  std::uint64_t ordinals_ = 0;
  boost::unordered_flat_map<BlockName, std::unique_ptr<Named>, BlockNameHash> blocks_;
  std::map<NodeId, Node> nodes_;
  std::set<NodeId> sweeping_;  // with unswept holdings
  Owners users_, others_;
  std::set<ColdBlock> coldest_;
  std::set<std::string_view> warm_users_;  // frequency above 0; views of keys of users_
};

}  // namespace troupe::actors
