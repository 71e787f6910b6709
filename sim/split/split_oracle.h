#pragma once
// alpha*: the best split of each window, found by trying all hundredths (HLEM §V-A). LRU caches at a static
// alpha hold what their recency stacks say (recency_stack.h), so all 101 are tried in one pass; each has
// its own queues. "Mean P99" is the mean over the nodes and over several draws of the window's arrival
// times, since a P99 of some hundred requests is mostly chance.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "placement/split/recency_stack.h"
#include "placement/split/split_policy.h"
#include "sim/split/split_stations.h"
#include "sim/split/split_times.h"
#include "sim/split/split_workload.h"

namespace troupe::sim {

inline constexpr std::size_t alphas = placement::split_cells + 1;

class SplitOracle {
 public:
  SplitOracle(const SplitTimes& times, std::uint32_t nodes, double window_s, std::uint32_t draws,
              std::uint64_t seed, double slo_us);

  void serve(std::uint32_t node, const SplitRequest& request, std::span<const std::uint32_t> rows);
  // Results of a node at each alpha, with the original arrivals.
  struct NodeWindow {
    double requests = 0, hot = 0, events = 0, rows = 0;
    std::array<float, alphas> kv_hits{}, row_hits{}, late{}, p99_us{};
  };
  struct Window {
    double best = 0;                       // alpha*
    double half_apart = 0;                 // difference of alpha* between the two halves of the draws
    std::array<double, alphas> p99_us{};   // mean P99 at each alpha
    std::array<double, alphas> mean_us{};  // of service times without waiting
    std::array<double, alphas> late{};     // share of requests that miss the objective
    std::vector<NodeWindow> nodes;
  };
  Window end_window();
  // Returns latencies (wait and service) of the whole run at a static alpha, with the first draw's
  // arrivals.
  std::span<const float> latencies(std::size_t alpha) const { return all_[alpha]; }

 private:
  struct ServedRequest {
    double at_us = 0;
    float compute_us = 0, reuse_us = 0;  // on the device, without and with the user's keys and values
    std::size_t kv_alphas = 0;           // the keys and values are held at the first so many alphas
    std::array<float, alphas> copy_us;
    StationTimes at(std::size_t alpha) const {
      return {copy_us[alpha], alpha < kv_alphas ? reuse_us : compute_us};
    }
  };
  struct Node {
    placement::RecencyStack kv, rows;
    std::vector<ServedRequest> served;
    NodeWindow window;
    std::array<double, alphas> late{};                   // of all draws
    std::vector<std::array<Stations, alphas>> stations;  // of each draw
  };
  void play(Node& node, std::uint32_t draw, std::array<double, alphas>& sums);

  const SplitTimes& times_;
  double window_us_, slo_us_, begin_us_ = 0;
  RandomStream random_;
  std::vector<Node> nodes_;
  std::vector<float> sorted_;
  std::array<std::vector<float>, alphas> all_;
};

}  // namespace troupe::sim
