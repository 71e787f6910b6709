// Table of refusal kinds with their HTTP statuses and the error types that OpenAI's clients expect.
#include "server/formats/http_refusal.h"

#include <algorithm>
#include <iterator>

#include "kernels/base/check.h"
#include "runtime/wire/json_text.h"

namespace troupe::server {
namespace {

struct HttpKind {
  RefusalKind kind;
  std::uint16_t status;
  std::string_view openai_type;
};

constexpr std::string_view invalid_request = "invalid_request_error", server_error = "server_error";

constexpr HttpKind http_kinds[] = {
    {RefusalKind::malformed, 400, invalid_request},
    {RefusalKind::unauthenticated, 401, "authentication_error"},
    {RefusalKind::forbidden, 403, "permission_error"},
    {RefusalKind::not_found, 404, invalid_request},
    {RefusalKind::wrong_method, 405, invalid_request},
    {RefusalKind::conflict, 409, invalid_request},
    {RefusalKind::precondition_failed, 412, invalid_request},
    {RefusalKind::too_large, 413, invalid_request},
    {RefusalKind::unsupported_media, 415, invalid_request},
    {RefusalKind::unprocessable, 422, invalid_request},
    {RefusalKind::over_quota, 429, "rate_limit_error"},
    {RefusalKind::header_too_large, 431, invalid_request},
    {RefusalKind::internal, 500, server_error},
    {RefusalKind::unsupported, 501, server_error},
    {RefusalKind::unavailable, 503, server_error},
    {RefusalKind::deadline_exceeded, 504, server_error},
};
static_assert(std::size(http_kinds) == refusal_kinds);

const HttpKind& row_of(RefusalKind kind) {
  const auto at = std::ranges::find(http_kinds, kind, &HttpKind::kind);
  TROUPE_CHECK(at != std::end(http_kinds), "each kind of refusal has an HTTP status");
  return *at;
}

}  // namespace

std::uint16_t http_status(RefusalKind kind) { return row_of(kind).status; }

std::string to_json(const Refusal& refusal) {
  const HttpKind& row = row_of(refusal.kind);
  std::string out = "{\"error\":{\"status\":" + std::to_string(row.status) + ",\"code\":";
  append_json_string(out, refusal.code);
  append_json_string(out += ",\"message\":", refusal.what);
  append_json_string(out += ",\"where\":", refusal.where);
  append_json_string(out += ",\"expected\":", refusal.expected);
  append_json_string(out += ",\"type\":", row.openai_type);
  append_json_string(out += ",\"param\":", refusal.where);
  return out + "}}";
}

}  // namespace troupe::server
