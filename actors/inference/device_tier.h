#pragma once
// Tracks which blocks of the node's pool have a copy in device memory. The pool in host memory
// stays authoritative: actors, transfers, checksums and the disk know only that pool. The device
// holds copies of the blocks that passes use. What a pass writes there is copied to the host before
// it is reported. So a copy may be dropped at any time, and nothing outside knows whether there is
// one.
//
// A copy is found by the block's generation, which the pool never uses twice, and its checksum.
// Host pages that were reused for another block have another generation, whatever their numbers.
// This is pure bookkeeping: it copies nothing and waits for nothing.
//
// Unpinned blocks are evicted by segmented LRU: blocks used only once are evicted first, so that a
// walk over the catalog does not displace blocks that requests share.
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
    filling,  // the first pinner copies it here, or lets a pass write it
    ready,
    corrupt,  // the host's bytes do not match the checksum
    lost      // the device failed
  };
  struct Block {
    std::uint64_t generation = 0, checksum = 0;
    std::vector<std::uint32_t> pages;  // of the device, in token order
    State state = State::filling;
    bool writes = false;  // filled by a pass, not from the host
    bool found = true;    // pin() finds it; otherwise its pages are freed when the last pin ends
    bool reused = false;  // pinned again after its first use
    std::uint32_t pins = 0;
    std::uint64_t last_use = 0;  // number of its latest use; uses of all blocks are counted
  };

  // A block of a request. Wants of the same generation are alike.
  struct Want {
    std::uint64_t generation = 0, checksum = 0;
    std::uint32_t pages = 0;
    bool write = false;  // the pass writes its bytes; otherwise they come from the host
  };
  struct Pin {
    Block* block = nullptr;  // valid until unpinned
    // True if the caller has to fill it, before it waits for any other block.
    bool fill = false;
  };
  enum class PinResult : std::uint8_t { enough, later, never };
  // Pins all blocks of a request, in order (`enough`: there were pages), or none of them. `later`
  // may succeed when pins have ended; `never` means more pages than the device has. If memory runs
  // out (std::bad_alloc), the blocks pinned so far are in `pinned`, and the others there are null.
  PinResult pin(std::span<const Want> wants, std::vector<Pin>& pinned);

  // Ends the filling of a block: it is ready, or it failed and cannot be found any more.
  void fill(Block& block, std::uint64_t checksum);
  void fail(Block& block, State why);
  // Unpins a block. A block that was to be filled, and was not, is lost.
  void unpin(Block& block);
  // The device failed: no present copy can be found any more.
  void forget_all();

  std::uint32_t pages() const { return pages_; }
  std::uint32_t used() const { return pages_ - static_cast<std::uint32_t>(free_.size()); }
  std::size_t blocks() const { return found_.size(); }
  std::uint64_t evicted() const { return evicted_; }
  // Returns "" if every page is free or in exactly one block and all counts agree; otherwise the
  // violation.
  std::string check_invariants() const;

 private:
  using Blocks = std::list<Block>;
  // Unpinned blocks in order of use: one queue for reused blocks, one for the others.
  struct Queue {
    std::map<std::uint64_t, Blocks::iterator> blocks;
    std::uint64_t pages = 0;
  };
  struct Needs {
    std::uint64_t all = 0;        // pages of all wants
    std::uint64_t missing = 0;    // pages of wants without a copy
    std::uint64_t evictable = 0;  // pages of unpinned copies that wants use, so not to be evicted
    bool blocked = false;         // a pinned block has other bytes of the same generation
  };

  Needs needs_of(std::span<const Want> wants) const;
  static bool serves(const Block& block, const Want& want);
  Blocks::iterator find(std::uint64_t generation);
  void hold(Blocks::iterator block);
  Blocks::iterator add(const Want& want);
  void add_evictable(Blocks::iterator block);
  void remove_evictable(Blocks::iterator block);
  void forget(Blocks::iterator block);
  void free(Blocks::iterator block);  // destroys it
  void evict_one();
  Queue& queue_of(const Block& block) { return block.reused ? reused_ : others_; }

  const std::uint32_t pages_;
  std::vector<std::uint32_t> free_;
  Blocks blocks_;  // includes pinned blocks that cannot be found
  // Index by generation; looked up only, never iterated.
  std::unordered_map<std::uint64_t, Blocks::iterator> found_;
  Queue others_, reused_;
  std::uint64_t uses_ = 0, evicted_ = 0;
};

}  // namespace troupe::actors
