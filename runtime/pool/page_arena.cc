// Maps the memory that holds a node's cached keys and values, as pages of equal size. Checksums of
// the blocks in these pages are computed here too, with XXH3. Memory that the machine cannot
// provide is refused when it is mapped, not by a crash later.
#include "runtime/pool/page_arena.h"

#include <sys/mman.h>
#define XXH_STATIC_LINKING_ONLY  // allows a state on the stack
#include <xxhash.h>
#ifdef TROUPE_XXHASH_DISPATCH
#include <xxh_x86dispatch.h>  // the widest vectors that this CPU has; the sums are the same
#endif

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <new>

namespace troupe {
namespace {

constexpr std::size_t alignment = 64;

std::size_t stride_of(std::size_t page_bytes) {
  if (page_bytes > std::numeric_limits<std::size_t>::max() - alignment) throw std::bad_alloc();
  return (page_bytes + alignment - 1) / alignment * alignment;
}

// Maps writable private memory, which counts against the machine's commit limit at once. A pool
// that is too large is thus refused here, not by a crash later.
std::byte* map_bytes(std::size_t stride, std::size_t pages) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(stride, pages, &bytes)) throw std::bad_alloc();
  if (pages > std::numeric_limits<std::uint32_t>::max()) throw std::bad_alloc();  // ids have 32 bits
  if (bytes == 0) return nullptr;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(base);
}

}  // namespace

struct PageSum::State {
  XXH3_state_t sum;
};

PageSum::PageSum() : state_(std::make_unique<State>()) {
  XXH3_INITSTATE(&state_->sum);
  XXH3_64bits_reset(&state_->sum);
}

PageSum::~PageSum() = default;

void PageSum::add(const std::byte* bytes, std::size_t size) { XXH3_64bits_update(&state_->sum, bytes, size); }

std::uint64_t PageSum::take() {
  const std::uint64_t sum = XXH3_64bits_digest(&state_->sum);
  XXH3_64bits_reset(&state_->sum);
  return sum;
}

PageArena::PageArena(std::size_t page_bytes, std::size_t pages)
    : page_bytes_(page_bytes),
      stride_(stride_of(page_bytes)),
      pages_(pages),
      base_(map_bytes(stride_, pages)) {}

PageArena::~PageArena() {
  if (base_) munmap(base_, stride_ * pages_);
}

std::uint64_t checksum_pages(const PageArena& arena, std::span<const std::uint32_t> pages) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  for (const std::uint32_t page : pages) {
    if (page >= arena.pages()) {
      std::fprintf(stderr, "page_arena: violated: page %u is not below the arena's %zu pages\n", page,
                   arena.pages());
      std::abort();
    }
    XXH3_64bits_update(&state, arena.page(page), arena.page_bytes());
  }
  return XXH3_64bits_digest(&state);
}

std::uint64_t checksum_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

BlockCheckResult check_blocks(const PageArena& arena, const CheckBlocks& work) {
  const auto begin = std::chrono::steady_clock::now();
  BlockCheckResult checked;
  for (const CheckBlocks::One& one : work.blocks)
    checked.ok.push_back(checksum_pages(arena, one.pages) == one.checksum);
  const auto took = std::chrono::steady_clock::now() - begin;
  checked.took_us = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  return checked;
}

}  // namespace troupe
