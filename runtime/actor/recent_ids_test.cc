#include "runtime/actor/recent_ids.h"

#include <doctest/doctest.h>

namespace troupe {
namespace {

constexpr Address one{1, Role::router}, other{2, Role::router};

TEST_CASE("recent ids: an id is known for its sender only") {
  RecentIds recent(4);
  recent.add(one, 7);
  CHECK(recent.contains(one, 7));
  CHECK_FALSE(recent.contains(one, 8));
  CHECK_FALSE(recent.contains(other, 7));
}

TEST_CASE("recent ids: the oldest id is forgotten first, and an id added twice is stored once") {
  RecentIds recent(2);
  for (const RequestId id : {1, 2, 2, 2}) recent.add(one, id);
  CHECK(recent.contains(one, 1));
  recent.add(one, 3);
  CHECK_FALSE(recent.contains(one, 1));
  CHECK(recent.contains(one, 2));
  CHECK(recent.contains(one, 3));
  CHECK(recent.size() == 2);
}

TEST_CASE("recent ids: with capacity 0 no id is known") {
  RecentIds recent(0);
  recent.add(one, 1);
  CHECK_FALSE(recent.contains(one, 1));
  CHECK(recent.size() == 0);
}

}  // namespace
}  // namespace troupe
