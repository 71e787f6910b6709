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
  malformed,            // the request does not have the form of a request
  unauthenticated,      // a key is missing or unknown
  forbidden,            // the sender may not do this
  not_found,            // the user, item, model or path does not exist
  wrong_method,         // the path serves other methods
  conflict,             // the request needs a version that is not the current one
  precondition_failed,  // the stored state is not what the write expects
  too_large,            // the request exceeds a limit of the configuration
  unsupported_media,    // the body is in an encoding that is not read
  unprocessable,        // well-formed, but the model or the catalog cannot serve it
  over_quota,           // the sender or its tenant has too much in flight
  header_too_large,     // the head of the request exceeds a limit
  internal,             // a bug, or damaged data
  unsupported,          // this process can never do what is asked
  unavailable,          // may succeed later, or elsewhere
  deadline_exceeded     // the time budget was spent
};
inline constexpr std::size_t refusal_kinds = static_cast<std::size_t>(RefusalKind::deadline_exceeded) + 1;

std::string_view name_of(RefusalKind kind);  // as declared, e.g. "not_found"

// True if another node would refuse the request, too: its sender must change it, or what is stored.
bool is_fault_of_request(RefusalKind kind);
// True if the process that refused could not do its work. Both are false for over_quota (the sender
// sends too much) and deadline_exceeded (the time was too short).
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
