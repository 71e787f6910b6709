#include "runtime/wire/refusal_numbers.h"

#include <doctest/doctest.h>

using namespace troupe;
using codec::kind_of_wire_number, codec::wire_number;

TEST_CASE("refusal numbers: each kind is read from the number that is written for it") {
  for (std::size_t i = 0; i < refusal_kinds; ++i) {
    const auto kind = static_cast<RefusalKind>(i);
    CAPTURE(name_of(kind));
    CHECK(kind_of_wire_number(wire_number(kind)) == kind);
  }
}

TEST_CASE("refusal numbers: earlier builds know these numbers") {
  CHECK(wire_number(RefusalKind::malformed) == 400);
  CHECK(wire_number(RefusalKind::unauthenticated) == 401);
  CHECK(wire_number(RefusalKind::forbidden) == 403);
  CHECK(wire_number(RefusalKind::not_found) == 404);
  CHECK(wire_number(RefusalKind::wrong_method) == 405);
  CHECK(wire_number(RefusalKind::conflict) == 409);
  CHECK(wire_number(RefusalKind::precondition_failed) == 412);
  CHECK(wire_number(RefusalKind::too_large) == 413);
  CHECK(wire_number(RefusalKind::unsupported_media) == 415);
  CHECK(wire_number(RefusalKind::unprocessable) == 422);
  CHECK(wire_number(RefusalKind::over_quota) == 429);
  CHECK(wire_number(RefusalKind::header_too_large) == 431);
  CHECK(wire_number(RefusalKind::internal) == 500);
  CHECK(wire_number(RefusalKind::unsupported) == 501);
  CHECK(wire_number(RefusalKind::unavailable) == 503);
  CHECK(wire_number(RefusalKind::deadline_exceeded) == 504);
}

TEST_CASE("refusal numbers: an unknown number blames the request only if it is a client's error") {
  CHECK(kind_of_wire_number(418) == RefusalKind::malformed);
  CHECK(kind_of_wire_number(499) == RefusalKind::malformed);
  for (const std::uint16_t number : {0, 200, 399, 502, 599, 600, 65535})
    CHECK(kind_of_wire_number(number) == RefusalKind::internal);
}
