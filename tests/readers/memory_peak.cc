#include "tests/readers/memory_peak.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "kernels/testing/test_fence.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TROUPE_SEES_MALLOC 1
#else
#define TROUPE_SEES_MALLOC 0
#endif

namespace troupe::readers {
namespace {

const WithoutFence of_malloc;
std::atomic<std::size_t> live = 0, peak = 0;

[[maybe_unused]] void reach(std::size_t bytes) {
  std::size_t seen = peak.load(std::memory_order_relaxed);
  while (bytes > seen && !peak.compare_exchange_weak(seen, bytes, std::memory_order_relaxed)) {
  }
}
[[maybe_unused]] void ask(std::size_t bytes) { reach(live.load(std::memory_order_relaxed) + bytes); }
[[maybe_unused]] void* taken(void* memory) {
  if (memory) reach(live.fetch_add(malloc_usable_size(memory), std::memory_order_relaxed));
  return memory;
}
[[maybe_unused]] void given_back(void* memory) {
  if (memory) live.fetch_sub(malloc_usable_size(memory), std::memory_order_relaxed);
}

}  // namespace

MemoryPeak::MemoryPeak() : before_(live) { peak = before_; }
std::size_t MemoryPeak::most() const { return peak > before_ ? peak - before_ : 0; }
bool MemoryPeak::works() { return TROUPE_SEES_MALLOC; }

}  // namespace troupe::readers

#if TROUPE_SEES_MALLOC
using namespace troupe::readers;

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* block, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* block);

void* malloc(std::size_t size) noexcept {
  ask(size);
  return taken(__libc_malloc(size));
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  ask(__builtin_mul_overflow(count, size, &bytes) ? ~std::size_t{0} / 2 : bytes);
  return taken(__libc_calloc(count, size));
}
void* realloc(void* block, std::size_t size) noexcept {
  const std::size_t before = block ? malloc_usable_size(block) : 0;
  ask(size);
  void* const moved = __libc_realloc(block, size);
  if (moved || size == 0) live.fetch_sub(before, std::memory_order_relaxed);
  return taken(moved);
}
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  ask(size);
  return taken(__libc_memalign(alignment, size));
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept { return memalign(alignment, size); }
int posix_memalign(void** block, std::size_t alignment, std::size_t size) noexcept {
  *block = memalign(alignment, size);
  return *block ? 0 : ENOMEM;
}
void free(void* block) noexcept {
  given_back(block);
  __libc_free(block);
}
}
#endif
