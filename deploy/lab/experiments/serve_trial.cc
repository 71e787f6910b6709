// Simulates a cluster that serves a request trace at its times. `troupe-lab plan --serve` uses it to
// find how many nodes a load needs.
#include "deploy/lab/experiments/serve_trial.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "deploy/data/device_option.h"
#include "deploy/data/request_trace.h"
#include "deploy/lab/experiments/declared_router.h"
#include "deploy/lab/traces/trace_users.h"
#include "placement/cost/device_profiles.h"
#include "placement/split/item_area.h"
#include "router/request/item_block.h"
#include "sim/runs/load.h"
#include "sim/world/world_data.h"

namespace troupe::deploy {

namespace {

constexpr Instant trace_begins{2'000'000};  // the cluster has formed by then
constexpr double frame_tokens = 9;          // tokens around profile and candidates
constexpr double least_seconds = 4;
constexpr std::uint32_t history_events_kept = 1'000;  // largest size of a simulated profile
constexpr double pages_most = 4e9;

std::uint64_t most_requests(const TrialOptions& options) {
  return options.requests > 0 ? options.requests : ~std::uint64_t{0};
}

// A trace with the world's names and times.
class RenamedTrace {
 public:
  RenamedTrace(const TrialOptions& options, std::shared_ptr<NumberedNames> items,
               std::shared_ptr<NumberedNames> tenants, Instant begin)
      : speed_(options.speed),
        left_(most_requests(options)),
        begin_(begin),
        items_(std::move(items)),
        tenants_(std::move(tenants)),
        reader_(options.trace) {}

  bool next(TracedRequest& request) {
    if (left_ == 0 || !reader_.next(request)) return false;
    --left_;
    const TraceUsers::Visit visit = users_.visit(reader_, request);
    const std::uint32_t tenant = tenants_->number_of(request.tenant);
    request.at = begin_ + Duration{reader_.due(request, speed_).us};
    request.tenant = tenant == 0 ? "" : "t" + std::to_string(tenant);
    request.user = sim::WorldData::user_id(visit.user);
    for (auto* ids : {&request.events, &request.candidates})
      for (std::string& id : *ids) id = sim::WorldData::item_id(items_->number_of(id));
    request.truth.clear();
    return true;
  }

 private:
  double speed_;
  std::uint64_t left_;
  Instant begin_;
  std::shared_ptr<NumberedNames> items_, tenants_;
  TraceReader reader_;
  TraceUsers users_;
};

double mean_tokens(const ServedTrace& trace, const TrialOptions& options) {
  return frame_tokens + (trace.candidates_mean() + trace.events_mean()) * options.item_tokens;
}

void set_nodes(const ServedTrace& trace, const TrialOptions& options, const NodeType& type,
               sim::Scenario& s) {
  s.hardware = {device_of(type.device), placement::find_shape(options.shape)};
  const placement::LinkProfile& link = placement::find_link(options.link);
  s.link.latency_min = s.link.latency_max = {std::max<std::int64_t>(1, std::llround(link.latency_us))};
  s.link.bytes_per_us = link.bandwidth * link.efficiency * 1e-6;
  const placement::CostModel cost(s.hardware->device, s.hardware->shape);
  const double tokens = mean_tokens(trace, options);
  s.us_per_token = cost.prefill_us(static_cast<std::uint64_t>(tokens), 0) / tokens;
  s.pull_share = std::min(1.0, cost.kv_token_bytes() / s.link.bytes_per_us / s.us_per_token);
  const double pages = static_cast<double>(options.memory_bytes) / (cost.kv_token_bytes() * s.page_tokens);
  const double least =
      trace.candidates_most() * std::ceil(static_cast<double>(options.item_tokens) / s.page_tokens);
  if (pages < least || pages > pages_most)
    throw std::invalid_argument("--memory is " + std::to_string(options.memory_bytes) + " bytes, " +
                                std::to_string(static_cast<std::uint64_t>(pages)) + " pages of " +
                                options.shape + "; expected " +
                                std::to_string(static_cast<std::uint64_t>(least)) +
                                " to 4,000,000,000 pages: at least one request's items");
  s.pages = static_cast<std::uint32_t>(pages);
}

// Sizes the item area as a node with pool.item_share: auto does. Requires that the routers are declared.
double auto_item_share(const TrialOptions& options, const sim::Scenario& s) {
  const auto pages_for = [&](std::uint32_t tokens) { return (tokens + s.page_tokens - 1) / s.page_tokens; };
  placement::ItemPages blocks{.shared = pages_for(s.system_tokens)};
  if (s.declared->precompute.blocks != router::ItemBlockKind::none)
    blocks.items = std::uint64_t{s.items} * pages_for(options.item_tokens);
  return placement::share_of_pages(placement::item_area_pages(placement::wanted_pages(blocks), s.pages),
                                   s.pages);
}

std::vector<std::string> arrangements_of(const TrialOptions& options) {
  std::vector<std::string> words;
  for (const auto word : std::views::split(options.arrangements, ','))
    words.emplace_back(word.begin(), word.end());
  return words;
}

void declare_router_for(const TrialOptions& options, sim::Scenario& s) {
  if (!router::find_policy(options.policy))
    throw std::invalid_argument("--policy is " + router::policy_fault_text(options.policy));
  const std::vector<std::string> arrangements = arrangements_of(options);
  Config config;
  config.router.policy = options.policy;
  config.pool.hot_share = 0.0;
  try {
    declare_router({.arrangements = arrangements, .interchangeable = arrangements}, config, s);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("--policy " + options.policy.substr(0, 40) + " with --arrangements " +
                                options.arrangements.substr(0, 80) + ": " + error.what());
  }
}

sim::Scenario scenario_for(const ServedTrace& trace, const TrialOptions& options, const NodeType& type,
                           std::uint32_t nodes) {
  sim::Scenario s;
  s.seed = options.seed;
  s.together = true;
  s.workers = s.routers = nodes;
  s.items = trace.items();
  s.users = trace.users();
  s.tenants = trace.tenants();
  s.candidates = trace.candidates_most();
  s.item_tokens = options.item_tokens;
  s.whole_catalogs = true;
  s.profiles.max =
      (std::min(trace.events_most(), history_events_kept) + trace.candidates_most()) * options.item_tokens;
  s.writes_share = 0;
  s.store = false;
  s.requests_per_s = static_cast<double>(trace.requests()) / trace.seconds();
  set_nodes(trace, options, type, s);
  declare_router_for(options, s);
  s.item_share = options.item_share.value_or(auto_item_share(options, s));
  return s;
}

CapacityTrial trial_of(const sim::LoadResult& result, std::uint32_t nodes) {
  const sim::LoadPhaseResult& judged = result.phases.back();
  CapacityTrial trial{.nodes = nodes, .p50_ms = judged.p50_ms, .p99_ms = judged.p99_ms};
  trial.token_hit_rate = result.token_hit_rate;
  trial.requests_per_s = judged.offered;
  double sent = 0, lost = 0;
  for (auto i = static_cast<std::size_t>(judged.from_s); i < result.seconds.size(); ++i) {
    sent += result.seconds[i].offered;
    lost += result.seconds[i].refused + result.seconds[i].expired;
  }
  trial.lost = sent > 0 ? lost / sent : 1;
  // Without an answer the percentile is NaN.
  if (!(trial.p99_ms >= 0)) trial.p99_ms = std::numeric_limits<double>::infinity();
  return trial;
}

}  // namespace

ServedTrace::ServedTrace(const TrialOptions& options)
    : options_(options),
      items_(std::make_shared<NumberedNames>()),
      tenants_(std::make_shared<NumberedNames>()) {
  TraceReader reader(options.trace);
  TraceUsers users;
  std::vector<std::uint32_t> events;
  Instant last;
  for (TracedRequest request; requests_ < most_requests(options) && reader.next(request); ++requests_) {
    if (request.generates)
      reader.fail("kind is generate", "only rankings, because the simulated cluster serves a ranker");
    const TraceUsers::Visit visit = users.visit(reader, request);
    if (visit.user == events.size()) events.push_back(0);
    events[visit.user] += static_cast<std::uint32_t>(request.events.size());
    events_ += std::min(events[visit.user], history_events_kept);
    events_most_ = std::max(events_most_, events[visit.user]);
    candidates_ += static_cast<double>(request.candidates.size());
    candidates_most_ = std::max(candidates_most_, static_cast<std::uint32_t>(request.candidates.size()));
    tenants_->number_of(request.tenant);
    for (const auto* ids : {&request.events, &request.candidates})
      for (const std::string& id : *ids) items_->number_of(id);
    last = reader.due(request, options.speed);
  }
  users_ = users.size();
  seconds_ = static_cast<double>(last.us) * 1e-6;
  if (requests_ == 0) reader.fail("there are no requests", "at least one");
  if (!options.all_judged && seconds_ < least_seconds)
    reader.fail("the requests take " + std::to_string(seconds_) + " s",
                "at least 4 s, because only the second half is judged (see --speed, --requests)");
}

TracedRequests ServedTrace::replay(Instant begin) const {
  const auto renamed = std::make_shared<RenamedTrace>(options_, items_, tenants_, begin);
  return [renamed](TracedRequest& request) { return renamed->next(request); };
}

CapacityTrial try_serving(const ServedTrace& trace, const TrialOptions& options, const NodeType& type,
                          std::uint32_t nodes) {
  const auto lasts = static_cast<std::int64_t>(std::ceil(trace.seconds()));
  sim::LoadOptions load;
  load.scenario = scenario_for(trace, options, type, nodes);
  load.phases = {{"before", {trace_begins.us}},
                 {"filling", {lasts / 2 * 1'000'000}},
                 {"judged", {(lasts - lasts / 2) * 1'000'000}}};
  load.requests = trace.replay(trace_begins);
  const sim::LoadResult result = sim::run_load(load);
  if (!result.violations.empty())
    throw std::logic_error("promise " + std::to_string(result.violations.front().promise) +
                           " is broken: " + result.violations.front().what);
  return trial_of(result, nodes);
}

double alone_ms(const ServedTrace& trace, const TrialOptions& options, const NodeType& type) {
  const placement::CostModel cost(device_of(type.device), placement::find_shape(options.shape));
  return cost.prefill_us(static_cast<std::uint64_t>(mean_tokens(trace, options)), 0) * 1e-3;
}

}  // namespace troupe::deploy
