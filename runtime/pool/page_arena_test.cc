#include "runtime/pool/page_arena.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <new>

using namespace troupe;

TEST_CASE("page arena: pages are aligned, zeroed, disjoint and keep what is written") {
  for (const std::size_t page_bytes : {64u, 100u, 4096u, 12352u}) {
    CAPTURE(page_bytes);
    PageArena arena(page_bytes, 5);
    CHECK(arena.page_bytes() == page_bytes);
    CHECK(arena.pages() == 5);
    for (std::uint32_t i = 0; i < 5; ++i) {
      CHECK(reinterpret_cast<std::uintptr_t>(arena.page(i)) % 64 == 0);
      for (std::size_t b = 0; b < page_bytes; ++b) REQUIRE(arena.page(i)[b] == std::byte{0});
      std::memset(arena.page(i), static_cast<int>(i) + 1, page_bytes);
    }
    for (std::uint32_t i = 0; i < 5; ++i) {
      CHECK(arena.page(i)[0] == std::byte(i + 1));
      CHECK(arena.page(i)[page_bytes - 1] == std::byte(i + 1));
    }
  }
}

TEST_CASE("page arena: the checksum covers every byte of the pages and their order") {
  PageArena arena(256, 4);
  for (std::uint32_t i = 0; i < 4; ++i) std::memset(arena.page(i), static_cast<int>(i), 256);
  const std::uint32_t some[] = {2, 0}, turned[] = {0, 2};
  const std::uint64_t sum = checksum_pages(arena, some);
  CHECK(sum != checksum_pages(arena, turned));
  for (const std::size_t at : {0u, 127u, 255u}) {
    arena.page(2)[at] ^= std::byte{1};
    CHECK(checksum_pages(arena, some) != sum);
    arena.page(2)[at] ^= std::byte{1};
  }
  arena.page(1)[0] = std::byte{77};  // not one of the summed pages
  CHECK(checksum_pages(arena, some) == sum);
}

TEST_CASE("page arena: equal bytes in other pages have the same checksum, a fixed value") {
  PageArena arena(64, 4);
  for (std::uint32_t i = 0; i < 4; ++i) std::memset(arena.page(i), static_cast<int>(i % 2), 64);
  const std::uint32_t one[] = {0, 1}, two[] = {2, 3};
  CHECK(checksum_pages(arena, one) == checksum_pages(arena, two));
  CHECK(checksum_pages(arena, {}) == 0x2d06800538d394c2ULL);  // XXH3-64 of no bytes, as in its specification
}

TEST_CASE("page sum: any parts give the pages' checksum, and take resets the state") {
  PageArena arena(12'352, 3);
  for (std::uint32_t i = 0; i < 3; ++i)
    for (std::size_t b = 0; b < arena.page_bytes(); ++b) arena.page(i)[b] = std::byte(b * 7 + i * b / 50);
  const std::uint32_t pages[] = {2, 0, 1};
  PageSum sum;
  for (const std::size_t part : {1u, 60u, 1024u, 5000u, 12'352u}) {
    CAPTURE(part);
    for (const std::uint32_t page : pages)
      for (std::size_t at = 0; at < arena.page_bytes(); at += part)
        sum.add(arena.page(page) + at, std::min(part, arena.page_bytes() - at));
    CHECK(sum.take() == checksum_pages(arena, pages));
  }
  CHECK(sum.take() == checksum_pages(arena, {}));
}

TEST_CASE("page arena: an arena that cannot be mapped is refused at once") {
  CHECK_THROWS_AS(PageArena(std::size_t{1} << 50, 1 << 12), std::bad_alloc);
  CHECK_THROWS_AS(PageArena(~std::size_t{0}, 2), std::bad_alloc);
  CHECK_THROWS_AS(PageArena(64, std::size_t{1} << 33), std::bad_alloc);
}

TEST_CASE("page arena: an arena may have no pages") {
  PageArena arena(64, 0);
  CHECK(arena.pages() == 0);
}
