#include "kernels/cuda/device/device_arena.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/testing/device_test.h"
#include "kernels/operations/kv_layout.h"

using namespace troupe::kernels;
using cuda::DeviceArena;
using cuda::PageCopies;
using cuda::PageCopy;

namespace {

constexpr KvLayout layout{
    .layers = 3, .kv_heads = 1, .head_dim = 10, .page_tokens = 3, .format = KvFormat::bf16};

// Page-locked memory of `pages` pages.
struct HostPages {
  cuda::PageLockedMemory memory;
  explicit HostPages(std::uint32_t pages) : memory(pages * layout.page_bytes()) {}
  std::byte* page(std::uint32_t i) const { return memory.data() + i * layout.page_bytes(); }
  void fill(std::uint32_t i, int with) const { std::memset(page(i), with, layout.page_bytes()); }
  bool holds(std::uint32_t i, int with) const {
    const std::vector<std::byte> want(layout.page_bytes(), std::byte(with));
    return std::memcmp(page(i), want.data(), want.size()) == 0;
  }
};

}  // namespace

TEST_SUITE("cuda device arena") {
  TEST_CASE("device arena: pages are disjoint, aligned and found by their addresses") {
    if (!cuda::have_device()) return;
    const DeviceArena arena(layout.page_bytes(), 5);
    for (std::uint32_t i = 0; i < 5; ++i) {
      CHECK(reinterpret_cast<std::uintptr_t>(arena.page(i)) % 64 == 0);
      CHECK(arena.index_of(arena.page(i)) == i);
      CHECK(!arena.index_of(arena.page(i) + 1));
      if (i > 0) CHECK(arena.page(i - 1) + layout.page_bytes() <= arena.page(i));
    }
    CHECK(!arena.index_of(nullptr));
    CHECK(!arena.index_of(arena.page(4) + (arena.page(1) - arena.page(0))));
  }

  TEST_CASE("device arena: a promoted page is demoted unchanged, also to another host page") {
    if (!cuda::have_device()) return;
    const DeviceArena arena(layout.page_bytes(), 3);
    PageCopies copies(layout.page_bytes(), 1);
    const HostPages host(6);
    for (std::uint32_t i = 0; i < 6; ++i) host.fill(i, 10 + static_cast<int>(i));
    const PageCopy up[] = {{arena.page(2), host.page(0)}, {arena.page(0), host.page(1)}};
    const auto promoted = copies.promote(up);
    REQUIRE(promoted);
    copies.finish(*promoted);
    CHECK(copies.done(*promoted));
    const PageCopy down[] = {{arena.page(2), host.page(4)}, {arena.page(0), host.page(5)}};
    const auto demoted = copies.demote(down);
    REQUIRE(demoted);
    copies.finish(*demoted);
    CHECK(host.holds(4, 10));
    CHECK(host.holds(5, 11));
    CHECK(host.holds(3, 13));
  }

  TEST_CASE(
      "device arena: pages that are contiguous on one side, both or none are copied to their own targets") {
    if (!cuda::have_device()) return;
    constexpr KvLayout whole{1, 1, 8, 4, KvFormat::bf16};  // 128 bytes: no gap between its pages
    const DeviceArena arena(whole.page_bytes(), 8);
    PageCopies copies(whole.page_bytes(), 1);
    const cuda::PageLockedMemory host(16 * whole.page_bytes());
    const auto at = [&](std::uint32_t page) { return host.data() + page * whole.page_bytes(); };
    for (std::uint32_t i = 0; i < 8; ++i) std::memset(at(i), 10 + static_cast<int>(i), whole.page_bytes());
    const std::uint32_t to[] = {0, 1, 2, 4, 5, 7, 6, 3}, back[] = {8, 9, 11, 10, 12, 13, 14, 15};
    std::vector<PageCopy> up, down;
    for (std::uint32_t i = 0; i < 8; ++i) up.push_back({arena.page(to[i]), at(i)});
    for (std::uint32_t i = 0; i < 8; ++i) down.push_back({arena.page(i), at(back[i])});
    copies.finish(copies.promote(up).value());
    copies.finish(copies.demote(down).value());
    for (std::uint32_t i = 0; i < 8; ++i)
      for (std::uint32_t k = 0; k < 8; ++k)
        if (to[k] == i) CHECK(std::memcmp(at(back[i]), at(k), whole.page_bytes()) == 0);
  }

  TEST_CASE("page copies: at most in_flight_max copies are in flight, and they end in order") {
    if (!cuda::have_device()) return;
    const DeviceArena arena(layout.page_bytes(), 4);
    PageCopies copies(layout.page_bytes(), 2);
    const HostPages host(4);
    std::vector<PageCopies::Ticket> begun;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const PageCopy page{arena.page(i), host.page(i)};
      const auto ticket = copies.promote({&page, 1});
      if (ticket) begun.push_back(*ticket);
    }
    REQUIRE(begun.size() >= 2);
    copies.finish(begun.back());
    for (const PageCopies::Ticket ticket : begun) CHECK(copies.done(ticket));
    const PageCopy page{arena.page(0), host.page(0)};
    CHECK(copies.promote({&page, 1}));
  }

  TEST_CASE("page copies: random moves leave every page with the bytes last written to it") {
    if (!cuda::have_device()) return;
    const std::uint64_t seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const DeviceArena arena(layout.page_bytes(), 4);
    PageCopies copies(layout.page_bytes(), 3);
    const HostPages host(8);
    int on_device[4] = {-1, -1, -1, -1};
    for (int round = 0; round < 200; ++round) {
      const auto at = static_cast<std::uint32_t>(random() % 4),
                 place = static_cast<std::uint32_t>(random() % 8);
      const PageCopy page{arena.page(at), host.page(place)};
      if (on_device[at] < 0 || random() % 2 == 0) {
        host.fill(place, on_device[at] = static_cast<int>(random() % 256));
        const auto ticket = copies.promote({&page, 1});
        REQUIRE(ticket);
        copies.finish(*ticket);
      } else {
        host.fill(place, 0);
        const auto ticket = copies.demote({&page, 1});
        REQUIRE(ticket);
        copies.finish(*ticket);
        REQUIRE(host.holds(place, on_device[at]));
      }
    }
  }

  TEST_CASE("page lock: host memory can be page-locked, and no part of it twice") {
    if (!cuda::have_device()) return;
    const std::size_t before = cuda::free_device_bytes();
    const DeviceArena arena(layout.page_bytes(), 1000);
    CHECK(cuda::free_device_bytes() <= before);
    PageCopies copies(layout.page_bytes(), 1);
    std::vector<std::byte> memory(4 << 20, std::byte{7});
    {
      const cuda::PageLock lock(memory.data(), memory.size());
      CHECK_THROWS_AS(cuda::PageLock(memory.data(), memory.size()), cuda::DeviceError);
      const PageCopy up[] = {{arena.page(0), memory.data()}};
      copies.finish(copies.promote(up).value());
      const PageCopy down[] = {{arena.page(0), memory.data() + layout.page_bytes()}};
      memory[layout.page_bytes()] = std::byte{1};
      copies.finish(copies.demote(down).value());
      CHECK(memory[layout.page_bytes()] == std::byte{7});
    }
    const cuda::PageLock again(memory.data(), memory.size());
    const cuda::PageLock none(nullptr, 0);
  }
}
