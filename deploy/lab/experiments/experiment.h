#pragma once
// An experiment of a paper as data: cluster, data set and policy of one figure, for `troupe-lab sim
// --experiments`. Sizes are the paper's. `scale` divides quantities (users, items, memory, the time until
// users return), but not the size of each user or item. All shares stay the same, and a run needs that many
// times fewer requests until its caches are full.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/actor/traced_request.h"
#include "sim/runs/saturation.h"

namespace troupe::deploy {

struct Experiment {
  std::string name;
  // The cluster.
  std::uint32_t nodes = 4;
  std::string device = "A100-40G", shape = "qwen2-1.5b", link = "100gbps", host_link = "pcie3";
  // Devices per node, which split every layer (tensor parallelism); each has its own host link.
  std::uint32_t devices = 1;
  double efficiency = 0;   // of the device; 0 = the profile's
  double memory_gb = 150;  // of each node, for keys and values, in 10^9 bytes
  // The data.
  double users = 510'000, items = 280'000;
  double user_tokens = 1'586, user_sigma = 0.6, user_tokens_max = 6'500;
  std::uint32_t item_tokens = 15, candidates = 100;
  // Arrivals of users and choice of items, as docs/reference/trace-format.md defines them; times are counted
  // in requests.
  double item_skew = 1, user_skew = 0, return_share = 0.5, return_after = 8'000, return_sigma = 1;
  // Activity of users with long profiles: the profile's length over the mean, to these powers, scales how
  // often a user is drawn for a new visit and how much sooner they return. 0 = all users alike.
  double drawn_by_length = 0, returns_by_length = 0;
  // Candidates from a group (grouped_requests.h) instead of independent ones; each request has another user.
  std::uint32_t group_items = 0;  // items per group; 0 = no groups
  double group_share = 0.9, group_skew = 0.6, candidates_sigma = 0;
  // Form of the model, as its prompt.json would declare it: the arrangements that it was trained for, which
  // must be named, and those of them that a policy may choose. Its scores are read at a discriminant.
  std::vector<std::string> arrangements, interchangeable;
  // Prompts: `system_tokens` begin every prompt. A history consists of whole events of `event_tokens`
  // tokens (0 = not divided into events), and `known_share` of the events are among `known_events` that
  // repeat.
  std::uint32_t system_tokens = 4, event_tokens = 0, known_events = 0;
  double known_share = 0;
  // Decisions.
  std::string policy = "bat", placement = "hrcs";  // placement of groups: metis or hash
  std::uint32_t training = 10'000;                 // requests from which metis learns
  bool shared_areas = false;  // users and items share one memory area, whatever the policy
  double approximate = 0;     // share of a prompt that the planner may answer approximately
  std::string routing = "earliest";
  double routing_alpha = 0.5;
  std::uint32_t routers = 0;  // 0 = one on each node
  // The engine waits for pulls, like the paper's, where BAT-Hash spends 31 % of its latency so (§6.4).
  bool pulls_stall = true;
  bool overlap = false;      // passes begin while blocks are pulled; excludes pulls_stall
  double pull_share = 0.25;  // as in RouterConfig; 0 = derived from the link
  double alpha = 0.1;        // HRCS: most share of the computing time for pulls
  double window = 30'000;    // window of the users' frequency, in requests at the rate without any reuse
  double window_s = 0;       // the same window in seconds; above 0 it replaces `window`
  double item_gb = 0;        // most memory of each node for items; 0 = as much as the placement needs
  std::uint32_t batch_tokens = 4'000;
  // The run.
  double scale = 8;
  std::uint32_t in_flight = 8;  // requests per node
  double requests_per_s = 0;    // of all nodes, at Poisson times; 0 = `in_flight` all the time
  std::uint64_t warm_up = 4'000, measured = 4'000, seed = 1;
};

// Reads a JSON list of objects with the members above. Throws ImportError, which names the file, the
// experiment and the expected value.
std::vector<Experiment> read_experiments(const std::string& path);

struct PreparedExperiment {
  sim::SaturationOptions options;
  double replicated = 0, placed = 0;  // items on every node, and on any node; unscaled
  double item_gb = 0, user_gb = 0;    // of each node, unscaled
  // With groups only. `node_tokens`: tokens of the items on the fullest node, unscaled. `best_mean` and
  // `best_median`: share of a request's items on the node that has most of them, over requests that the
  // placement did not see.
  double node_tokens = 0, best_mean = 0, best_median = 0;
};
// Turns an experiment into a simulation. Throws std::invalid_argument for invalid options.
PreparedExperiment prepare(const Experiment& experiment);

}  // namespace troupe::deploy
