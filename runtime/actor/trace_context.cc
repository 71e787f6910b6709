// Parses and writes W3C `traceparent` headers, which tie the log lines and spans of one request
// together across processes.
#include "runtime/actor/trace_context.h"

#include <charconv>

namespace troupe {
namespace {

constexpr std::size_t length = 55;  // of version 00: 2 + 32 + 16 + 2 digits and the dashes between them

void append_hex(std::string& out, std::uint64_t value, int digits) {
  constexpr std::string_view hex = "0123456789abcdef";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += hex[(value >> shift) & 15];
}

// Accepts lower-case digits only.
bool read_hex(std::string_view text, std::uint64_t& value) {
  if (text.find_first_not_of("0123456789abcdef") != text.npos) return false;
  return std::from_chars(text.data(), text.data() + text.size(), value, 16).ec == std::errc();
}

}  // namespace

std::string trace_id(const TraceContext& context) {
  std::string text;
  append_hex(text, context.high, 16);
  append_hex(text, context.low, 16);
  return text;
}

std::string span_id(std::uint64_t span) {
  std::string text;
  append_hex(text, span, 16);
  return text;
}

std::optional<TraceContext> read_traceparent(std::string_view text) {
  if (text.size() < length || text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  TraceContext context;
  std::uint64_t version = 0, flags = 0;
  const bool read = read_hex(text.substr(0, 2), version) && read_hex(text.substr(3, 16), context.high) &&
                    read_hex(text.substr(19, 16), context.low) &&
                    read_hex(text.substr(36, 16), context.span) && read_hex(text.substr(53, 2), flags);
  if (!read || version == 255 || !context.is_there() || context.span == 0) return std::nullopt;
  const bool ends = text.size() == length;
  if (version == 0 ? !ends : !ends && text[length] != '-') return std::nullopt;
  context.sampled = (flags & 1) != 0;
  return context;
}

std::string write_traceparent(const TraceContext& context) {
  return "00-" + trace_id(context) + "-" + span_id(context.span) + (context.sampled ? "-01" : "-00");
}

}  // namespace troupe
