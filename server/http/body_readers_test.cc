#include "server/http/body_readers.h"

#include <doctest/doctest.h>

#include <latch>
#include <memory>
#include <vector>

using namespace troupe::server;

TEST_CASE("body readers: jobs run in order on another thread, and the end waits for all of them") {
  std::vector<int> ran;
  std::thread::id where;
  {
    BodyReaders readers(1, 100);
    for (int i = 0; i < 100; ++i)
      CHECK(readers.run([&ran, &where, i] { ran.push_back(i), where = std::this_thread::get_id(); }));
  }
  REQUIRE(ran.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(ran[static_cast<std::size_t>(i)] == i);
  CHECK(where != std::this_thread::get_id());
}

TEST_CASE("body readers: a job that waits can be taken back, and is freed then") {
  std::latch begun(1), go_on(1);
  int ran = 0;
  {
    BodyReaders readers(1, 100);
    const auto first = readers.run([&] { begun.count_down(), go_on.wait(); });
    begun.wait();
    const auto held = std::make_shared<int>(7);
    const auto second = readers.run([&ran, held] { ran += *held; });
    const auto third = readers.run([&] { ran += 100; });
    REQUIRE((first && second && third));
    CHECK(held.use_count() == 2);
    readers.take_back(*second);
    CHECK(held.use_count() == 1);
    readers.take_back(*first);   // it has begun
    readers.take_back(*second);  // again
    go_on.count_down();
  }
  CHECK(ran == 100);
}

TEST_CASE("body readers: further jobs are refused while as many wait as may") {
  std::latch begun(1), go_on(1);
  int ran = 0;
  {
    BodyReaders readers(1, 2);
    CHECK(readers.run([&] { begun.count_down(), go_on.wait(); }));
    begun.wait();
    CHECK(readers.run([&] { ++ran; }));
    CHECK(readers.run([&] { ++ran; }));
    CHECK_FALSE(readers.run([&] { ++ran; }));
    go_on.count_down();
  }
  CHECK(ran == 2);
}
