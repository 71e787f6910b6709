#pragma once
// A request of a request trace: when which user asked for what, as a platform exports it or a
// generator makes it. docs/reference/trace-format.md documents the form on disk; benchmarks and
// simulations replay it.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe {

struct TracedRequest {
  Instant at;  // time since the trace began; never falls from one request to the next
  std::string tenant, user;
  // version of the user's profile: rises when the profile changes, never falls
  std::uint64_t profile = 0;
  // events added to the profile since the user's last request; at the first request, all
  std::vector<std::string> events;
  std::vector<std::string> candidates;  // distinct item ids; empty where items are generated
  std::string truth;                    // candidate that the user chose; "" = none or unknown
  // the request generates `top_k` items by a search of `width` paths; 0 = the defaults
  bool generates = false;
  std::uint32_t top_k = 0, width = 0;
  bool operator==(const TracedRequest&) const = default;
};

// Reads the next request, in order of time; returns false after the last one.
using TracedRequests = std::function<bool(TracedRequest&)>;

}  // namespace troupe
