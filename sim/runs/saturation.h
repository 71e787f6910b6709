#pragma once
// A cluster that is never idle: a number of requests is under way all the time, the next one is asked when
// one has its outcome; or one whose requests come at their times. After the offline part (item blocks that
// are computed ahead, BAT §5.2) and a number of requests that fill the caches, what the cluster answers in a
// second is its throughput. This is how the papers' tables of throughput and of latency are measured.
#include <cstdint>
#include <functional>
#include <vector>

#include "sim/cluster/clients.h"
#include "sim/scenario/scenario.h"

namespace troupe::sim {

struct SaturationOptions {
  Scenario scenario;  // its faults are ignored
  TracedRequests requests;
  std::uint64_t warm_up = 0, measured = 0;  // requests
  std::size_t in_flight = 0;  // 0: requests come at their times, counted from the end of the offline part
  Duration offline_max{3'600'000'000};  // then it goes on with what was computed ahead
  std::function<void(double share_done)> progress;
};

struct SaturationResult {
  double requests_per_s = 0, mean_ms = 0, p50_ms = 0, p90_ms = 0, p99_ms = 0;
  double token_hit_rate = 0;                    // reused tokens over all tokens of the prompts
  double user_plans = 0;                        // share of the requests
  double user_hit_rate = 0, item_hit_rate = 0;  // of the blocks that plans wanted to reuse
  double device_busy = 0;                       // share of the time, mean over the workers
  double pulled_mb = 0;                         // per request, from other nodes
  double begun_early = 0, spared_ms = 0;        // of requests, while blocks came; each of those was spared
  std::uint64_t answered = 0, refused = 0, expired = 0;  // of the measured ones
  std::uint64_t events = 0, items_ahead = 0;             // of the whole run; computed or pulled offline
  double offline_s = 0, measured_s = 0;                  // virtual
  std::vector<Violation> violations;
};

SaturationResult run_saturated(const SaturationOptions& options);

}  // namespace troupe::sim
