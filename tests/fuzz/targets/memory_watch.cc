#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "tests/fuzz/targets/target.h"

namespace {

thread_local std::size_t live = 0, most = 0;

void* taken(void* memory) {
  if (memory) live += malloc_usable_size(memory);
  most = std::max(most, live);
  return memory;
}
void give_back(void* memory) {
  if (memory) live -= malloc_usable_size(memory);
  std::free(memory);
}
void* take(std::size_t bytes) {
  if (void* memory = taken(std::malloc(bytes))) return memory;
  throw std::bad_alloc();
}

}  // namespace

// All forms of operator new and delete: a sanitizer's own forms must not free memory that ours allocated.
void* operator new(std::size_t bytes) { return take(bytes); }
void* operator new[](std::size_t bytes) { return take(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return taken(std::malloc(bytes)); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return taken(std::malloc(bytes)); }
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete[](void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete[](void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { give_back(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { give_back(memory); }

namespace troupe::fuzz {

MemoryWatch::MemoryWatch() : before_(live) { ::most = live; }
std::size_t MemoryWatch::most() const { return ::most - before_; }
std::size_t MemoryWatch::left() const { return live > before_ ? live - before_ : 0; }

}  // namespace troupe::fuzz
