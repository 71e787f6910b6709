#pragma once
// The bytes of one node's page pool: `pages` pages of `page_bytes`, mapped once, zeroed, each 64-byte
// aligned, never grown. Which page belongs to whom is decided by the KV-cache worker's PagePool; the arena
// only holds bytes.
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
  PageArena(std::size_t page_bytes, std::size_t pages);  // throws std::bad_alloc if it cannot be mapped
  ~PageArena();
  PageArena(const PageArena&) = delete;
  PageArena& operator=(const PageArena&) = delete;

  std::size_t page_bytes() const { return page_bytes_; }  // usable; pages lie at a multiple of 64 bytes
  std::size_t pages() const { return pages_; }
  std::byte* page(std::uint32_t id) const { return base_ + std::size_t{id} * stride_; }
  PageArrivals& arrivals() const { return *arrivals_; }  // what is being copied into these pages

 private:
  std::size_t page_bytes_, stride_, pages_;
  std::byte* base_;
  const std::unique_ptr<PageArrivals> arrivals_ = std::make_unique<PageArrivals>();
};

// XXH3-64 over whole pages, in order. A block's writer clears the unused tail of its last page, so that equal
// blocks have equal sums.
std::uint64_t checksum_pages(const PageArena& arena, std::span<const std::uint32_t> pages);

// XXH3-64 of a part of a page, which is another one for another `seed`.
std::uint64_t checksum_bytes(std::span<const std::byte> bytes, std::uint64_t seed);

// As checksum_pages, for pages that come little by little: their bytes are added in order, in parts of any
// size.
class PageSum {
 public:
  PageSum();
  ~PageSum();
  void add(const std::byte* bytes, std::size_t size);
  std::uint64_t take();  // of what was added; the next one begins with nothing

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Are these blocks as they were summed up?
Checked check_blocks(const PageArena& arena, const CheckBlocks& work);

}  // namespace troupe
