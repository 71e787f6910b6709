#include "tests/allocations/allocation_count.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "kernels/testing/test_fence.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TROUPE_COUNTS_ALLOCATIONS 1
#else
#define TROUPE_COUNTS_ALLOCATIONS 0
#endif

namespace troupe {
namespace {

constexpr std::size_t calls_max = 4096, frames_max = 24, sizes_max = 64 << 10;

struct Call {
  std::array<void*, frames_max> frames;
  int depth;
};

const WithoutFence of_malloc;
std::atomic<bool> armed = false;
std::atomic<std::size_t> counted = 0;
std::array<Call, calls_max> calls;  // the first calls_max calls
std::array<std::atomic<std::uint32_t>, sizes_max> sizes;
thread_local bool inside = false;  // true while a call is noted, so that noting is not counted

[[maybe_unused]] void note(std::size_t size) {
  if (!armed.load(std::memory_order_relaxed) || inside) return;
  inside = true;
  if (size < sizes_max) ++sizes[size];
  const std::size_t index = counted.fetch_add(1);
  if (index < calls_max) calls[index].depth = backtrace(calls[index].frames.data(), frames_max);
  inside = false;
}

std::string file_name(const char* path) {
  return path ? std::filesystem::path(path).filename().string() : "?";
}

std::string function_name(const Dl_info& place) {
  if (place.dli_sname == nullptr) return "?";
  int status = 0;
  char* readable = abi::__cxa_demangle(place.dli_sname, nullptr, nullptr, &status);
  std::string name = readable ? readable : place.dli_sname;
  std::free(readable);
  return name.substr(0, std::min<std::size_t>(100, name.find('(')));
}

bool runtime_library(const std::string& object) {
  return object.starts_with("libstdc++") || object.starts_with("libc.so") || object.starts_with("ld-linux");
}

bool of_counter(const std::string& function) {
  for (const char* name : {"malloc", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign"})
    if (function == name) return true;
  return function.starts_with("operator new");
}

// Attributes a call to the innermost frame that is neither the counter, nor malloc, nor the C++ runtime.
void attribute(const Call& call, Allocations& to) {
  for (int f = 1; f < call.depth; ++f) {  // frame 0 is note()
    Dl_info place{};
    if (dladdr(call.frames[f], &place) == 0) continue;
    const std::string object = file_name(place.dli_fname), function = function_name(place);
    if (runtime_library(object) || of_counter(function)) continue;
    ++to.by_object[object];
    if (object == to.program) ++to.by_function[function];
    return;
  }
  ++to.by_object["?"];
}

}  // namespace

std::size_t Allocations::ours() const {
  const auto found = by_object.find(program);
  return found == by_object.end() ? 0 : found->second;
}

std::size_t Allocations::of_size(std::size_t bytes) const {
  const auto found = by_size.find(bytes);
  return found == by_size.end() ? 0 : found->second;
}

std::string Allocations::text() const {
  std::string text = std::to_string(count) + " allocations";
  for (const auto& [object, times] : by_object) text += "; " + object + ": " + std::to_string(times);
  for (const auto& [function, times] : by_function)
    text += "\n  " + std::to_string(times) + " calls of " + function;
  return text;
}

AllocationCount::AllocationCount() {
  std::array<void*, 4> frames;
  backtrace(frames.data(), frames.size());  // the first call of backtrace loads a library
  counted = 0;
  for (auto& size : sizes) size = 0;
  armed = true;
}

AllocationCount::~AllocationCount() { armed = false; }

Allocations AllocationCount::stop() {
  armed = false;
  Allocations result;
  result.count = counted;
  result.program = std::filesystem::read_symlink("/proc/self/exe").filename().string();
  for (std::size_t i = 0; i < std::min(result.count, calls_max); ++i) attribute(calls[i], result);
  for (std::size_t size = 0; size < sizes_max; ++size)
    if (sizes[size] > 0) result.by_size[size] = sizes[size];
  return result;
}

bool AllocationCount::works() { return TROUPE_COUNTS_ALLOCATIONS; }

}  // namespace troupe

#if TROUPE_COUNTS_ALLOCATIONS
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* block, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) noexcept {
  troupe::note(size);
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  troupe::note(count * size);
  return __libc_calloc(count, size);
}
void* realloc(void* block, std::size_t size) noexcept {
  troupe::note(size);
  return __libc_realloc(block, size);
}
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  troupe::note(size);
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  troupe::note(size);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t size) noexcept {
  troupe::note(size);
  *block = __libc_memalign(alignment, size);
  return *block ? 0 : ENOMEM;
}
}
#endif
