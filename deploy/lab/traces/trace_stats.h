#pragma once
// What a request trace is like, from one pass over it: how requests come, how often users come back and with
// which profile, how skewed users and items are.
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "deploy/lab/traces/request_trace.h"

namespace troupe::deploy {

// How uneven counts are: of items by accesses, of users by requests.
struct Skew {
  std::uint64_t keys = 0, uses = 0;
  double share_of_10 = 0, share_of_1 = 0, share_of_01 = 0;  // of all uses, by the 10, 1 and 0.1 % used most
  // Zipf exponents. The line: least squares of log count over log rank, ranks to half of the keys at equal
  // steps of their logarithm. The likelihood: maximum over all ranks that were seen.
  double zipf_line = 0, zipf_likelihood = 0;
};
Skew skew_of(std::vector<std::uint64_t> counts);

struct TraceStats {
  std::string source;
  std::uint64_t requests = 0, tenants = 0, users = 0, items = 0;  // items: that are candidates
  double seconds = 0, per_second = 0;
  double gap_cv = 0;         // of the times between requests: their deviation by their mean; Poisson: 1
  double dispersion_1s = 0;  // variance by mean of the requests in each second; Poisson: 1
  std::uint64_t most_in_1s = 0;
  double candidates_mean = 0, events_first_mean = 0, profile_events_mean = 0;  // the last: at each request
  double with_truth = 0;                                                       // share of the requests
  double again = 0, again_5min = 0,
         again_same_profile = 0;                          // shares: of all, of all, of those who come again
  double gap_p10_s = 0, gap_median_s = 0, gap_p90_s = 0;  // between two requests of a user
  Skew user_skew, candidate_skew, truth_skew;
};

// Throws ImportError, also for what contradicts itself (TraceUsers).
TraceStats measure_trace(TraceReader& reader);
void print(std::ostream& out, const TraceStats& stats);
nlohmann::json to_json(const TraceStats& stats);

}  // namespace troupe::deploy
