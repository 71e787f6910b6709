#pragma once
// One request of a request trace: who asked when for what, as a platform exports it or a generator makes it.
// deploy/TRACES.md has the form on disk; benchmarks and simulations replay it.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe {

struct TracedRequest {
  Instant at;  // since the trace began; never before the request that comes before it
  std::string tenant, user;
  std::uint64_t profile = 0;        // version of the user's profile: rises when that changes, never falls
  std::vector<std::string> events;  // what the profile has since the user's last request; at the first, all
  std::vector<std::string> candidates;  // item ids, each once; none where items were asked for
  std::string truth;                    // the candidate that the user took; "": none, or nobody knows
  bool generates = false;  // items were asked for, as many and by as wide a search as said; 0: as is usual
  std::uint32_t top_k = 0, width = 0;
  bool operator==(const TracedRequest&) const = default;
};

// The next request, in order of time; false after the last one.
using TracedRequests = std::function<bool(TracedRequest&)>;

}  // namespace troupe
