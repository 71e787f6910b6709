#pragma once
// Cluster without faults with its clients: what all load runs have in common, and the figures that they all
// take.
#include <vector>

#include "sim/cluster/clients.h"

namespace troupe::sim {

class CalmRun {
 protected:
  // Leaves out the scenario's faults.
  explicit CalmRun(Scenario scenario);

  double metric(Metric metric) { return cluster_.metrics().value(metric); }
  std::uint64_t outcomes();  // of requests, so far
  // Runs until item blocks are precomputed, or until `latest`; looks at intervals.
  void await_precomputed(Instant latest, Duration interval);
  // Returns the latencies of the requests answered in these seconds; the last one is not included.
  std::vector<float> latencies_ms(std::size_t from_s, std::size_t to_s) const;
  // Stops the clients, waits until all requests must have their outcomes, and returns the broken promises.
  std::vector<Violation> end();

  Violations violations_;
  Cluster cluster_;
  Clients clients_;
};

}  // namespace troupe::sim
