#pragma once
// Throughput and latency without faults, as in the papers' tables. Requests come in a closed loop, with a
// fixed number in flight, or at their times. The offline part (item blocks are precomputed, BAT §5.2) comes
// first, then requests that fill the caches; the throughput is measured after both.
#include <cstdint>
#include <functional>
#include <vector>

#include "sim/cluster/clients.h"
#include "sim/scenario/scenario.h"

namespace troupe::sim {

struct SaturationOptions {
  Scenario scenario;  // faults are ignored
  TracedRequests requests;
  std::uint64_t warm_up = 0, measured = 0;  // number of requests
  std::size_t in_flight = 0;  // 0 = requests come at their times, counted from the end of the offline part
  // limit of the offline part; the run continues with the blocks precomputed until then
  Duration offline_max{3'600'000'000};
  std::function<void(double share_done)> progress;
};

struct SaturationResult {
  double requests_per_s = 0, mean_ms = 0, p50_ms = 0, p90_ms = 0, p99_ms = 0;
  double token_hit_rate = 0;                    // reused tokens over all tokens of the prompts
  double user_plans = 0;                        // share of the requests
  double user_hit_rate = 0, item_hit_rate = 0;  // of the blocks that plans could reuse
  double device_busy = 0;                       // share of the time, mean over the workers
  double pulled_mb = 0;                         // per request, from other nodes
  // requests begun while blocks arrived, and time saved per such request
  double begun_early = 0, spared_ms = 0;
  std::uint64_t answered = 0, refused = 0, expired = 0;  // of the measured requests
  std::uint64_t events = 0, items_ahead = 0;  // of the whole run; item blocks computed or pulled offline
  double offline_s = 0, measured_s = 0;       // virtual time
  std::vector<Violation> violations;
};

SaturationResult run_saturated(const SaturationOptions& options);

}  // namespace troupe::sim
