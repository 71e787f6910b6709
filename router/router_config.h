#pragma once
// Configuration of the router. The parts of the router take from it what they need.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "placement/cost/work.h"
#include "router/fleet/feature_watch.h"
#include "router/fleet/routing.h"
#include "router/precompute/item_assignment.h"
#include "router/precompute/precompute.h"
#include "router/recompute/answer_verifier.h"
#include "router/recompute/replays.h"
#include "router/request/policy.h"
#include "router/request/request_check.h"
#include "router/tenants/tenants.h"
#include "runtime/actor/core.h"
#include "runtime/actor/prompt_form.h"
#include "runtime/coordination/members.h"

namespace troupe::router {

// Writes that a router gives to its store at a time. Each takes an executor slot while the disk syncs.
inline constexpr std::uint32_t router_writes_at_once = 16;

struct RouterConfig {
  NodeId node = 1;
  Incarnation incarnation = 1;  // first id of its requests and jobs
  std::vector<NodeId> cache_metas{1};
  std::vector<NodeId> workers{1};  // nodes of the cluster file with an inference worker and a KV-cache worker
  ReadMembers members;             // nodes that had joined and left when this process began
  Duration members_every{0};       // period for reading `members` anew; 0 = never
  // report to workers which requests of their users ran elsewhere; needed when a worker splits its
  // areas by demand
  bool reports_uses_elsewhere = true;
  std::vector<NodeId> routers;  // other routers of the cluster file
  bool has_worker = false;      // this process also has the worker of its node, like the next
  bool has_cache_meta = false;  // and the cache-meta
  bool joined = false;          // this node is not in the cluster file, so it announces itself to the workers
  bool coordinate = false;      // a Coordination answers behind the port; false = the versions never change
  std::string model_version;    // initial model; "" = that of `names`
  std::string catalog_version;  // initial catalog; "" = the port's current one
  PromptForm form;
  NameContext names;
  Policy policy = router::policy("planner");  // for requests that name none
  bool shared_areas = false;  // treat both memory areas as one for the plans of every policy, not only where
                              // its displacement is `hotter`
  RequestLimits limits;
  // ranking, generation, completion and score requests; more are refused
  std::uint32_t in_flight_max = 256;
  std::uint32_t writes_in_flight_max = 256;  // writes of stored data, and as many reads; more are refused
  std::uint32_t writes_at_once = router_writes_at_once;  // with the store; the others wait
  TenantsConfig tenants;
  Duration window{2'000};    // unanswered work allowed at a worker, per executor slot; see WorkerTableConfig
  Routing routing;           // rule that chooses a worker
  Duration quantum{10'000};  // work that a tenant of weight 1 may send per round at a worker
  Duration budget{2'000'000};  // for requests that name none
  Duration budget_max{10'000'000};
  Duration reload_budget{120'000'000};
  // minimum wait for the index; the wait is a tenth of the budget if that is more
  Duration lookup_wait_min{1'000};
  Duration heartbeat{200'000};
  std::uint32_t attempts_max = 2;  // per request
  double retry_share = 0.1;        // retries earned per admitted request
  double retry_burst = 50;         // enough for the requests that one lost worker may leave behind
  placement::UnitCosts costs;      // cost model of the served model
  placement::Pace pace{.us_per_operation = 20};  // of a worker that has not reported its own
  double pull_share = 0.25;  // time to pull a block as a fraction of the time to compute it; 1 = never pull
  // pull_share is only the initial value; requests then measure it (pull_cost.h)
  bool measures_pulls = true;
  // pace of computing blocks, for comparison with pulls; unknown = the worker's overall pace
  placement::Pace block_pace{};
  // Requests that are remembered after their outcome, so that late copies are ignored. It should
  // cover the requests of one deadline.
  std::size_t recent_max = 65'536;
  std::size_t suspects_max = 1'024;
  FeatureWatchConfig features;
  PrecomputeConfig precompute;
  VerifyConfig verify;
  ReplayConfig replay;
  std::shared_ptr<const ItemAssignment>
      places;                     // item assignment; null = blocks go to any node with capacity
  std::string placement = "any";  // name of that assignment, for observers
};

}  // namespace troupe::router
