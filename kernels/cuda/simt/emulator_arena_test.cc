// Tests device_arena.h with a stream that runs its commands only at a wait.
#include <doctest/doctest.h>

#include "kernels/cuda/device/device_arena.h"
#include "kernels/operations/kv_layout.h"

using namespace troupe::kernels;

TEST_SUITE("cuda emulator: device arena") {
  TEST_CASE("page copies: a copy is not done before it ran, and a full set of copies refuses the next") {
    const KvLayout layout{
        .layers = 1, .kv_heads = 1, .head_dim = 8, .page_tokens = 2, .format = KvFormat::f16};
    const cuda::DeviceArena arena(layout.page_bytes(), 3);
    const cuda::PageLockedMemory host(layout.page_bytes());
    cuda::PageCopies copies(layout.page_bytes(), 2);
    const auto begin = [&](std::uint32_t page) {
      const cuda::PageCopy copy{arena.page(page), host.data()};
      return copies.promote({&copy, 1});
    };
    const auto first = begin(0), second = begin(1);
    REQUIRE((first && second));
    CHECK(!copies.done(*first));
    CHECK(!begin(2));
    copies.finish(*first);
    CHECK(copies.done(*first));
    CHECK(!copies.done(*second));
    const auto third = begin(2);
    REQUIRE(third);
    copies.finish(*third);
    CHECK(copies.done(*second));
  }
}
