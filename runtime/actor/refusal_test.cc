#include "runtime/actor/refusal.h"

#include <doctest/doctest.h>

#include <set>

using namespace troupe;

namespace {

RefusalKind kind_at(std::size_t i) { return static_cast<RefusalKind>(i); }

}  // namespace

TEST_CASE("refusal: each kind has a name of its own") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < refusal_kinds; ++i) CHECK(names.insert(name_of(kind_at(i))).second);
  CHECK(name_of(RefusalKind::malformed) == "malformed");
  CHECK(name_of(RefusalKind::unprocessable) == "unprocessable");
  CHECK(name_of(RefusalKind::internal) == "internal");
  CHECK(name_of(RefusalKind::deadline_exceeded) == "deadline_exceeded");
}

TEST_CASE("refusal: the request or the server is at fault, except for load and time") {
  for (std::size_t i = 0; i < refusal_kinds; ++i) {
    const RefusalKind kind = kind_at(i);
    CAPTURE(name_of(kind));
    const bool nobody = kind == RefusalKind::over_quota || kind == RefusalKind::deadline_exceeded;
    CHECK(is_fault_of_request(kind) + is_fault_of_server(kind) == (nobody ? 0 : 1));
  }
  CHECK(is_fault_of_request(RefusalKind::unprocessable));
  CHECK(is_fault_of_server(RefusalKind::unavailable));
}
