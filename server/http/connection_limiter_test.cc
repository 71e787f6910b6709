#include "server/http/connection_limiter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>

using namespace troupe::server;
using ConnectionId = ConnectionLimiter::ConnectionId;

namespace {

constexpr Origin here = 1, there = 2, elsewhere = 3;
constexpr ConnectionLimits small{.connections_max = 4, .connections_per_address_max = 3, .bytes_max = 100};

ConnectionLimiter with(const std::vector<std::pair<ConnectionId, Origin>>& connection_count,
                       const ConnectionLimits& limits = small) {
  ConnectionLimiter places(limits);
  for (const auto& [connection_id, from] : connection_count) places.enter(connection_id, from);
  return places;
}

}  // namespace

TEST_SUITE("connection limits") {
  TEST_CASE("connection limits: the longest waiting connection closes first, a recently active one stays") {
    ConnectionLimiter places = with({{1, here}, {2, here}, {3, there}, {4, there}});
    CHECK_FALSE(places.has_capacity(elsewhere));
    CHECK(places.connection_to_close() == ConnectionId{1});
    places.waits(1);
    CHECK(places.connection_to_close() == ConnectionId{2});
    places.leave(2);
    CHECK(places.has_capacity(elsewhere));
    CHECK(places.connection_to_close_for(there) == ConnectionId{3});
    CHECK(with({{1, there}, {2, here}}).connection_to_close() == ConnectionId{1});
  }

  TEST_CASE("connection limits: the address that keeps more keeps more, and of one address the connection") {
    ConnectionLimiter places = with({{1, here}, {2, there}, {3, there}});
    places.set_bytes(1, 50);
    places.set_bytes(2, 20);
    places.set_bytes(3, 40);
    CHECK(places.keeps_more(2, 1));  // 60 of its address
    CHECK_FALSE(places.keeps_more(1, 3));
    CHECK(places.keeps_more(3, 2));
    CHECK_FALSE(places.keeps_more(3, 3));
    CHECK_FALSE(places.keeps_more(9, 1));
    CHECK_FALSE(places.has_free_bytes(1));
    places.leave(1);
    CHECK(places.has_free_bytes(40));
    CHECK_FALSE(places.has_free_bytes(41));
  }

  TEST_CASE("connection limits: a connection with a request in flight never closes") {
    ConnectionLimiter places = with({{1, here}, {2, there}, {3, there}, {4, elsewhere}});
    places.mark_serving(2);
    CHECK(places.connection_to_close() == ConnectionId{3});
    for (const ConnectionId connection_id : {1, 3, 4}) places.mark_serving(connection_id);
    CHECK(places.connection_to_close() == std::nullopt);
    places.waits(4);
    CHECK(places.connection_to_close() == ConnectionId{4});
  }

  TEST_CASE("connection limits: the address with most connections gives one up, however long others waited") {
    const ConnectionLimiter places = with({{1, here}, {2, there}, {3, there}, {4, there}});
    CHECK(places.connection_to_close_for(elsewhere) == ConnectionId{2});
    CHECK(places.connection_to_close_for(here) == ConnectionId{2});
  }

  TEST_CASE("connection limits: an address at its limit gives up its own connection, or gets none") {
    ConnectionLimiter places = with({{1, here}, {2, there}, {3, there}, {4, there}},
                                    {.connections_max = 9, .connections_per_address_max = 3});
    CHECK(places.has_capacity(here));
    CHECK_FALSE(places.has_capacity(there));
    CHECK(places.connection_to_close_for(there) == ConnectionId{2});
    for (const ConnectionId connection_id : {2, 3, 4}) places.mark_serving(connection_id);
    CHECK(places.connection_to_close_for(there) == std::nullopt);
  }

  TEST_CASE("connection limits: the largest connection of the largest address closes at the byte limit") {
    ConnectionLimiter places = with({{1, here}, {2, there}, {3, there}});
    places.set_bytes(1, 40);
    places.set_bytes(2, 20);
    places.set_bytes(3, 40);
    CHECK(places.connection_to_close_for_bytes() == std::nullopt);
    places.set_bytes(2, 21);
    CHECK(places.connection_to_close_for_bytes() == ConnectionId{3});
    places.mark_serving(3);
    CHECK(places.connection_to_close_for_bytes() == ConnectionId{2});
    places.set_bytes(2, 5);
    CHECK(places.connection_to_close_for_bytes() == std::nullopt);
    places.waits(3);
    places.set_bytes(1, 70);
    CHECK(places.connection_to_close_for_bytes() == ConnectionId{1});
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
    ConnectionLimiter places(small);
    std::array<std::optional<Origin>, 64> inside;
    for (int i = 0; i < 20'000; ++i) {
      const ConnectionId connection_id = chance() % inside.size();
      const Origin from = chance() % 3;
      if (!inside[connection_id]) {
        while (!places.has_capacity(from)) {
          const auto connection_to_close = places.connection_to_close_for(from);
          if (!connection_to_close) break;
          places.leave(*connection_to_close);
          inside[*connection_to_close].reset();
        }
        if (!places.has_capacity(from)) continue;
        places.enter(connection_id, from);
        inside[connection_id] = from;
      } else if (const auto what = chance() % 4; what == 0) {
        places.leave(connection_id);
        inside[connection_id].reset();
      } else if (what == 1) {
        places.mark_serving(connection_id);
      } else if (what == 2) {
        places.waits(connection_id);
      } else {
        places.set_bytes(connection_id, chance() % 60);
        while (const auto connection_to_close = places.connection_to_close_for_bytes()) {
          places.leave(*connection_to_close);
          inside[*connection_to_close].reset();
        }
      }
      CHECK(places.connection_count() <= small.connections_max);
      for (Origin origin = 0; origin < 3; ++origin)
        CHECK(std::ranges::count(inside, std::optional(origin)) <= small.connections_per_address_max);
    }
    for (ConnectionId connection_id = 0; connection_id < inside.size(); ++connection_id)
      places.leave(connection_id);
    CHECK(places.connection_count() == 0);
    CHECK(places.bytes() == 0);
    CHECK(places.has_capacity(here));
  }
}
