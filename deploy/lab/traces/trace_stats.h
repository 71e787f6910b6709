#pragma once
// Statistics of a request trace, from one pass over it: arrivals, how often users return and with which
// profile, and the skew of users and items.
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "deploy/data/request_trace.h"

namespace troupe::deploy {

// Unevenness of counts, such as accesses per item or requests per user.
struct Skew {
  std::uint64_t keys = 0, uses = 0;
  double share_of_10 = 0, share_of_1 = 0, share_of_01 = 0;  // uses of the 10, 1 and 0.1 % used most
  // Zipf exponents. `zipf_line`: least squares of log count over log rank, for ranks up to half of the keys
  // at equal steps of their logarithm. `zipf_likelihood`: maximum likelihood over all ranks seen.
  double zipf_line = 0, zipf_likelihood = 0;
};
Skew skew_of(std::vector<std::uint64_t> counts);

struct TraceStats {
  std::string source;
  std::uint64_t requests = 0, tenants = 0, users = 0, items = 0;  // items: distinct candidates
  double seconds = 0, per_second = 0;
  double gap_cv = 0;         // coefficient of variation of the times between requests; Poisson: 1
  double dispersion_1s = 0;  // variance over mean of the requests per second; Poisson: 1
  std::uint64_t most_in_1s = 0;
  // Mean candidates of a request, events at a user's first request, and events of a request's profile.
  double candidates_mean = 0, events_first_mean = 0, profile_events_mean = 0;
  double with_truth = 0;  // share of the requests
  // Shares of all requests from a user who was there before, at any time and within 5 minutes. Of these
  // requests, the share with an unchanged profile.
  double again = 0, again_5min = 0, again_same_profile = 0;
  double gap_p10_s = 0, gap_median_s = 0, gap_p90_s = 0;  // between two requests of a user
  Skew user_skew, candidate_skew, truth_skew;
};

// Throws ImportError, also for a trace that contradicts itself (see TraceUsers).
TraceStats measure_trace(TraceReader& reader);
void print(std::ostream& out, const TraceStats& stats);
nlohmann::json to_json(const TraceStats& stats);

}  // namespace troupe::deploy
