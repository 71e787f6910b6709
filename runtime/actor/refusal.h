#pragma once
// A refusal answers a request that is not served: what is wrong, where, and what would be valid. Its
// kind says what the sender can do. The server maps kinds to HTTP statuses and gRPC codes
// (server/formats/http_refusal.h); the wire has a number for each (runtime/wire/refusal_numbers.h).
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

enum class RefusalKind : std::uint8_t {
  malformed,            // the request has not the form of one
  unauthenticated,      // a key is missing or unknown
  forbidden,            // the sender may not do this
  not_found,            // the user, item, model or path does not exist
  wrong_method,         // the path serves other methods
  conflict,             // a version that the request needs is not the present one
  precondition_failed,  // the stored state is not what the write expects
  too_large,            // the request exceeds a limit of the configuration
  unsupported_media,    // the body is in an encoding that is not read
  unprocessable,        // well-formed, but the model or the catalog cannot serve it
  over_quota,           // the sender or its tenant has too much in flight
  header_too_large,     // the head of the request exceeds a limit
  internal,             // a bug, or data that must not be
  unsupported,          // this process never does that
  unavailable,          // may succeed later, or elsewhere
  deadline_exceeded     // the time budget was spent
};
inline constexpr std::size_t refusal_kinds = 16;

std::string_view name_of(RefusalKind kind);  // as declared, e.g. "not_found"

// True if the same request is refused again, by every node, until its sender changes it.
bool is_fault_of_request(RefusalKind kind);
// True if the process that refused could not do what it should. Like neither of these: the sender
// sends too much (over_quota), or the time was too short (deadline_exceeded).
bool is_fault_of_server(RefusalKind kind);

struct Refusal {
  RefusalKind kind = RefusalKind::internal;
  // A stable word for programs, e.g. "unknown_user", "unknown_item", "repeated_candidate",
  // "too_many_candidates", "overloaded".
  std::string code;
  std::string what;      // what is wrong
  std::string where;     // the field, file or actor concerned
  std::string expected;  // what a valid input would be
  // seconds that a client should wait before a retry; 0 = unknown
  std::uint16_t retry_after_s = 0;
  bool operator==(const Refusal&) const = default;
};

}  // namespace troupe
