#pragma once
// Trace context of a request, as W3C's `traceparent` header gives it. Log lines, spans and
// exemplars of every hop carry it. No decision depends on it.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

struct TraceContext {
  std::uint64_t high = 0, low = 0;  // trace id; both 0 = no trace
  // the HTTP server's own span; in a context read from the client, the client's span
  std::uint64_t span = 0;
  bool sampled = false;  // the client records this trace: every hop logs what it did for the request

  bool is_there() const { return (high | low) != 0; }
  bool operator==(const TraceContext&) const = default;
};

std::string trace_id(const TraceContext& context);  // 32 hexadecimal digits
std::string span_id(std::uint64_t span);            // 16 hexadecimal digits

// Parses e.g. "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01". Further fields of a later
// version are ignored. Returns nothing for malformed text, as the specification demands.
std::optional<TraceContext> read_traceparent(std::string_view text);
std::string write_traceparent(const TraceContext& context);

}  // namespace troupe
