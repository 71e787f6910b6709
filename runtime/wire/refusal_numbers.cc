// Table of refusal kinds and their numbers on the wire. Do not change a number.
#include "runtime/wire/refusal_numbers.h"

#include <algorithm>
#include <iterator>

#include "kernels/base/check.h"

namespace troupe::codec {
namespace {

struct NumberedKind {
  RefusalKind kind;
  std::uint16_t number;
};

constexpr NumberedKind numbered_kinds[] = {
    {RefusalKind::malformed, 400},
    {RefusalKind::unauthenticated, 401},
    {RefusalKind::forbidden, 403},
    {RefusalKind::not_found, 404},
    {RefusalKind::wrong_method, 405},
    {RefusalKind::conflict, 409},
    {RefusalKind::precondition_failed, 412},
    {RefusalKind::too_large, 413},
    {RefusalKind::unsupported_media, 415},
    {RefusalKind::unprocessable, 422},
    {RefusalKind::over_quota, 429},
    {RefusalKind::header_too_large, 431},
    {RefusalKind::internal, 500},
    {RefusalKind::unsupported, 501},
    {RefusalKind::unavailable, 503},
    {RefusalKind::deadline_exceeded, 504},
};
static_assert(std::size(numbered_kinds) == refusal_kinds);

}  // namespace

std::uint16_t wire_number(RefusalKind kind) {
  const auto at = std::ranges::find(numbered_kinds, kind, &NumberedKind::kind);
  TROUPE_CHECK(at != std::end(numbered_kinds), "each kind of refusal has a number on the wire");
  return at->number;
}

RefusalKind kind_of_wire_number(std::uint16_t number) {
  const auto at = std::ranges::find(numbered_kinds, number, &NumberedKind::number);
  if (at != std::end(numbered_kinds)) return at->kind;
  return number / 100 == 4 ? RefusalKind::malformed : RefusalKind::internal;
}

}  // namespace troupe::codec
