#pragma once
// Takes a request of any kind from its receipt to its plan: admission, features, the index's answer
// and the choice of the plan. Other kinds than ranking skip the stages that they do not need
// (router/request/request.h). The index only says what is worth reusing. If it is silent or has no
// leader, the flight continues without it (promise 7). Attempts then runs the plan.
//
// An approximate plan that lacks the block of an item can make it, alone and with a repair, or compute the
// item exactly in its place and make none. The second is less work and exact. It is chosen where precomputing
// makes the missing block; otherwise requests would never find it.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "router/fleet/leader_view.h"
#include "router/flights/admission.h"
#include "router/flights/attempts.h"
#include "router/precompute/precompute.h"
#include "router/request/model_names.h"
#include "router/request/pull_cost.h"
#include "router/request/request.h"

namespace troupe::router {

class Planning {
 public:
  struct Config {
    // These three outlive this object.
    const PromptForm& form;
    const RequestLimits& limits;
    const placement::UnitCosts& costs;
    Policy policy;  // for requests that name none
    Budgets budgets;
    // minimum wait for the index; the wait is a tenth of the budget if that is more
    Duration lookup_wait_min{1'000};
  };
  // These belong to the router and must outlive this object.
  Planning(const Config& config, const Admission& admission, const VersionKeeper& versions,
           const ModelShare& share, const LeaderView& leader, const PullCost& pull_cost, ModelNames& names,
           Precompute& precompute, Flights& flights, Attempts& attempts);

  void on_request(Step step, Address from, const RequestKind& kind, Message&& request);
  // Returns false if the job does not read features. Otherwise moves from the result.
  bool on_done(Step step, std::uint64_t job, JobResult& result);
  void on_found(Step step, BlocksFound found);     // the index's answer
  void on_lookup_late(Step step, Flight& flight);  // no answer so far

  std::size_t feature_jobs() const { return feature_jobs_.size(); }        // including those of ended flights
  const std::string& catalog_version() const { return catalog_version_; }  // as last seen; "" = none

 private:
  std::vector<PlanOption> consider(Request& request, const PinnedVersions& pinned);
  void find_features(Step step, const Flight& flight, FindFeatures wanted);
  void on_features(Step step, Flight& flight, const Features& features);
  void on_no_features(Step step, Flight& flight, Refusal refusal);
  void plan(Step step, Flight& flight);
  void look_up(Step step, Flight& flight, NodeId leader);
  void compute_in_place(Step step, Flight& flight);
  void choose_plan(Step step, Flight& flight);

  Config config_;
  Admission admission_;
  const VersionKeeper& versions_;
  const ModelShare& share_;
  const LeaderView& leader_;
  const PullCost& pull_cost_;
  ModelNames& names_;
  Precompute& precompute_;
  Flights& flights_;
  Attempts& attempts_;
  std::map<std::uint64_t, Flight::Serial> feature_jobs_;  // running jobs
  std::string catalog_version_;
};

}  // namespace troupe::router
