#pragma once
// Holds the bytes of one node's page pool: `pages` pages of `page_bytes` bytes. They are mapped
// once, zeroed, 64-byte aligned and never grown. The KV-cache worker's PagePool decides which page
// belongs to which block; the arena only holds bytes.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/actor/ports.h"
#include "runtime/pool/page_arrivals.h"

namespace troupe {

class PageArena {
 public:
  // Throws std::bad_alloc if the memory cannot be mapped.
  PageArena(std::size_t page_bytes, std::size_t pages);
  ~PageArena();
  PageArena(const PageArena&) = delete;
  PageArena& operator=(const PageArena&) = delete;

  // Returns the usable bytes of a page; pages start at multiples of 64 bytes.
  std::size_t page_bytes() const { return page_bytes_; }
  std::size_t pages() const { return pages_; }
  std::byte* page(std::uint32_t id) const { return base_ + std::size_t{id} * stride_; }
  // Returns the blocks that are being copied into these pages.
  PageArrivals& arrivals() const { return *arrivals_; }

 private:
  std::size_t page_bytes_, stride_, pages_;
  std::byte* base_;
  const std::unique_ptr<PageArrivals> arrivals_ = std::make_unique<PageArrivals>();
};

// Returns the XXH3-64 of whole pages, in order. A block's writer clears the unused tail of its last
// page, so that equal blocks have equal sums.
std::uint64_t checksum_pages(const PageArena& arena, std::span<const std::uint32_t> pages);

// Returns the XXH3-64 of a part of a page. Each `seed` gives another sum.
std::uint64_t checksum_bytes(std::span<const std::byte> bytes, std::uint64_t seed);

// Computes checksum_pages for pages that arrive in pieces: bytes are added in order, in parts of
// any size.
class PageSum {
 public:
  PageSum();
  ~PageSum();
  void add(const std::byte* bytes, std::size_t size);
  std::uint64_t take();  // sum of the bytes added so far; resets the state

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Compares each block's bytes with its checksum.
BlockCheckResult check_blocks(const PageArena& arena, const CheckBlocks& work);

}  // namespace troupe
