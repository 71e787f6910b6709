#pragma once
// Request of a simulated client while it is in flight.
#include <cstdint>
#include <string>

#include "runtime/actor/messages.h"
#include "sim/world/world_data.h"

namespace troupe::sim {

// Request in flight, with what its outcome is judged by.
struct SentRequest {
  // malformed: invalid on purpose; poison: its content kills the worker process; reload: changes versions.
  // Only usual requests have to succeed.
  enum class Kind : std::uint8_t { usual, malformed, poison, reload };
  // a_while: 5 heartbeats or more since a kill; long_ago: 10 or more
  enum class SinceKill : std::uint8_t { unknown, a_while, long_ago };
  Message request;
  Kind kind = Kind::usual;
  std::string refusal = {};  // code with which a malformed request must be refused; "" = any
  std::uint32_t model = 0;   // index of the requested model
  NodeId router = 0;
  Instant sent;
  Duration budget;
  WorldData::Edition edition = 0;  // of the catalog when the request was sent
  // Lowest allowed profile versions. known: stored before, to the client's knowledge. For lenient requests:
  // written by this router, or stored one expiry earlier; stale: the lowest allowed version of a stale
  // profile.
  std::uint64_t profile_known = 0, profile_stale = 0;
  // Profile version when the request was sent; for lenient requests the earliest allowed one.
  std::uint64_t profile_since = 0;
  bool must_succeed = false;
  bool alone = false;                         // a reload without another one in flight at the same time
  bool overdue = false;                       // already reported; its outcome may still come
  SinceKill since_kill = SinceKill::unknown;  // if nothing else is wrong
};

}  // namespace troupe::sim
