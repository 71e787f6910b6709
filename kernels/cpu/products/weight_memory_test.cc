#include "kernels/cpu/products/weight_memory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace troupe::kernels {
namespace {

bool on_a_line(const std::shared_ptr<float>& floats) {
  return reinterpret_cast<std::uintptr_t>(floats.get()) % 64 == 0;
}

TEST_CASE("weight memory: weights follow one another in a chunk, each aligned to a cache line") {
  WeightMemory memory(4096);
  const auto a = memory.take(1), b = memory.take(17), c = memory.take(16);
  CHECK(on_a_line(a));
  CHECK(b.get() == a.get() + 16);
  CHECK(c.get() == b.get() + 32);
}

TEST_CASE("weight memory: a weight larger than a chunk gets its own, with or without huge pages") {
  for (const std::size_t count : {std::size_t{100}, std::size_t{3} << 20}) {
    WeightMemory memory(64);
    const auto large = memory.take(count), next = memory.take(count);
    CHECK(on_a_line(large));
    CHECK(on_a_line(next));
    std::fill(large.get(), large.get() + count, 1.0f);
    std::fill(next.get(), next.get() + count, 2.0f);
    CHECK(std::all_of(large.get(), large.get() + count, [](float value) { return value == 1.0f; }));
  }
}

TEST_CASE("weight memory: a weight outlives the memory object and the other weights of its chunk") {
  std::shared_ptr<float> kept;
  {
    WeightMemory memory(1024);
    const auto gone = memory.take(10);
    kept = memory.take(10);
    const auto other_chunk = memory.take(10000);
  }
  std::fill(kept.get(), kept.get() + 10, 3.0f);  // the address sanitizer checks the rest
  CHECK(kept.get()[9] == 3.0f);
}

}  // namespace
}  // namespace troupe::kernels
