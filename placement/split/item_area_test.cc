#include "placement/split/item_area.h"

#include <doctest/doctest.h>

#include <array>

using namespace troupe::placement;

TEST_SUITE("item area") {
  TEST_CASE("item area: blocks get a quarter more, rounded up, and shared blocks no more") {
    CHECK(wanted_pages({}) == 0);
    CHECK(wanted_pages({.items = 1}) == 2);
    CHECK(wanted_pages({.items = 4}) == 5);
    CHECK(wanted_pages({.items = 5}) == 7);
    CHECK(wanted_pages({.items = 100, .shared = 2}) == 127);
    CHECK(wanted_pages({.shared = 2}) == 2);
  }

  TEST_CASE("item area: has the wanted pages, but leaves users at least half") {
    CHECK(item_area_pages(0, 1'000) == 0);
    CHECK(item_area_pages(127, 1'000) == 127);
    CHECK(item_area_pages(500, 1'000) == 500);
    CHECK(item_area_pages(501, 1'000) == 500);
    CHECK(item_area_pages(1'000'000'000'000, 4'294'967'295) == 2'147'483'647);
    CHECK(item_area_pages(5, 3) == 1);
    CHECK(item_area_pages(5, 1) == 0);
    CHECK(item_area_pages(5, 0) == 0);
  }

  TEST_CASE("item area: its share of the pool rounds down to its pages") {
    for (const std::uint32_t pages : std::array{1U, 3U, 7U, 87'381U, 4'294'967'295U})
      for (const std::uint32_t area : std::array{0U, 1U, pages / 3, pages / 2, pages - 1, pages}) {
        CAPTURE(pages);
        CAPTURE(area);
        CHECK(static_cast<std::uint32_t>(share_of_pages(area, pages) * pages) == area);
      }
    CHECK(share_of_pages(0, 0) == 0);
  }
}
