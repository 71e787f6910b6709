// Names the kinds of refusals and says whose fault each is.
#include "runtime/actor/refusal.h"

#include "kernels/base/check.h"

namespace troupe {

std::string_view name_of(RefusalKind kind) {
  constexpr std::string_view names[] = {
      "malformed",         "unauthenticated", "forbidden",           "not_found",
      "wrong_method",      "conflict",        "precondition_failed", "too_large",
      "unsupported_media", "unprocessable",   "over_quota",          "header_too_large",
      "internal",          "unsupported",     "unavailable",         "deadline_exceeded"};
  static_assert(std::size(names) == refusal_kinds);
  const auto at = static_cast<std::size_t>(kind);
  TROUPE_CHECK(at < refusal_kinds, "a refusal has one of the declared kinds");
  return names[at];
}

bool is_fault_of_request(RefusalKind kind) {
  switch (kind) {
    case RefusalKind::malformed:
    case RefusalKind::unauthenticated:
    case RefusalKind::forbidden:
    case RefusalKind::not_found:
    case RefusalKind::wrong_method:
    case RefusalKind::conflict:
    case RefusalKind::precondition_failed:
    case RefusalKind::too_large:
    case RefusalKind::unsupported_media:
    case RefusalKind::unprocessable:
    case RefusalKind::header_too_large:
      return true;
    case RefusalKind::over_quota:
    case RefusalKind::internal:
    case RefusalKind::unsupported:
    case RefusalKind::unavailable:
    case RefusalKind::deadline_exceeded:
      return false;
  }
  return false;
}

bool is_fault_of_server(RefusalKind kind) {
  return kind == RefusalKind::internal || kind == RefusalKind::unsupported ||
         kind == RefusalKind::unavailable;
}

}  // namespace troupe
