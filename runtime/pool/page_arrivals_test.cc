#include "runtime/pool/page_arrivals.h"

#include <doctest/doctest.h>

#include <thread>

namespace troupe {
namespace page_arrivals_test {

const PageArrivals::Clock::time_point never = PageArrivals::Clock::time_point::max(), now{};

TEST_SUITE("page_arrivals") {
  TEST_CASE("page arrivals: wait succeeds for bytes that have arrived, and no more") {
    PageArrivals arrivals;
    arrivals.begin(7);
    CHECK_FALSE(arrivals.wait(7, 64, now));
    const std::uint64_t generations[] = {7};
    arrivals.advance(generations, 64);
    CHECK(arrivals.wait(7, 64, now));
    CHECK_FALSE(arrivals.wait(7, 65, now));
    CHECK_FALSE(arrivals.wait_for_end(7, now));
  }

  TEST_CASE("page arrivals: after a good end all bytes are there, after a bad one none") {
    PageArrivals arrivals;
    const std::uint64_t generations[] = {7, 8};
    for (const std::uint64_t generation : generations) arrivals.begin(generation);
    arrivals.advance(generations, 64);
    arrivals.end(7, true);
    arrivals.end(8, false);
    arrivals.end(8, true);  // the first end counts
    CHECK(arrivals.wait(7, 1'000, never));
    CHECK(arrivals.wait_for_end(7, never));
    CHECK_FALSE(arrivals.wait(8, 1, never));
    CHECK_FALSE(arrivals.wait_for_end(8, never));
  }

  TEST_CASE("page arrivals: an arrival that has not begun is unknown, even when it ends") {
    PageArrivals arrivals;
    arrivals.end(7, true);
    CHECK_FALSE(arrivals.wait(7, 0, now));
    CHECK(arrivals.known() == 0);
  }

  TEST_CASE("page arrivals: a waiting thread wakes when enough bytes arrive and at the end") {
    PageArrivals arrivals;
    std::thread reader([&] {
      CHECK(arrivals.wait(7, 64, never));  // before the arrival begins
      CHECK(arrivals.wait_for_end(7, never));
    });
    const std::uint64_t generations[] = {7};
    arrivals.begin(7);
    arrivals.advance(generations, 64);
    arrivals.end(7, true);
    reader.join();
  }

  TEST_CASE("page arrivals: at most ended_max ends are remembered") {
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
