#pragma once
// The head of a request over HTTP/2, in the form of one over HTTP/1.1. Pure.
#include <optional>

#include "server/http/http_head.h"
#include "server/http2/http2_session.h"

namespace troupe::server {

// Fills `asked` as far as parsed; returns why the request is refused.
std::optional<Refusal> read_http2_head(const Http2Fields& fields, RequestHead::HeadFields& asked);

// Returns the refusal of a head that the session did not keep.
Refusal refusal_of(Http2Event::Fault fault, std::uint32_t header_bytes_max);

// Returns the body's length as the head says it; nullopt = it says none.
std::optional<std::uint64_t> content_length(const Http2Fields& fields);

}  // namespace troupe::server
