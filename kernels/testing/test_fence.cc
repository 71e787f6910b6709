// Replaces operator new and delete in test programs by allocations that end at an inaccessible
// page. A read or write beyond an array, or after its lifetime, then ends the test at once.
#include "kernels/testing/test_fence.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>

extern "C" const char __executable_start, etext;  // from the linker: where the program's own code lies

namespace {

constexpr std::size_t page = 4096, reserved_bytes = std::size_t{1} << 39;
// Each fenced allocation costs two system calls. So only one of `one_of` small allocations is
// fenced, and one of `one_of` large ones after the first `all_of_first`.
constexpr std::size_t bytes_from = 1024, small_from = 48, one_of = 64, all_of_first = 100'000;
constexpr std::size_t live_max =
    12'000;  // fenced allocations alive at once: each takes two of a process's 65,530 mappings

struct Fence {
  std::byte* begin = nullptr;
  std::uint32_t* pages = nullptr;  // [page]: pages of the allocation that begins there
  std::atomic<std::size_t> used = 0, live = 0, large = 0, others = 0;
  std::atomic<int> off = 0;

  Fence() {
    const auto reserve = [](std::size_t bytes, int rights) {
      return mmap(nullptr, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    };
    void *const memory = reserve(reserved_bytes, PROT_NONE), *const counts = reserve(
                                                                 reserved_bytes / page * sizeof *pages,
                                                                 PROT_READ | PROT_WRITE);
    if (memory == MAP_FAILED || counts == MAP_FAILED) return;
    begin = static_cast<std::byte*>(memory), pages = static_cast<std::uint32_t*>(counts);
  }

  bool takes(std::size_t bytes) {
    if (off != 0 || !begin) return false;
    if (bytes >= bytes_from && large < all_of_first)
      return large.fetch_add(1, std::memory_order_relaxed), true;
    return bytes >= small_from && others.fetch_add(1, std::memory_order_relaxed) % one_of == 0;
  }
  void* take(std::size_t bytes, std::size_t alignment) {
    const std::size_t wide = (bytes + alignment - 1) / alignment * alignment,
                      count = (wide + page - 1) / page;
    const std::size_t at = used.fetch_add((count + 1) * page);  // plus one page, which stays inaccessible
    if (at + (count + 1) * page > reserved_bytes ||
        mprotect(begin + at, count * page, PROT_READ | PROT_WRITE) != 0)
      return nullptr;
    pages[at / page] = static_cast<std::uint32_t>(count);
    return std::memset(begin + at + count * page - wide, 0xff, bytes);
  }
  void free_memory(std::byte* memory) {
    const std::size_t first = static_cast<std::size_t>(memory - begin) / page;
    mmap(begin + first * page, pages[first] * page, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    live.fetch_sub(1);
  }
};

Fence& fence() {
  static Fence one;
  return one;
}

// Alignment that an object of this size may need: a type's size is a multiple of its alignment. An
// array of bytes may hold objects of any type.
std::size_t alignment_of(std::size_t bytes) {
  return bytes % 8 == 4 ? 4 : bytes % 16 == 8 ? 8 : alignof(std::max_align_t);
}

// True if the caller is this program's code: libraries' accesses are not checked.
bool is_ours(const void* caller) {
  return std::less_equal<>()(static_cast<const void*>(&__executable_start), caller) &&
         std::less<>()(caller, static_cast<const void*>(&etext));
}

[[gnu::always_inline]] inline void* take(std::size_t bytes, std::size_t alignment, const void* caller) {
  Fence& fenced = fence();
  if (alignment <= page && is_ours(caller) && fenced.takes(bytes)) {
    if (fenced.live.fetch_add(1) < live_max)
      if (void* const memory = fenced.take(bytes, alignment)) return memory;
    fenced.live.fetch_sub(1);
  }
  void* const memory = alignment <= alignof(std::max_align_t)
                           ? std::malloc(std::max<std::size_t>(bytes, 1))
                           : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

[[gnu::always_inline]] inline void free_memory(void* memory) {
  Fence& fenced = fence();
  auto* const at = static_cast<std::byte*>(memory);
  if (fenced.begin && at >= fenced.begin && at < fenced.begin + reserved_bytes) return fenced.free_memory(at);
  std::free(memory);
}

}  // namespace

// The nothrow forms call these.
void* operator new(std::size_t bytes) {
  return take(bytes, alignment_of(bytes), __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return take(bytes, alignment_of(bytes), __builtin_return_address(0));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { free_memory(memory); }
void operator delete(void* memory, std::size_t) noexcept { free_memory(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free_memory(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { free_memory(memory); }

troupe::WithoutFence::WithoutFence() { ++fence().off; }
troupe::WithoutFence::~WithoutFence() { --fence().off; }
#else
troupe::WithoutFence::WithoutFence() {}
troupe::WithoutFence::~WithoutFence() {}
#endif
