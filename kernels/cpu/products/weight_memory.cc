// Allocates packed weights one after another in large chunks of huge pages, because every pass
// streams all of them.
#include "kernels/cpu/products/weight_memory.h"

#include <algorithm>
#include <cstdlib>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "kernels/base/check.h"

namespace troupe::kernels {
namespace {

constexpr std::size_t cache_line = 64;
constexpr std::size_t huge_page = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Allocates at least `bytes`, in huge pages if the system has them and the size is worth one; sets
// `bytes` to the true size.
std::shared_ptr<std::byte> allocate(std::size_t& bytes) {
  const std::size_t unit = bytes < huge_page ? cache_line : huge_page;
  bytes = round_up(bytes, unit);
  void* const memory = std::aligned_alloc(unit, bytes);
  TROUPE_CHECK(memory != nullptr, "out of memory for the weights of a model");
#ifdef MADV_HUGEPAGE
  // If the system refuses, the memory has small pages.
  if (unit == huge_page) static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));
#endif
  return {static_cast<std::byte*>(memory), [](std::byte* p) { std::free(p); }};
}

}  // namespace

std::shared_ptr<float> WeightMemory::take(std::size_t count) {
  const std::size_t bytes = round_up(count * sizeof(float), cache_line);
  if (size_ - used_ < bytes || chunk_ == nullptr) {
    size_ = std::max(chunk_bytes_, std::max(bytes, cache_line));
    chunk_ = allocate(size_);
    used_ = 0;
  }
  float* const floats = reinterpret_cast<float*>(chunk_.get() + used_);
  used_ += bytes;
  return {chunk_, floats};  // keeps the whole chunk alive
}

}  // namespace troupe::kernels
