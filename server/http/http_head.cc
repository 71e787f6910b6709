// Parses the request line and headers of an HTTP request as bytes arrive, within limits. Hostile
// input is refused before it costs memory.
#include "server/http/http_head.h"

#include <algorithm>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <iterator>

#include "server/formats/tenant_name.h"

namespace troupe::server {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::ptrdiff_t fields_max = 100;  // header lines
constexpr const char* tenant_header = "x-troupe-tenant";

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

Refusal header_too_long(const HeadLimits& limits) {
  return {RefusalKind::header_too_large, "header_too_long", "the header is too long", "header",
          "at most " + std::to_string(limits.header_bytes_max) + " bytes (http.header_bytes_max)"};
}

Refusal refusal_of(const beast::error_code& error, const HeadLimits& limits) {
  if (error == http::error::header_limit) return header_too_long(limits);
  return {RefusalKind::malformed, "bad_http", error.message(), "request", "HTTP/1.1"};
}

// A proxy may route by Host and a server by the target, so both must agree (RFC 9112 §3.2).
std::optional<Refusal> host_fault(const http::request_header<>& header) {
  const std::size_t hosts = header.count(http::field::host);
  if (hosts == 1 || (hosts == 0 && header.version() == 10)) return std::nullopt;
  return Refusal{RefusalKind::malformed, "bad_host",
                 hosts == 0 ? "the request names no host" : "the request names several hosts", "host",
                 "one Host, which may be empty"};
}

// Refuses what the parser accepts and this server does not. With an unknown coding the body's end
// would be unknown, and bytes after it would be taken for the next request.
std::optional<Refusal> header_fault(const http::request_header<>& header) {
  if (std::distance(header.begin(), header.end()) > fields_max)
    return Refusal{RefusalKind::header_too_large, "header_too_long", "the header has too many fields",
                   "header", "at most " + std::to_string(fields_max)};
  // The parser takes a body of several codings for a chunked one, and would leave it coded.
  const std::size_t codings = header.count(http::field::transfer_encoding);
  const bool chunked = codings == 1 && beast::iequals(header[http::field::transfer_encoding], "chunked");
  if (codings > 0 && (!chunked || header.version() == 10))
    return Refusal{RefusalKind::unsupported, "transfer_encoding",
                   "the body has an unsupported transfer coding", "transfer-encoding",
                   "chunked in HTTP/1.1, or content-length"};
  if (header.count(tenant_header) > 1)
    return Refusal{RefusalKind::malformed, "repeated_tenant", "the request names several tenants",
                   tenant_header, "at most one"};
  if (header.count(http::field::authorization) > 1)
    return Refusal{RefusalKind::malformed, "repeated_key", "the request has several keys", "authorization",
                   "at most one"};
  if (auto fault = find_tenant_fault(view(header[tenant_header]))) return fault;
  return host_fault(header);
}

// No browser sends two origins, so they count as one of no site.
BrowserHeaders browser_headers(const http::request_header<>& header) {
  const bool several = header.count(http::field::origin) > 1;
  return {.host = std::string(view(header[http::field::host])),
          .origin = several ? "null" : std::string(view(header[http::field::origin])),
          .fetch_site = std::string(view(header["sec-fetch-site"]))};
}

}  // namespace

std::string short_text(std::string_view text) {
  constexpr std::size_t bytes_max = 128;
  const bool fits =
      text.size() <= bytes_max && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
  return fits ? std::string(text) : "";
}

struct RequestHead::Parser {
  http::request_parser<http::empty_body> http;  // parses only the head
};

RequestHead::RequestHead(const HeadLimits& limits) : limits_(limits), parser_(std::make_unique<Parser>()) {
  parser_->http.header_limit(limits.header_bytes_max);
  parser_->http.body_limit(boost::none);  // the body has its own parser
}

RequestHead::~RequestHead() = default;

// Skips one empty line before a request (RFC 9112 §2.2).
std::size_t RequestHead::take(std::string_view bytes) {
  std::size_t taken = 0;
  if (!begun_ && bytes.size() >= 2) {
    begun_ = true;
    if (bytes.starts_with("\r\n")) taken = 2;
  }
  if (begun_ && taken < bytes.size() && !done_ && !fault_) parse(bytes, taken);
  return taken;
}

// The parser's own limit covers only bytes that it has not parsed yet, so a head sent line by line
// would have no limit. The parser therefore sees no byte beyond our limit.
void RequestHead::parse(std::string_view bytes, std::size_t& taken) {
  const std::string_view piece = bytes.substr(taken, limits_.header_bytes_max - taken_);
  beast::error_code error;
  const std::size_t used = parser_->http.put(asio::buffer(piece.data(), piece.size()), error);
  taken += used;
  taken_ += used;
  if (error == http::error::need_more) {
    if (taken_ + piece.size() - used == limits_.header_bytes_max) fault_ = header_too_long(limits_);
  } else if (error) {
    fault_ = refusal_of(error, limits_);
  } else if (parser_->http.is_header_done()) {
    finish();
  }
}

void RequestHead::finish() {
  const auto& header = parser_->http.get();
  asked_.version = header.version() == 10 ? 10 : 11;
  asked_.method = view(header.method_string());
  fault_ = header_fault(header);
  if (fault_) return;
  asked_.target = view(header.target());
  asked_.tenant = view(header[tenant_header]);
  asked_.if_match = view(header[http::field::if_match]);
  asked_.if_none_match = view(header[http::field::if_none_match]);
  asked_.authorization = view(header[http::field::authorization]);
  asked_.content_type = view(header[http::field::content_type]);
  asked_.browser = browser_headers(header);
  asked_.request_id = short_text(view(header["x-request-id"]));
  asked_.traceparent = short_text(view(header["traceparent"]));
  asked_.accept = view(header[http::field::accept]);
  asked_.keep_alive = header.keep_alive();
  asked_.waits = header.version() == 11 && beast::iequals(header[http::field::expect], "100-continue");
  done_ = true;
}

RequestBody RequestHead::body(bool by_lines) const {
  BodyLimits limits = limits_.body;
  limits.by_lines = by_lines;
  if (parser_->http.chunked()) return RequestBody::chunked(limits);
  return RequestBody(parser_->http.content_length().value_or(0), limits);
}

}  // namespace troupe::server
