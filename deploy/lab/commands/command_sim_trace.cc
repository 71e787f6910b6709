// `troupe-lab sim --trace`: replays a request trace at its times on a simulated cluster of a given
// size. The simulated world derives users and items from numbers, so the trace's users and items
// are numbered in order of appearance. The trace determines who requests what, how often, when and
// with which profile; the world determines how many tokens an item has.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

#include "deploy/lab/commands/command_sim.h"
#include "deploy/lab/traces/trace_users.h"
#include "deploy/reports/table.h"
#include "sim/world/world_data.h"

namespace troupe::deploy {

namespace {

constexpr std::int64_t begin_us = 2'000'000;  // time for the simulated cluster to connect
constexpr double prompt_tokens = 9;           // tokens besides profile and candidates

// Reads the trace once before the run, because the world needs its size.
struct TraceSurvey {
  NumberedNames items, tenants;
  std::uint64_t requests = 0, users = 0, generating = 0;
  double candidates = 0, events = 0;  // sums over the requests; events: of the profiles
  Instant last;                       // after the speed-up
};

TraceSurvey survey_trace(const SimCommandOptions& options) {
  TraceSurvey survey;
  TraceReader reader(options.trace);
  TraceUsers users;
  std::vector<std::uint64_t> events;
  const std::uint64_t most = options.requests > 0 ? options.requests : ~std::uint64_t{0};
  for (TracedRequest request; survey.requests < most && reader.next(request); ++survey.requests) {
    const TraceUsers::Visit visit = users.visit(reader, request);
    if (visit.user == events.size()) events.push_back(0);
    events[visit.user] += request.events.size();
    survey.events += static_cast<double>(events[visit.user]);
    survey.candidates += static_cast<double>(request.candidates.size());
    survey.generating += request.generates;
    survey.tenants.number_of(request.tenant);
    for (const std::string& item : request.events) survey.items.number_of(item);
    for (const std::string& item : request.candidates) survey.items.number_of(item);
    survey.last = reader.due(request, options.speed);
  }
  if (survey.requests == 0) reader.fail("there are no requests", "at least one");
  if (survey.generating > 0 && survey.generating < survey.requests)
    reader.fail(std::to_string(survey.generating) + " of " + std::to_string(survey.requests) +
                    " requests generate items",
                "all requests or none: the simulated cluster has one model");
  survey.users = users.size();
  return survey;
}

// Reads the trace again, with the world's names and times.
class RenumberedTrace {
 public:
  RenumberedTrace(const SimCommandOptions& options, std::shared_ptr<TraceSurvey> survey)
      : speed_(options.speed), survey_(std::move(survey)), reader_(options.trace) {}

  bool next(TracedRequest& request) {
    if (done_ == survey_->requests || !reader_.next(request)) return false;
    ++done_;
    const TraceUsers::Visit visit = users_.visit(reader_, request);
    const std::uint32_t tenant = survey_->tenants.number_of(request.tenant);
    request.at = {begin_us + reader_.due(request, speed_).us};
    request.tenant = tenant == 0 ? "" : "t" + std::to_string(tenant);
    request.user = sim::WorldData::user_id(visit.user);
    for (std::string& item : request.events) rename(item);
    for (std::string& item : request.candidates) rename(item);
    request.truth.clear();
    return true;
  }

 private:
  void rename(std::string& item) { item = sim::WorldData::item_id(survey_->items.number_of(item)); }

  double speed_;
  std::shared_ptr<TraceSurvey> survey_;
  TraceReader reader_;
  TraceUsers users_;
  std::uint64_t done_ = 0;
};

}  // namespace

int run_sim_trace(const SimCommandOptions& options) {
  const auto survey = std::make_shared<TraceSurvey>(survey_trace(options));
  const double requests = static_cast<double>(survey->requests);
  const double lasts_s = std::ceil(static_cast<double>(survey->last.us) * 1e-6 + 1e-6);
  Demand demand;
  demand.items = survey->items.size();
  demand.users = static_cast<std::uint32_t>(survey->users);
  demand.tenants = survey->tenants.size();
  demand.candidates = static_cast<std::uint32_t>(std::lround(survey->candidates / requests));
  demand.tokens_around = prompt_tokens + survey->events / requests * item_tokens_mean;
  sim::LoadOptions load;
  load.scenario = planning_scenario(options, demand);
  load.scenario.requests_per_s = requests / lasts_s;
  load.scenario.whole_catalogs = true;
  load.scenario.generates = survey->generating > 0;
  if (load.scenario.generates) load.scenario.item_tokens = 3;
  load.phases = {{"before", {begin_us}}, {"trace", {static_cast<std::int64_t>(lasts_s * 1e6)}}};
  const auto trace = std::make_shared<RenumberedTrace>(options, survey);
  load.requests = [trace](TracedRequest& request) { return trace->next(request); };
  std::ostream& out = options.json == "-" ? std::cerr : std::cout;
  out << survey->requests << " requests of " << survey->users << " users in " << fixed(lasts_s, 0) << " s\n";
  return run_planned(options, std::move(load));
}

}  // namespace troupe::deploy
