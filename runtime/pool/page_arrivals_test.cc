#include "runtime/pool/page_arrivals.h"

#include <doctest/doctest.h>

#include <thread>

namespace troupe {
namespace page_arrivals_test {

const PageArrivals::Clock::time_point never = PageArrivals::Clock::time_point::max(), now{};

TEST_SUITE("page_arrivals") {
  TEST_CASE("what has come may be read, and no more") {
    PageArrivals arrivals;
    arrivals.begin(7);
    CHECK_FALSE(arrivals.wait(7, 64, now));
    const std::uint64_t generations[] = {7};
    arrivals.came(generations, 64);
    CHECK(arrivals.wait(7, 64, now));
    CHECK_FALSE(arrivals.wait(7, 65, now));
    CHECK_FALSE(arrivals.wait_for_end(7, now));
  }

  TEST_CASE("a good end is all of it; after a bad one nothing is there, not even what has come") {
    PageArrivals arrivals;
    const std::uint64_t generations[] = {7, 8};
    for (const std::uint64_t generation : generations) arrivals.begin(generation);
    arrivals.came(generations, 64);
    arrivals.end(7, true);
    arrivals.end(8, false);
    arrivals.end(8, true);  // the first one counts
    CHECK(arrivals.wait(7, 1'000, never));
    CHECK(arrivals.wait_for_end(7, never));
    CHECK_FALSE(arrivals.wait(8, 1, never));
    CHECK_FALSE(arrivals.wait_for_end(8, never));
  }

  TEST_CASE("of what has not begun nothing is there; what ends without having begun is not known") {
    PageArrivals arrivals;
    arrivals.end(7, true);
    CHECK_FALSE(arrivals.wait(7, 0, now));
    CHECK(arrivals.known() == 0);
  }

  TEST_CASE("who waits goes on when a part has come, and when all has ended") {
    PageArrivals arrivals;
    std::thread reader([&] {
      CHECK(arrivals.wait(7, 64, never));  // before it has begun
      CHECK(arrivals.wait_for_end(7, never));
    });
    const std::uint64_t generations[] = {7};
    arrivals.begin(7);
    arrivals.came(generations, 64);
    arrivals.end(7, true);
    reader.join();
  }

  TEST_CASE("only so many ends are remembered") {
    PageArrivals arrivals;
    for (std::uint64_t generation = 0; generation < PageArrivals::ended_max + 10; ++generation) {
      arrivals.begin(generation);
      arrivals.end(generation, true);
    }
    CHECK(arrivals.known() == PageArrivals::ended_max);
    CHECK_FALSE(arrivals.wait(0, 1, now));
  }
}

}  // namespace page_arrivals_test
}  // namespace troupe
