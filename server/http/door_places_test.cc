#include "server/http/door_places.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>

using namespace troupe::server;
using Guest = DoorPlaces::Guest;

namespace {

constexpr Origin here = 1, there = 2, elsewhere = 3;
constexpr PlaceLimits small{.guests_max = 4, .guests_of_one_max = 3, .bytes_max = 100};

DoorPlaces with(const std::vector<std::pair<Guest, Origin>>& guests, const PlaceLimits& limits = small) {
  DoorPlaces places(limits);
  for (const auto& [guest, from] : guests) places.enter(guest, from);
  return places;
}

}  // namespace

TEST_SUITE("connection limits") {
  TEST_CASE("connection limits: the longest waiting connection closes first, a recently active one stays") {
    DoorPlaces places = with({{1, here}, {2, here}, {3, there}, {4, there}});
    CHECK_FALSE(places.has_room(elsewhere));
    CHECK(places.goes() == Guest{1});
    places.waits(1);
    CHECK(places.goes() == Guest{2});
    places.leave(2);
    CHECK(places.has_room(elsewhere));
    CHECK(places.goes_for(there) == Guest{3});
    CHECK(with({{1, there}, {2, here}}).goes() == Guest{1});
  }

  TEST_CASE("connection limits: a connection with a request in flight never closes") {
    DoorPlaces places = with({{1, here}, {2, there}, {3, there}, {4, elsewhere}});
    places.works(2);
    CHECK(places.goes() == Guest{3});
    for (const Guest guest : {1, 3, 4}) places.works(guest);
    CHECK(places.goes() == std::nullopt);
    places.waits(4);
    CHECK(places.goes() == Guest{4});
  }

  TEST_CASE("connection limits: the address with most connections gives one up, however long others waited") {
    const DoorPlaces places = with({{1, here}, {2, there}, {3, there}, {4, there}});
    CHECK(places.goes_for(elsewhere) == Guest{2});
    CHECK(places.goes_for(here) == Guest{2});
  }

  TEST_CASE("connection limits: an address at its limit gives up its own connection, or gets none") {
    DoorPlaces places =
        with({{1, here}, {2, there}, {3, there}, {4, there}}, {.guests_max = 9, .guests_of_one_max = 3});
    CHECK(places.has_room(here));
    CHECK_FALSE(places.has_room(there));
    CHECK(places.goes_for(there) == Guest{2});
    for (const Guest guest : {2, 3, 4}) places.works(guest);
    CHECK(places.goes_for(there) == std::nullopt);
  }

  TEST_CASE("connection limits: the largest connection of the largest address closes at the byte limit") {
    DoorPlaces places = with({{1, here}, {2, there}, {3, there}});
    places.keeps(1, 40);
    places.keeps(2, 20);
    places.keeps(3, 40);
    CHECK(places.goes_for_bytes() == std::nullopt);
    places.keeps(2, 21);
    CHECK(places.goes_for_bytes() == Guest{3});
    places.works(3);
    CHECK(places.goes_for_bytes() == Guest{2});
    places.keeps(2, 5);
    CHECK(places.goes_for_bytes() == std::nullopt);
    places.waits(3);
    places.keeps(1, 70);
    CHECK(places.goes_for_bytes() == Guest{1});
    places.leave(1);
    places.leave(1);
    CHECK(places.bytes() == 45);
  }

  TEST_CASE("connection limits: an origin is an IPv4 address, also mapped into IPv6, or an IPv6 /64") {
    using Bytes = std::vector<unsigned char>;
    const Bytes v4{127, 0, 0, 2}, other{127, 0, 0, 3};
    const Bytes inside{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 2};
    Bytes v6(16, 7), neighbour = v6, far = v6;
    neighbour[15] = far[7] = 1;
    CHECK(origin_of(v4) == origin_of(inside));
    CHECK(origin_of(v4) != origin_of(other));
    CHECK(origin_of(v6) == origin_of(neighbour));
    CHECK(origin_of(v6) != origin_of(far));
  }

  TEST_CASE("connection limits: at random, the limits hold and everything is released") {
    const std::uint64_t seed = 20'251'203;
    CAPTURE(seed);
    std::mt19937_64 chance(seed);
    DoorPlaces places(small);
    std::array<std::optional<Origin>, 64> inside;
    for (int i = 0; i < 20'000; ++i) {
      const Guest guest = chance() % inside.size();
      const Origin from = chance() % 3;
      if (!inside[guest]) {
        while (!places.has_room(from)) {
          const auto goes = places.goes_for(from);
          if (!goes) break;
          places.leave(*goes);
          inside[*goes].reset();
        }
        if (!places.has_room(from)) continue;
        places.enter(guest, from);
        inside[guest] = from;
      } else if (const auto what = chance() % 4; what == 0) {
        places.leave(guest);
        inside[guest].reset();
      } else if (what == 1) {
        places.works(guest);
      } else if (what == 2) {
        places.waits(guest);
      } else {
        places.keeps(guest, chance() % 60);
        while (const auto goes = places.goes_for_bytes()) {
          places.leave(*goes);
          inside[*goes].reset();
        }
      }
      CHECK(places.guests() <= small.guests_max);
      for (Origin origin = 0; origin < 3; ++origin)
        CHECK(std::ranges::count(inside, std::optional(origin)) <= small.guests_of_one_max);
    }
    for (Guest guest = 0; guest < inside.size(); ++guest) places.leave(guest);
    CHECK(places.guests() == 0);
    CHECK(places.bytes() == 0);
    CHECK(places.has_room(here));
  }
}
