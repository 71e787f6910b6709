#pragma once
// An experiment of a paper as text: cluster, data set and policy of one figure, for `troupe sim
// --experiments`. Sizes are those of the paper; `scale` divides how much there is of everything (users,
// items, memory, the time until users return) but not how large each of it is, so that all shares stay as
// they are and a run needs so many times fewer requests until its caches are full.
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
  std::uint32_t devices =
      1;  // of each node, that share every layer (tensor parallelism), each with its host link
  double efficiency = 0;   // of the device; 0: the profile's
  double memory_gb = 150;  // of each node, for keys and values; 10^9
  // The data.
  double users = 510'000, items = 280'000;
  double user_tokens = 1'586, user_sigma = 0.6, user_tokens_max = 6'500;
  std::uint32_t item_tokens = 15, candidates = 100;
  // Who asks for what, when: deploy/TRACES.md, with the time counted in requests.
  double item_skew = 1, user_skew = 0, return_share = 0.5, return_after = 8'000, return_sigma = 1;
  // How active a user is, by his profile's length over the mean, to these powers: how often he is drawn for a
  // new visit, and how much sooner he returns.
  double drawn_by_length = 0, returns_by_length = 0;
  // Instead of candidates one by one, those of a group (grouped_requests.h), and each request of another
  // user.
  std::uint32_t group_items = 0;  // 0: none
  double group_share = 0.9, group_skew = 0.6, candidates_sigma = 0;
  // Prompts: the tokens that all begin with, and histories of whole events of so many tokens (0: as they
  // come), of which a share is among so many that repeat.
  std::uint32_t system_tokens = 4, event_tokens = 0, known_events = 0;
  double known_share = 0;
  // What is decided.
  std::string policy = "bat", placement = "hrcs";  // of groups: metis or hash
  std::uint32_t training = 10'000;                 // requests that metis goes by
  bool undivided = false;                          // users' and items' memory is one, whatever the policy
  double approximate = 0;  // the share of a prompt that the planner may answer approximately
  std::string routing = "earliest";
  double routing_alpha = 0.5;
  std::uint32_t routers = 0;  // 0: one on each node
  bool pulls_stall = true;    // as the paper's engine does: BAT-Hash spends 31 % of its latency so (§6.4)
  bool overlap = false;       // passes begin while blocks are pulled; not with pulls_stall
  double pull_share = 0.25;   // RouterConfig's; 0: what the link makes of it
  double alpha = 0.1;         // HRCS
  double window = 30'000;     // of the users' frequency, in requests at the rate of computing all anew
  double window_s = 0;        // or, where this is more than 0, in time
  double item_gb = 0;  // of each node's memory, for items at most; 0: as many as the placement puts there
  std::uint32_t batch_tokens = 4'000;
  // The run.
  double scale = 8;
  std::uint32_t in_flight = 8;  // requests per node
  double requests_per_s = 0;    // of all nodes, at Poisson times; 0: `in_flight` under way all the time
  std::uint64_t warm_up = 4'000, measured = 4'000, seed = 1;
};

// A JSON list of objects with the members above. Throws ImportError with the file, the experiment and what
// was expected.
std::vector<Experiment> read_experiments(const std::string& path);

struct PreparedExperiment {
  sim::SaturationOptions options;
  double replicated = 0, placed = 0;  // items on every node, on any; unscaled
  double item_gb = 0, user_gb = 0;    // of each node, unscaled
  // Of groups: items' tokens on the fullest node, unscaled; and of requests that the placement did not see,
  // the share of their items that the node with most of them has.
  double node_tokens = 0, best_mean = 0, best_median = 0;
};
// Throws std::invalid_argument for what makes no sense.
PreparedExperiment prepare(const Experiment& experiment);

}  // namespace troupe::deploy
