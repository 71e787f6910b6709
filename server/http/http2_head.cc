// Reads the fields of a request over HTTP/2. HTTP/2 itself has checked that the method and the path
// are there once, and that no field is of HTTP/1.1's connections.
#include "server/http/http2_head.h"

#include <algorithm>
#include <charconv>

#include "server/formats/tenant_name.h"

namespace troupe::server {

namespace {

bool asks_to_wait(std::string_view expect) {
  return std::ranges::equal(expect, std::string_view("100-continue"), {}, [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  });
}

constexpr const char* tenant_field = "x-troupe-tenant";

std::string_view first_of(const Http2Fields& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Http2Fields::value_type::first);
  return found == fields.end() ? std::string_view() : std::string_view(found->second);
}

bool is_repeated(const Http2Fields& fields, std::string_view name) {
  return std::ranges::count(fields, name, &Http2Fields::value_type::first) > 1;
}

// No browser sends two origins, so they count as one of no site.
BrowserHeaders browser_fields(const Http2Fields& fields) {
  const std::string_view authority = first_of(fields, ":authority");
  return {.host = std::string(authority.empty() ? first_of(fields, "host") : authority),
          .origin = is_repeated(fields, "origin") ? "null" : std::string(first_of(fields, "origin")),
          .fetch_site = std::string(first_of(fields, "sec-fetch-site"))};
}

// `host` may repeat what :authority says (RFC 9113 §8.3.1).
std::optional<Refusal> authority_fault(const Http2Fields& fields) {
  const std::string_view authority = first_of(fields, ":authority"), host = first_of(fields, "host");
  const bool differs = !authority.empty() && !host.empty() && host != authority;
  if (!differs && !is_repeated(fields, "host")) return std::nullopt;
  return Refusal{RefusalKind::malformed, "bad_host", "the request names several hosts", ":authority",
                 "exactly one host"};
}

std::optional<Refusal> fields_fault(const Http2Fields& fields) {
  if (first_of(fields, ":path").empty())
    return Refusal{RefusalKind::malformed, "bad_http", "the request has no path", ":path", "a path"};
  if (is_repeated(fields, tenant_field))
    return Refusal{RefusalKind::malformed, "repeated_tenant", "the request names several tenants",
                   tenant_field, "at most one"};
  if (is_repeated(fields, "authorization"))
    return Refusal{RefusalKind::malformed, "repeated_key", "the request has several keys", "authorization",
                   "at most one"};
  if (auto fault = find_tenant_fault(first_of(fields, tenant_field))) return fault;
  return authority_fault(fields);
}

}  // namespace

// The tenant of a request that is refused is not kept: its name may be no UTF-8, and stands in logs.
std::optional<Refusal> read_http2_head(const Http2Fields& fields, RequestHead::HeadFields& asked) {
  asked.method = first_of(fields, ":method");
  asked.target = first_of(fields, ":path");
  asked.if_match = first_of(fields, "if-match");
  asked.if_none_match = first_of(fields, "if-none-match");
  asked.authorization = first_of(fields, "authorization");
  asked.content_type = first_of(fields, "content-type");
  asked.accept = first_of(fields, "accept");
  asked.browser = browser_fields(fields);
  asked.request_id = short_text(first_of(fields, "x-request-id"));
  asked.traceparent = short_text(first_of(fields, "traceparent"));
  asked.keep_alive = true;
  asked.waits = asks_to_wait(first_of(fields, "expect"));
  if (auto fault = fields_fault(fields)) return fault;
  asked.tenant = first_of(fields, tenant_field);
  return std::nullopt;
}

Refusal refusal_of(Http2Event::Fault fault, std::uint32_t header_bytes_max) {
  if (fault == Http2Event::Fault::malformed)
    return {RefusalKind::malformed, "bad_http", "a field has a byte that fields cannot have", "header",
            "fields of HTTP"};
  if (fault == Http2Event::Fault::too_many_fields)
    return {RefusalKind::header_too_large, "header_too_long", "the header has too many fields", "header",
            "at most 100"};
  return {RefusalKind::header_too_large, "header_too_long", "the header is too long", "header",
          "at most " + std::to_string(header_bytes_max) + " bytes (http.header_bytes_max)"};
}

std::optional<std::uint64_t> content_length(const Http2Fields& fields) {
  const std::string_view text = first_of(fields, "content-length");
  std::uint64_t length = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), length);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return length;
}

}  // namespace troupe::server
