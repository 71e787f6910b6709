#pragma once
// Which blocks of the node's pool have a copy in device memory. The pool in host memory stays the place of
// truth: actors, transfers, checksums and the disk know only that; the device holds copies of the blocks that
// passes use, and what a pass writes there is copied to the host before anybody hears of it. So a copy may be
// dropped at any time, and nothing outside knows whether there is one.
//
// A copy is found by the block's generation, which the pool never uses twice, and its checksum: pages of the
// host that were given to another block since are another generation, whatever their numbers. Pure
// bookkeeping: it copies nothing and waits for nothing.
//
// Unpinned blocks leave by segmented LRU: first those that nobody came back for, so that a walk over the
// catalog does not displace what requests share.
#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace troupe::actors {

class DeviceTier {
 public:
  explicit DeviceTier(std::uint32_t pages);
  DeviceTier(const DeviceTier&) = delete;
  DeviceTier& operator=(const DeviceTier&) = delete;

  enum class State : std::uint8_t {
    filling,  // whoever pinned it first copies it here, or lets a pass write it
    ready,
    corrupt,  // the host's bytes are not those of the checksum
    lost      // the device failed
  };
  struct Block {
    std::uint64_t generation = 0, checksum = 0;
    std::vector<std::uint32_t> pages;  // of the device, in token order
    State state = State::filling;
    bool writes = false;     // filling: by a pass
    bool found = true;       // it can be pinned; else its pages follow when the last pin ends
    bool came_back = false;  // it was pinned again after its first use
    std::uint32_t pins = 0;
    std::uint64_t last_use = 0;  // uses of all blocks are numbered
  };

  // A block of a request. Wants of one generation are alike.
  struct Want {
    std::uint64_t generation = 0, checksum = 0;
    std::uint32_t pages = 0;
    bool write = false;  // its bytes come from the pass; else from the host
  };
  struct Pinned {
    Block* block = nullptr;  // valid until unpinned
    bool fill = false;       // it was not here: the caller has to fill it, before it waits for any other
  };
  enum class Room : std::uint8_t { enough, later, never };
  // All blocks of a request, in order, or none of them and nothing changes: `later` may succeed when pins
  // have ended, `never` is more than the device has. If there is no memory, what was pinned until then is in
  // `pinned`, and other blocks there are null.
  Room pin(std::span<const Want> wants, std::vector<Pinned>& pinned);

  // The caller has filled it; or it cannot be had, and is found no more.
  void fill(Block& block, std::uint64_t checksum);
  void fail(Block& block, State why);
  // A block that was to be filled, and was not, is lost.
  void unpin(Block& block);
  // The device failed: nothing that is there now can be found again.
  void forget_all();

  std::uint32_t pages() const { return pages_; }
  std::uint32_t used() const { return pages_ - static_cast<std::uint32_t>(free_.size()); }
  std::size_t blocks() const { return found_.size(); }
  std::uint64_t evicted() const { return evicted_; }
  // Empty if all is well, else what is wrong: every page is free or in exactly one block, all counts agree.
  std::string check_invariants() const;

 private:
  using Blocks = std::list<Block>;
  // Unpinned blocks in order of use: those that came back, and the others.
  struct Queue {
    std::map<std::uint64_t, Blocks::iterator> blocks;
    std::uint64_t pages = 0;
  };
  struct Needs {
    std::uint64_t all = 0;      // pages of the wants
    std::uint64_t missing = 0;  // of those, pages that are not here
    std::uint64_t resting = 0;  // of those, pages that are here and unpinned
    bool blocked = false;       // by a pin of another on other bytes of the same generation
  };

  Needs needs_of(std::span<const Want> wants) const;
  static bool serves(const Block& block, const Want& want);
  Blocks::iterator find(std::uint64_t generation);
  void hold(Blocks::iterator block);
  Blocks::iterator add(const Want& want);
  void rest(Blocks::iterator block);
  void stop_resting(Blocks::iterator block);
  void forget(Blocks::iterator block);
  void free(Blocks::iterator block);  // destroys it
  void evict_one();
  Queue& queue_of(const Block& block) { return block.came_back ? came_back_ : others_; }

  const std::uint32_t pages_;
  std::vector<std::uint32_t> free_;
  Blocks blocks_;                                              // those that cannot be found too, while pinned
  std::unordered_map<std::uint64_t, Blocks::iterator> found_;  // by generation; looked up only, never walked
  Queue others_, came_back_;
  std::uint64_t uses_ = 0, evicted_ = 0;
};

}  // namespace troupe::actors
