#pragma once
// To which trace of its client's a request belongs, as W3C's `traceparent` says: log lines, spans and
// exemplars of every hop carry it. It has no part in any decision.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

struct TraceContext {
  std::uint64_t high = 0, low = 0;  // the trace; both 0: none
  std::uint64_t span = 0;           // the door's own; of its client's, what came
  bool sampled = false;             // its client records this trace: hops log what they did for it

  bool is_there() const { return (high | low) != 0; }
  bool operator==(const TraceContext&) const = default;
};

std::string trace_id(const TraceContext& context);  // 32 hexadecimal digits
std::string span_id(std::uint64_t span);            // 16

// "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01". A later version's further fields are passed
// over; whatever is malformed is none, as the specification wants it.
std::optional<TraceContext> read_traceparent(std::string_view text);
std::string write_traceparent(const TraceContext& context);

}  // namespace troupe
