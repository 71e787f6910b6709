#pragma once
// Page arena of one simulated process. A page holds a fingerprint instead of bytes, and its provenance,
// which only judges read. Pages die with their process; the next process has new Pages. The registry tells
// a one-sided reader whose pages are at a node.
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"
#include "sim/world/toy_model.h"

namespace troupe::sim {

// Origin of a page's content. Provenance travels with the content through transfers and disks; no core can
// see it.
struct Provenance {
  std::uint32_t block = 0;   // block_mark of the name under which the page was written
  std::uint32_t tenant = 0;  // tenant_mark of a user's block; 0 = public
  std::uint32_t model = 0;   // model_mark
  bool operator==(const Provenance&) const = default;
};
std::uint32_t block_mark(const BlockName& name);
std::uint32_t tenant_mark(SegmentKind kind, std::string_view owner);  // owner: owner_of_user
std::uint32_t model_mark(std::string_view model_version);

struct Page {
  PageFingerprint print;
  Provenance from;
  // Number of the arena's write that made it; differs even for equal content.
  std::uint32_t writing : 29 = 0;
  std::uint32_t late : 1 = 0;    // pulled after the lease had ended
  std::uint32_t fresh : 1 = 0;   // computed here and not yet compared with its checksum
  std::uint32_t struck : 1 = 0;  // bits of it flipped in place
  bool operator==(const Page&) const = default;
};
static_assert(sizeof(Page) == 32);

// Copy of a block into pages that may be read meanwhile: when the copy begins and ends, and its result.
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
  // True if the ids are pages of the arena and there are as many as the tokens need.
  bool hold(std::span<const std::uint32_t> ids, std::size_t tokens) const;
  const Page& at(std::uint32_t id) const { return pages_[id]; }

  void write(std::uint32_t id, const PageFingerprint& print, const Provenance& from);
  void copy(std::uint32_t id, const Page& content, bool late = false);  // keeps the content's provenance
  void set_checked(std::span<const std::uint32_t> ids);

  // Covers all contents in order, like the real arena's checksum.
  std::uint64_t checksum(std::span<const std::uint32_t> ids) const;
  // Returns copies of the pages as a reader sees them, to be compared later.
  std::vector<Page> read(std::span<const std::uint32_t> ids) const;

  // True if one of them was written since it was read; a flipped bit is not a write.
  bool rewritten(std::span<const std::uint32_t> ids, std::span<const Page> since) const;

  // Arrivals are keyed by the reservation's generation, like the real arena's PageArrivals. Only the latest
  // few are kept.
  void begin_arrival(std::uint64_t generation, Arrival arrival);
  void end_arrival(std::uint64_t generation, bool good, std::span<const std::uint32_t> ids);
  const Arrival* arrival(std::uint64_t generation) const;

  // Faults. `bit` is taken modulo the bits of a page's content.
  void flip(std::uint32_t id, std::uint64_t bit);
  // Flips a bit like `flip`; the page remembers it until the next write.
  void strike(std::uint32_t id, std::uint64_t bit);

 private:
  std::uint32_t page_tokens_;
  std::uint32_t writings_ = 0;
  std::vector<Page> pages_;
  std::map<std::uint64_t, Arrival> arrivals_;
};

void flip(Page& page, std::uint64_t bit);

// Registry of the living processes. A one-sided reader accesses memory, not a process: it needs no answer
// of the owner.
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
