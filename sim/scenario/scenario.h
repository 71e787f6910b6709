#pragma once
// One run of the simulation, drawn from its seed before it starts: who is in the cluster, how the knobs
// stand, what the clients do, which faults happen when. The same seed and limits give the same scenario;
// everything else in the run is drawn from streams of the same seed, so (commit, seed) is the whole recipe
// (promise 17).
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "placement/cost/cost_model.h"
#include "router/fleet/routing.h"
#include "router/precompute/current_places.h"
#include "router/request/policy.h"
#include "runtime/features/expiring_profiles.h"
#include "sim/host/sim_network.h"
#include "sim/scenario/faults.h"

namespace troupe::sim {

class ToyFamily;
struct Served;

// A device and the model that it runs: their times come from the cost model.
struct Hardware {
  placement::DeviceProfile device;
  placement::ModelShape shape;
};

// Profiles as long as those of a data set: log-normal, cut at `max`. Mean 0: a few events, as the world draws
// them.
struct ProfileLengths {
  double mean = 0, sigma = 0;  // tokens; of their logarithm
  std::uint32_t max = 0;
  // Where this is not 0: of whole events of so many tokens, of which `known_share` are among `known` that
  // repeat in all histories.
  std::uint32_t event_tokens = 0, known = 0;
  double known_share = 0;
};

// Where item blocks are computed ahead: by one worker after the other, on all, on one by hash, the hottest
// few on all and the others on one (BAT §6.4), or as `Scenario::places` lists them.
enum class ItemPlacement : std::uint8_t { any, replicate, hash, hot_and_cold, planned };

struct Scenario {
  std::uint64_t seed = 1;

  // Nodes 1..routers have a router and a door; then follow the cache-metas; then the workers, each with a
  // KV-cache worker, an inference worker and an allocator agent. `together`: every node has all roles (the
  // first `cache_metas` of them a cache-meta), and there are `workers` nodes.
  std::uint32_t routers = 1, cache_metas = 1, workers = 2;
  bool together = false;

  // Knobs, inside the ranges of the knob table; their defaults, but for the pool.
  std::uint32_t page_tokens = 4, pages = 512, lanes = 1, queue_max = 1'024, batch_tokens_max = 4'096;
  std::uint32_t in_flight_max = 256;
  std::vector<double> tenant_weights;  // of the first tenants; the others have 1
  std::uint32_t tenants_max = 256;     // that routers tell apart
  Duration window{2'000}, turn{10'000};
  router::Routing routing;
  double item_share = 0.5;
  double row_share = 0;         // of the pages, for rows of embedding tables, where these are not in memory
  std::uint32_t page_rows = 0;  // that a page holds; 0: they are in memory, and the pool has no area for rows
  bool shards = false;          // these tables are spread over the workers' memory
  std::string
      split;  // how the pool's boundary is decided, by name (placement/split/split_choice.h); "": it stays
  Duration split_window{5'000'000};
  router::Policy policy = router::policy("bat");
  bool undivided = false;  // RouterConfig's
  double approximate = 0;  // that a planner may leave where a request does not say
  Duration deadline{2'000'000}, heartbeat{200'000}, read_lease{5'000'000}, frequency_window{300'000'000};
  bool store = true, precompute = true;
  bool prototypes = false;  // the first model has some; clients ask for plans that use them
  bool overlap = false;     // plans begin while blocks come from other nodes
  bool verify_on_read = false;
  double check_reads = 0.01;
  Duration scrub_interval{5'000'000};
  ItemPlacement placement = ItemPlacement::any;
  router::RefreshConfig refresh{.hot_share = 0};  // of the placement, while serving
  std::uint32_t replicated = 0;  // of the hottest items, with hot_and_cold; 0: a twentieth of all
  std::uint32_t placed = 0;      // the hottest ones, with hot_and_cold: the others are nowhere; 0: all
  std::shared_ptr<const router::ItemPlaces> places;  // with planned

  // Null: data and configuration are drawn. Else what stands there is in force, whatever the knobs here say,
  // but for pages, lanes, the deadline and the heartbeat, which are there as well.
  std::shared_ptr<const Served> served;
  std::uint32_t processors =
      0;  // of each node, with hardware whose host work is known; 0: as many as it takes

  const ToyFamily* family = nullptr;  // of the models; null: the toy decoder
  // Served at once, each by its name with a router and an inference worker of its own on every node of that
  // role, out of one pool. The first one is what the rest here speaks of; the others' versions do not change.
  std::uint32_t models = 1;
  // The models are generators, and clients ask for items instead of rankings. Items have three tokens of few,
  // so that some share an identifier, and are not written.
  bool generates = false;
  std::uint32_t history_part = 0;  // of a generator's history, in tokens; 0: it is one block
  bool lenient = false;            // some clients take profiles that were read before
  ExpiryOptions expiry;            // of those

  // The hardware.
  double us_per_token = 20;      // of a device, newly computed
  Duration batch_overhead{500};  // of a device, per batch
  SimNetwork::Link link;
  double pull_share = 0.25;          // what routers take a pull for, as a share of computing the block
  std::optional<Hardware> hardware;  // instead of the two times above
  // With hardware: pages lie in host memory, and what a batch reuses comes to the device at this speed, each
  // layer's while those before it are computed. 0: they lie where they are used.
  double host_bytes_per_us = 0;
  // With hardware: a batch stands still while what it reuses from other nodes comes over the link, as in an
  // engine that fetches at the start of a pass. False: pulls go on beside other batches, as Troupe's do.
  bool pulls_stall = false;

  // The data and the load.
  std::uint32_t items = 200, users = 40, tenants = 2, candidates = 10;
  double skew = 0.7;              // Zipf exponent of items and users
  std::uint32_t item_tokens = 0;  // of every item; 0: drawn for each
  std::uint32_t system_tokens = 4;
  bool blocks_see_system = false;  // those that stand anywhere: what is computed ahead serves them
  ProfileLengths profiles;
  double requests_per_s = 40;
  double capacity_per_s = 100;  // about, without any reuse
  double writes_share = 0.02;   // of the requests, that change a profile or an item
  bool whole_catalogs = false;  // every catalog version has every item

  // Who is a member changes: a worker beside those above joins, and one of those leaves; 0: none does. The
  // joiner is no fault's.
  Duration joins_at, leaves_at;
  NodeId leaves = 0;
  bool changes_members() const { return joins_at.us > 0; }
  NodeId joiner() const { return nodes() + 1; }

  Duration warm_up{1'000'000};   // without faults, before the safety phase
  Duration safety{6'000'000};    // with faults
  Duration recovery{4'000'000};  // without faults; nothing is asked of it
  Duration liveness{3'000'000};  // without faults; everything must succeed
  std::vector<Fault> faults;     // in order of time
  bool drill = false;            // one kind of fault only, so that its own promise can be judged
  // Fixed before faults are left out, so that a shorter list is judged as the whole one.
  bool harmless = false;  // every request has to be answered, also while the faults last
  bool drifts = false;    // clocks run at different rates

  NodeId router(std::uint32_t i) const { return 1 + i; }
  NodeId cache_meta(std::uint32_t i) const { return together ? 1 + i : 1 + routers + i; }
  NodeId worker(std::uint32_t i) const { return together ? 1 + i : 1 + routers + cache_metas + i; }
  NodeId nodes() const { return together ? workers : routers + cache_metas + workers; }
  Duration total() const { return {warm_up.us + safety.us + recovery.us + liveness.us}; }
};

struct DrawLimits {
  std::optional<std::uint32_t> nodes;  // exactly so many
  std::optional<double> minutes;       // of the safety phase
  std::vector<FaultKind> kinds;        // empty: all
  bool no_faults = false;
  bool members = false;  // a worker joins; where there are several that are nothing else, one of those leaves
};

Scenario draw_scenario(std::uint64_t seed, const DrawLimits& limits = {});

// "seed 17: 2 routers, 1 cache-meta, 4 workers, …": what a person wants to know of it.
std::string describe(const Scenario& scenario);

}  // namespace troupe::sim
