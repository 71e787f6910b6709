#pragma once
// Parameters of one simulated run, drawn from its seed before it starts: topology, settings, load and
// faults. The same seed and limits give the same scenario. All other randomness comes from streams of the
// same seed, so (commit, seed) determines a run (promise 17).
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "placement/cost/cost_model.h"
#include "router/fleet/routing.h"
#include "router/precompute/current_assignment.h"
#include "router/request/policy.h"
#include "runtime/features/expiring_profiles.h"
#include "sim/host/sim_network.h"
#include "sim/scenario/faults.h"

namespace troupe::router {
struct RouterConfig;
}

namespace troupe::sim {

class ToyFamily;
struct DeploymentConfig;

// Device and model whose batch times come from the cost model.
struct Hardware {
  placement::DeviceProfile device;
  placement::ModelShape shape;
};

// Log-normal distribution of profile lengths in tokens, like a data set's, cut at `max`. Mean 0 = a few
// events, as the world draws them.
struct ProfileLengths {
  double mean = 0, sigma = 0;  // mean in tokens; sigma of the logarithm
  std::uint32_t max = 0;
  // Not 0: histories consist of whole events of `event_tokens` tokens, and the fraction `known_share` of
  // them is drawn from `known` events that occur in all histories.
  std::uint32_t event_tokens = 0, known = 0;
  double known_share = 0;
};

// Workers on which item blocks are precomputed: one after the other, all, one by hash, the hottest few on
// all and the others on one (BAT §6.4), or as `Scenario::places` lists them. automatic: by hash, and the
// routers decide which items are hot, as served clusters do (pool.placement: auto).
enum class ItemPlacement : std::uint8_t { any, replicate, hash, hot_and_cold, planned, automatic };

struct Scenario {
  std::uint64_t seed = 1;

  // Nodes 1..routers have a router and a client-facing server; then come the cache-metas, then the workers.
  // A worker node has a KV-cache worker, an inference worker and an allocator agent. `together`: there are
  // `workers` nodes with all roles; only the first `cache_metas` have a cache-meta.
  std::uint32_t routers = 1, cache_metas = 1, workers = 2;
  bool together = false;

  // Settings, within the ranges of the settings table. They have their defaults, except for the pool.
  std::uint32_t page_tokens = 4, pages = 512, slots = 1, queue_max = 1'024, batch_tokens_max = 4'096;
  std::uint32_t in_flight_max = 256;
  std::vector<double> tenant_weights;  // of the first tenants; the others have weight 1
  std::uint32_t tenants_max = 256;     // tenants that a router distinguishes
  Duration window{2'000}, turn{10'000};
  Duration batch_wait{0};  // waiting quota of a batch
  router::Routing routing;
  double item_share = 0.5;
  double row_share = 0;  // fraction of the pages for embedding rows if the tables are not in memory
  // embedding rows per page; 0 = tables are in memory and the pool has no row area
  std::uint32_t page_rows = 0;
  bool shards = false;  // the tables are spread over the workers' memory
  // Policy that sets the pool's split, by name (placement/baselines/experiment_split.h); "" = fixed.
  std::string split;
  Duration split_window{5'000'000};
  router::Policy policy = router::policy("bat");
  bool shared_areas = false;  // RouterConfig's
  double approximate = 0;     // largest approximate share that a planner may use if a request does not say
  Duration deadline{2'000'000}, heartbeat{200'000}, read_lease{5'000'000}, frequency_window{300'000'000};
  bool store = true, precompute = true;
  bool prototypes = false;  // the first model has prototypes; clients ask for plans that use them
  bool overlap = false;     // batches begin while blocks arrive from other nodes
  bool verify_on_read = false;
  double check_reads = 0.01;
  double verify_share = 0;  // share of answers that routers verify
  Duration scrub_interval{5'000'000};
  ItemPlacement placement = ItemPlacement::any;
  router::RefreshConfig refresh{.hot_share = 0};  // of the placement, while serving
  // number of hottest items on all workers (hot_and_cold); 0 = a twentieth of all
  std::uint32_t replicated = 0;
  std::uint32_t placed = 0;  // number of hottest items that are placed at all (hot_and_cold); 0 = all
  std::shared_ptr<const router::ItemAssignment> places;  // for ItemPlacement::planned

  // Null: data and configuration are drawn. Otherwise this configuration replaces the settings here, except
  // for pages, lanes, deadline and heartbeat, which both contain.
  std::shared_ptr<const DeploymentConfig> served;
  // Null: what routers decide is drawn. Otherwise the configuration of a node's router, with the form of its
  // prompts, replaces those settings here, except for policy, approximate, deadline and heartbeat, which both
  // contain. Peers, places, positions and vocabulary come from the simulated cluster, and costs and pulls
  // from its hardware. One router precomputes, as far as `precompute` is set.
  std::shared_ptr<const router::RouterConfig> declared;
  // Processors per node, if the hardware's host work is known; 0 = unlimited.
  std::uint32_t processors = 0;

  const ToyFamily* family = nullptr;  // of the models; null = the toy decoder
  // Number of models served at the same time from one pool. Each has a name and its own router and
  // inference worker on every node of that role. The other fields describe the first model; the others'
  // versions do not change.
  std::uint32_t models = 1;
  // True: the models are generators, and clients ask for items instead of rankings. Items have three tokens
  // out of few, so that some share an identifier; they are not written.
  bool generates = false;
  std::uint32_t history_part = 0;  // tokens per block of a generator's history; 0 = one block
  // True: each candidate's score is read behind its own tokens, as the prompt forms of text rankers say, and
  // not at a discriminant.
  bool scores_each = false;
  // Arrangements that the models' form declares. The default is that of a ranker trained for all.
  std::vector<Arrangement> arrangements = {Arrangement::item_first, Arrangement::user_first,
                                           Arrangement::causal, Arrangement::candidates_apart};
  std::vector<Arrangement> interchangeable = {Arrangement::item_first, Arrangement::user_first};
  bool lenient = false;  // some clients accept profiles that were read earlier
  ExpiryOptions expiry;  // of profiles, for those clients

  // The hardware.
  double us_per_token = 20;      // device time per newly computed token
  Duration batch_overhead{500};  // device time per batch
  SimNetwork::Link link;
  double pull_share = 0.25;          // routers' estimate of a pull's cost, as a share of computing the block
  std::optional<Hardware> hardware;  // replaces the two times above
  // With hardware: pages are in host memory, and the pages that a batch reuses are copied to the device at
  // this speed, overlapping the computation of earlier layers. 0 = pages are used in place.
  double host_bytes_per_us = 0;
  // With hardware: a batch stalls while blocks arrive from other nodes, as in an engine that fetches at the
  // start of a batch. False = pulls run beside other batches, as in Troupe.
  bool pulls_stall = false;

  // The data and the load.
  std::uint32_t items = 200, users = 40, tenants = 2, candidates = 10;
  double skew = 0.7;              // Zipf exponent of items and users
  std::uint32_t item_tokens = 0;  // per item; 0 = drawn for each
  std::uint32_t system_tokens = 4;
  ProfileLengths profiles;
  double requests_per_s = 40;
  double capacity_per_s = 100;  // approximate, without any reuse
  double writes_share = 0.02;   // share of requests that change a profile or an item
  bool whole_catalogs = false;  // every catalog version contains every item

  // Membership change: an additional worker joins, and one of the others leaves. 0 = no change. No fault
  // targets the joining worker.
  Duration joins_at, leaves_at;
  NodeId leaves = 0;
  bool changes_members() const { return joins_at.us > 0; }
  NodeId joiner() const { return nodes() + 1; }

  Duration warm_up{1'000'000};   // no faults, before the safety phase
  Duration safety{6'000'000};    // with faults
  Duration recovery{4'000'000};  // no faults; requests may still be refused
  Duration liveness{3'000'000};  // no faults; every request must succeed
  std::vector<Fault> faults;     // sorted by time
  bool drill = false;            // one kind of fault only, so that its own promise can be judged
  // Set before faults are left out, so that a shortened list is judged like the whole one.
  bool harmless = false;  // every request must be answered, even during the faults
  bool drifts = false;    // clocks run at different rates

  NodeId router(std::uint32_t i) const { return 1 + i; }
  NodeId cache_meta(std::uint32_t i) const { return together ? 1 + i : 1 + routers + i; }
  NodeId worker(std::uint32_t i) const { return together ? 1 + i : 1 + routers + cache_metas + i; }
  NodeId nodes() const { return together ? workers : routers + cache_metas + workers; }
  Duration total() const { return {warm_up.us + safety.us + recovery.us + liveness.us}; }
};

struct DrawLimits {
  std::optional<std::uint32_t> nodes;  // exact number of nodes
  std::optional<double> minutes;       // length of the safety phase
  std::vector<FaultKind> kinds;        // empty = all
  bool no_faults = false;
  bool members = false;  // a worker joins; if there are several worker-only nodes, one of them leaves
};

Scenario draw_scenario(std::uint64_t seed, const DrawLimits& limits = {});

// Returns a one-line summary for people: "seed 17: 2 routers, 1 cache-metas, 4 workers, …".
std::string describe(const Scenario& scenario);

}  // namespace troupe::sim
