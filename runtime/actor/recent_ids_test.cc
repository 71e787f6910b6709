#include "runtime/actor/recent_ids.h"

#include <doctest/doctest.h>

namespace troupe {
namespace {

constexpr Address one{1, Role::router}, other{2, Role::router};

TEST_CASE("an id is known for its asker only") {
  RecentIds recent(4);
  recent.add(one, 7);
  CHECK(recent.contains(one, 7));
  CHECK_FALSE(recent.contains(one, 8));
  CHECK_FALSE(recent.contains(other, 7));
}

TEST_CASE("the oldest is forgotten first, and one that is added twice takes one place") {
  RecentIds recent(2);
  for (const RequestId id : {1, 2, 2, 2}) recent.add(one, id);
  CHECK(recent.contains(one, 1));
  recent.add(one, 3);
  CHECK_FALSE(recent.contains(one, 1));
  CHECK(recent.contains(one, 2));
  CHECK(recent.contains(one, 3));
  CHECK(recent.size() == 2);
}

TEST_CASE("a memory of nothing knows nothing") {
  RecentIds recent(0);
  recent.add(one, 1);
  CHECK_FALSE(recent.contains(one, 1));
  CHECK(recent.size() == 0);
}

}  // namespace
}  // namespace troupe
