#pragma once
// The page arena of one simulated process: a fingerprint for each page in the place of its bytes, and beside
// it where that came from, which only checkers look at. Pages die with their process; a new one has new
// Pages. The registry says whose pages a one-sided reader finds at a node.
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"
#include "sim/world/toy_model.h"

namespace troupe::sim {

// Of what a page holds. Travels with the content through transfers and disks; no core can see it.
struct Provenance {
  std::uint32_t block = 0;   // block_mark of the name under which it was written
  std::uint32_t tenant = 0;  // tenant_mark of a user's block; 0: public
  std::uint32_t model = 0;   // model_mark
  bool operator==(const Provenance&) const = default;
};
std::uint32_t block_mark(const BlockName& name);
std::uint32_t tenant_mark(SegmentKind kind, std::string_view owner);  // owner: owner_of_user
std::uint32_t model_mark(std::string_view model_version);

struct Page {
  Fingerprint print;
  Provenance from;
  std::uint32_t writing : 29 = 0;  // which write of its arena made it: another one even for equal content
  std::uint32_t late : 1 = 0;      // it was pulled after the lease had ended
  std::uint32_t fresh : 1 = 0;     // computed here, and not compared with its checksum since
  std::uint32_t struck : 1 = 0;    // bits of it flipped where it lies
  bool operator==(const Page&) const = default;
};
static_assert(sizeof(Page) == 32);

// A block that is being copied into pages while somebody may read them: when its copy begins and is to end,
// and how it did.
struct Arrival {
  std::int64_t begins_us = 0, ends_us = 0;
  bool ended = false, good = false;
  std::vector<Page> left;  // its pages as the copy left them
};

class Pages {
 public:
  Pages(std::uint32_t count, std::uint32_t page_tokens);

  std::uint32_t count() const { return static_cast<std::uint32_t>(pages_.size()); }
  std::uint32_t page_tokens() const { return page_tokens_; }
  // Of the arena, and as many as the tokens need.
  bool hold(std::span<const std::uint32_t> ids, std::size_t tokens) const;
  const Page& at(std::uint32_t id) const { return pages_[id]; }

  void write(std::uint32_t id, const Fingerprint& print, const Provenance& from);
  void copy(std::uint32_t id, const Page& content, bool late = false);  // keeps its provenance
  void set_checked(std::span<const std::uint32_t> ids);

  // As the real arena's: over all bytes in order, whatever they are.
  std::uint64_t checksum(std::span<const std::uint32_t> ids) const;
  // What a reader finds; copies, to be compared later.
  std::vector<Page> read(std::span<const std::uint32_t> ids) const;

  // Somebody has written to one of them since they were read; a bit that turned is no writing.
  bool rewritten(std::span<const std::uint32_t> ids, std::span<const Page> since) const;

  // By the generation of the reservation, as the real arena's PageArrivals; the latest few.
  void begin_arrival(std::uint64_t generation, Arrival arrival);
  void end_arrival(std::uint64_t generation, bool good, std::span<const std::uint32_t> ids);
  const Arrival* arrival(std::uint64_t generation) const;

  // Faults. `bit` is taken modulo the bits of a page's content.
  void flip(std::uint32_t id, std::uint64_t bit);
  void strike(std::uint32_t id, std::uint64_t bit);  // the same, and remembered until it is written again
  // Half of the page's content is from another page.
  void tear(std::uint32_t id, std::uint32_t other);

 private:
  std::uint32_t page_tokens_;
  std::uint32_t writings_ = 0;
  std::vector<Page> pages_;
  std::map<std::uint64_t, Arrival> arrivals_;
};

std::uint64_t checksum_of(std::span<const Page> pages);
void flip(Page& page, std::uint64_t bit);

// The processes that live now. A one-sided reader finds memory, not a process: it needs no answer of the
// owner.
class PageRegistry {
 public:
  struct Entry {
    Pages* pages = nullptr;
    Incarnation incarnation = 0;
  };
  void put(NodeId node, Incarnation incarnation, Pages* pages) { entries_[node] = {pages, incarnation}; }
  void remove(NodeId node) { entries_.erase(node); }  // its process was killed
  const Entry* find(NodeId node) const {
    const auto at = entries_.find(node);
    return at == entries_.end() ? nullptr : &at->second;
  }

 private:
  std::map<NodeId, Entry> entries_;
};

}  // namespace troupe::sim
