// Draws a scenario from a seed: cluster, settings, load and faults. It also fits the load to what
// the drawn cluster can serve, so that refusals have a reason.
#include "sim/scenario/scenario.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kernels/base/check.h"
#include "placement/cost/device_profiles.h"
#include "router/request/allowed_plans.h"
#include "runtime/config/settings.h"
#include "sim/base/random.h"

namespace troupe::sim {
namespace {

double real(RandomStream& random, double low, double high) { return low + (high - low) * unit(random); }
std::int64_t between(RandomStream& random, std::int64_t low, std::int64_t high) {  // both ends included
  return random.between({low}, {high}).us;
}

// Draws log-uniformly from [low, high], which must lie inside the setting's own range.
std::int64_t draw_setting(RandomStream& random, std::string_view name, std::int64_t low, std::int64_t high) {
  const Setting* setting = find_setting(name);
  TROUPE_CHECK(setting, "the setting must be in the table");
  const double value =
      std::exp(real(random, std::log(static_cast<double>(low)), std::log(static_cast<double>(high) + 0.999)));
  const auto drawn = std::clamp(static_cast<std::int64_t>(value), low, high);
  const std::string unit = setting->kind == SettingKind::duration ? "us" : "";
  TROUPE_CHECK(std::holds_alternative<SettingValue>(parse_setting(*setting, std::to_string(drawn) + unit)),
               "the simulation must draw inside the setting's range");
  return drawn;
}

void draw_topology(RandomStream& random, const DrawLimits& limits, Scenario& s) {
  s.together = chance(random, s.drill ? 0.1 : 0.25);
  s.routers = 1 + static_cast<std::uint32_t>(random.below(3));
  s.cache_metas = 1 + static_cast<std::uint32_t>(random.below(2));
  s.workers = s.drill ? 3 + static_cast<std::uint32_t>(random.below(4))
                      : 1 + static_cast<std::uint32_t>(random.below(6));
  if (limits.nodes) {
    const std::uint32_t nodes = std::max(1U, *limits.nodes);
    if (nodes < 4) s.together = true;
    s.routers = std::max(1U, std::min(s.routers + nodes / 64, nodes / 3));
    s.cache_metas = std::max(1U, std::min(s.cache_metas, nodes / 3));
    s.workers = s.together ? nodes : nodes - s.routers - s.cache_metas;
  }
  if (s.together) s.routers = s.workers;
  s.cache_metas = std::min(s.cache_metas, s.together ? s.workers : s.cache_metas);
}

void draw_knobs(RandomStream& random, Scenario& s) {
  s.page_tokens = static_cast<std::uint32_t>(draw_setting(random, "pool.page_tokens", 1, 16));
  s.slots = static_cast<std::uint32_t>(draw_setting(random, "inference.executors", 1, 4));
  s.queue_max = static_cast<std::uint32_t>(draw_setting(random, "inference.queue_max", 8, 256));
  s.batch_tokens_max =
      static_cast<std::uint32_t>(draw_setting(random, "inference.batch_tokens_max", 64, 4096));
  s.in_flight_max =
      static_cast<std::uint32_t>(draw_setting(random, "router.requests_in_flight_max", 32, 512));
  s.deadline = {draw_setting(random, "router.deadline", 400'000, 2'000'000)};
  s.frequency_window = {draw_setting(random, "router.frequency_window", 2'000'000, 30'000'000)};
  s.item_share = real(random, 0.2, 0.8);
  const char* policies[] = {"recompute", "user", "item", "bat", "planner"};
  s.policy = router::policy(policies[random.below(std::size(policies))]);
  s.store = chance(random, 0.8);
  s.precompute = chance(random, 0.5);
  s.read_lease = {chance(random, 0.5) ? 5'000'000 : 300'000};
}

void draw_hardware(RandomStream& random, Scenario& s) {
  constexpr std::string_view devices[] = {"A100-40G", "A100-80G", "H20", "H100", "H200", "4090D"};
  constexpr std::string_view shapes[] = {"qwen2-1.5b", "llama3-1b", "qwen3-0.6b", "qwen3-1.7b"};
  s.hardware = {placement::find_device(devices[random.below(std::size(devices))]),
                placement::find_shape(shapes[random.below(std::size(shapes))])};
  const placement::CostModel cost(s.hardware->device, s.hardware->shape);
  s.batch_overhead = {static_cast<std::int64_t>(cost.prefill_us(1, 0))};
  s.us_per_token = (cost.prefill_us(200, 0) - cost.prefill_us(1, 0)) / 199;
}

// The pool holds only a part of all users and items, so that blocks are evicted.
void draw_load(RandomStream& random, Scenario& s) {
  s.items = 20 + static_cast<std::uint32_t>(random.below(300));
  s.users = 4 + static_cast<std::uint32_t>(random.below(80));
  s.tenants = 1 + static_cast<std::uint32_t>(random.below(3));
  s.candidates = 2 + static_cast<std::uint32_t>(random.below(14));
  s.skew = real(random, 0.3, 1.1);
  s.writes_share = chance(random, 0.5) ? real(random, 0.0, 0.1) : 0;
  const double tokens = s.items * 6.0 + s.users * s.tenants * 24.0;
  s.pages = static_cast<std::uint32_t>(std::max(32.0, real(random, 0.1, 1.2) * tokens / s.page_tokens));
  s.us_per_token = real(random, 5, 60);
  s.batch_overhead = {between(random, 100, 3'000)};
  if (chance(random, 0.3)) draw_hardware(random, s);
  s.link.latency_min = {between(random, 20, 200)};
  s.link.latency_max = {s.link.latency_min.us + between(random, 10, 2'000)};
  s.link.bytes_per_us = std::exp(real(random, std::log(125.0), std::log(12'500.0)));
  const double request_us =
      (s.candidates * 6 + 30) * s.us_per_token + static_cast<double>(s.batch_overhead.us);
  s.capacity_per_s = 1e6 * s.workers * s.slots / request_us;
  s.requests_per_s = std::clamp(real(random, 0.05, 0.6) * s.capacity_per_s, 5.0, 120.0);
}

// Draws from its own stream, so that the seed's other draws stay the same.
void draw_checks(std::uint64_t seed, Scenario& s) {
  RandomStream random(seed, 0xc4ec);
  s.verify_on_read = chance(random, 0.2);
  s.check_reads = chance(random, 0.5) ? 0 : real(random, 0.0, 0.1);
  s.scrub_interval = {draw_setting(random, "pool.scrub_interval", 1'000'000, 8'000'000)};
}

void draw_verification(std::uint64_t seed, Scenario& s) {
  RandomStream random(seed, 0x7e41f1);
  if (chance(random, 0.5)) s.verify_share = chance(random, 0.3) ? 1 : real(random, 0.01, 0.5);
}

void draw_shares(std::uint64_t seed, Scenario& s) {
  RandomStream random(seed, 0x7e4a47);
  for (std::uint32_t i = 0; i < s.tenants; ++i)
    s.tenant_weights.push_back(chance(random, 0.5) ? 1
                                                   : std::exp(real(random, std::log(0.25), std::log(4.0))));
  if (chance(random, 0.2)) s.tenants_max = 1, s.tenant_weights.resize(1);
  s.window = {draw_setting(random, "router.window", 1'000, 30'000)};
  s.turn = {draw_setting(random, "router.quantum", 1'000, 30'000)};
}

void draw_waiting(std::uint64_t seed, Scenario& s) {
  RandomStream random(seed, 0xba7c4);
  if (chance(random, 0.25)) s.batch_wait = {draw_setting(random, "inference.batch_wait", 1'000, 30'000)};
}

// User and item blocks keep their relative shares of the remaining pages.
void draw_rows(std::uint64_t seed, Scenario& s) {
  RandomStream random(seed, 0x4055);
  if (chance(random, 0.75)) return;
  s.page_rows = 1 + static_cast<std::uint32_t>(random.below(12));
  s.row_share = real(random, 0.0, 0.4);
  s.item_share *= 1 - s.row_share;
  s.shards = chance(random, 0.5);
}

void draw_split(std::uint64_t seed, Scenario& s) {
  RandomStream random(seed, 0x5917);
  if (chance(random, 0.6)) return;
  constexpr const char* splits[] = {"marginal", "marginal", "marginal", "pid", "bayes", "static:0.3"};
  s.split = splits[random.below(std::size(splits))];
  s.split_window = {draw_setting(random, "pool.split_window", 200'000, 2'000'000)};
}

void draw_routing(std::uint64_t seed, Scenario& s) {
  RandomStream random(seed, 0x407e);
  if (chance(random, 0.7)) return;
  s.routing = {static_cast<router::Routing::By>(random.below(router::routing_names().size())),
               real(random, 0.0, 1.0)};
}

void draw_overlap(std::uint64_t seed, Scenario& s) {
  RandomStream random(seed, 0x0e41a9);
  s.overlap = chance(random, 0.4);
}

void draw_approximation(std::uint64_t seed, Scenario& s) {
  RandomStream random(seed, 0xa990);
  if (chance(random, 0.2)) s.approximate = real(random, 0.05, 0.9);
  s.prototypes = chance(random, 0.4);
}

void draw_placement(std::uint64_t seed, Scenario& s) {
  RandomStream random(seed, 0x91ace);
  constexpr ItemPlacement others[] = {ItemPlacement::replicate, ItemPlacement::hash,
                                      ItemPlacement::hot_and_cold};
  if (chance(random, 0.5)) s.placement = others[random.below(std::size(others))];
  if (s.placement == ItemPlacement::any || chance(random, 0.3)) return;
  s.refresh.window = static_cast<std::uint32_t>(between(random, 64, 2'048));
  s.refresh.hot_share = real(random, 0.005, 0.1);
  s.refresh.away_after = {between(random, 1'000'000, 4'000'000)};
}

// Has a stream of its own, so that other draws do not depend on it.
void draw_automatic_placement(std::uint64_t seed, Scenario& s) {
  RandomStream random(seed, 0xa070);
  if (s.placement != ItemPlacement::hash || chance(random, 0.3)) return;
  s.placement = ItemPlacement::automatic;
  s.refresh.replication = {.on = true, .alpha = real(random, 0.01, 0.5)};
  s.refresh.window = static_cast<std::uint32_t>(between(random, 256, 4'096));
  if (s.refresh.hot_share == 0) s.refresh.away_after = {between(random, 1'000'000, 4'000'000)};
}

bool has(const Scenario& s, FaultNeeds needs) {
  switch (needs) {
    case FaultNeeds::nothing:
      return true;
    case FaultNeeds::two_nodes:
      return s.nodes() >= 2;
    case FaultNeeds::three_nodes:
      return s.nodes() >= 3;
    case FaultNeeds::two_workers:
      return s.workers >= 2;
    case FaultNeeds::two_cache_metas:
      return s.cache_metas >= 2;
    case FaultNeeds::disk:
      return s.store;
  }
  return false;
}

NodeId draw_node(RandomStream& random, NodeId nodes) { return 1 + static_cast<NodeId>(random.below(nodes)); }
NodeId draw_router(RandomStream& random, const Scenario& s) {
  return s.router(static_cast<std::uint32_t>(random.below(s.routers)));
}

void draw_target(RandomStream& random, const Scenario& s, Fault& fault) {
  const FaultTarget place = traits_of(fault.kind).place;
  switch (place) {
    case FaultTarget::node:
      fault.node = draw_node(random, s.nodes());
      break;
    case FaultTarget::pair:
      fault.node = draw_node(random, s.nodes());
      fault.peer = draw_node(random, s.nodes());
      break;
    case FaultTarget::links:
    case FaultTarget::coordination_client:
      if (chance(random, 0.5)) break;
      fault.node = draw_node(
          random, place == FaultTarget::links || s.together ? s.nodes() : s.routers + s.cache_metas);
      break;
    case FaultTarget::worker:
      fault.node = s.worker(static_cast<std::uint32_t>(random.below(s.workers)));
      break;
    case FaultTarget::router:
      fault.node = draw_router(random, s);
      break;
    case FaultTarget::leader:
      fault.peer = draw_router(random, s);
      break;
    case FaultTarget::everywhere:
      break;
  }
}

Fault draw_fault(RandomStream& random, const Scenario& s, FaultKind kind) {
  Fault fault{.kind = kind};
  fault.at = {s.warm_up.us + between(random, 0, s.safety.us * 3 / 4)};
  const std::int64_t longest = s.warm_up.us + s.safety.us - fault.at.us;
  fault.lasts = {std::min(
      longest, chance(random, 0.3) ? between(random, 20'000, 200'000) : between(random, 200'000, 2'500'000))};
  draw_target(random, s, fault);
  if (traits_of(kind).lasts == FaultDuration::past_lease)
    fault.lasts = {std::min(longest, between(random, 10, 16) * s.heartbeat.us)};
  fault.intensity = real(random, 0.05, 1.0);
  return fault;
}

// True if a cluster that can lose a worker answers every request during these faults.
bool all_harmless(const Scenario& s) {
  if (!s.drill || s.together || s.workers < 3 || s.deadline.us < 1'600'000) return false;
  return std::ranges::all_of(s.faults, [&](const Fault& fault) {
    const FaultHarm harm = traits_of(fault.kind).harm;
    const bool at_router = fault.node >= 1 && fault.node <= s.routers;
    return harm == FaultHarm::harmless || (harm == FaultHarm::at_router && !at_router);
  });
}

std::vector<FaultKind> kinds_for(const DrawLimits& limits, const Scenario& s) {
  std::vector<FaultKind> kinds;
  for (std::size_t i = 0; i < fault_kinds; ++i) {
    const auto kind = static_cast<FaultKind>(i);
    const bool asked = limits.kinds.empty() || std::ranges::count(limits.kinds, kind) > 0;
    if (asked && has(s, traits_of(kind).needs)) kinds.push_back(kind);
  }
  return kinds;
}

// Several kinds of faults at the same time.
void draw_storm(RandomStream& random, const std::vector<FaultKind>& kinds, Scenario& s) {
  std::vector<FaultKind> chosen;
  for (std::uint64_t i = 2 + random.below(6); i > 0; --i) chosen.push_back(kinds[random.below(kinds.size())]);
  const double tenth_minutes = static_cast<double>(s.safety.us) / 6e6;
  const auto total =
      static_cast<std::size_t>(static_cast<double>(4 + random.below(14)) * std::max(1.0, tenth_minutes));
  for (std::size_t i = 0; i < total; ++i)
    s.faults.push_back(draw_fault(random, s, chosen[i % chosen.size()]));
  std::ranges::stable_sort(s.faults, {}, [](const Fault& fault) { return fault.at.us; });
}

// One kind of fault, repeated, each with time to recover.
void draw_drill(RandomStream& random, FaultKind kind, Scenario& s) {
  const std::int64_t rest = 12 * s.heartbeat.us, end = s.warm_up.us + s.safety.us;
  for (std::int64_t at = s.warm_up.us + 1'000; at < end;) {
    Fault fault = draw_fault(random, s, kind);
    fault.at = {at + between(random, 0, 300'000)};
    const FaultDuration lasts = traits_of(kind).lasts;
    if (lasts == FaultDuration::whole_phase) fault.lasts = s.safety;
    if (lasts == FaultDuration::several_requests) fault.lasts = {4 * (s.deadline.us + 4 * s.heartbeat.us)};
    fault.lasts = {std::min(fault.lasts.us, end - fault.at.us)};
    at = fault.at.us + fault.lasts.us + rest;
    if (fault.lasts.us > 0) s.faults.push_back(fault);
  }
}

void draw_faults(RandomStream& random, const DrawLimits& limits, Scenario& s) {
  const std::vector<FaultKind> kinds = kinds_for(limits, s);
  if (kinds.empty() || limits.no_faults) return;
  if (s.drill) return draw_drill(random, kinds[random.below(kinds.size())], s);
  draw_storm(random, kinds, s);
}

bool has(const Scenario& s, FaultKind kind) {
  return std::ranges::any_of(s.faults, [&](const Fault& fault) { return fault.kind == kind; });
}

// Slows the devices down until the cluster's capacity is at most `capacity_max`, and sets the load to this
// share of it.
void slow_down(Scenario& s, double capacity_max, double share) {
  if (s.capacity_per_s > capacity_max) {
    const double slower = s.capacity_per_s / capacity_max;
    s.hardware.reset();
    s.us_per_token *= slower;
    s.batch_overhead.us = static_cast<std::int64_t>(static_cast<double>(s.batch_overhead.us) * slower);
    s.capacity_per_s = capacity_max;
  }
  s.requests_per_s = share * s.capacity_per_s;
  const double request_us = 1e6 * s.workers * s.slots / s.capacity_per_s;  // of one request, alone
  s.deadline.us = std::max(s.deadline.us, static_cast<std::int64_t>(15 * request_us));
}

// An overload must exceed the cluster's capacity but stay small enough to simulate. A drained process must
// have waiting plans.
void fit_load(Scenario& s) {
  if (has(s, FaultKind::overload)) return slow_down(s, 150, 0.4);
  if (s.drill && has(s, FaultKind::drain)) slow_down(s, 150, 0.5);
}

// If every request must be answered, routers need capacity for requests that wait until a dead process is
// detected and then for an answer of the index. Twice the mean, since arrivals are random.
void fit_bounds(Scenario& s) {
  const std::int64_t wait_us = 3 * s.heartbeat.us + s.deadline.us / 10;
  const double waiting = s.requests_per_s * static_cast<double>(wait_us) * 1e-6;
  s.in_flight_max = std::max(s.in_flight_max, static_cast<std::uint32_t>(2 * waiting));
}

// Expiries are short, so that they pass within a run. Sometimes the profile cache holds only a few
// profiles.
void draw_expiry(std::uint64_t seed, Scenario& s) {
  RandomStream random(seed, 0xe8914e5);
  s.lenient = true;
  s.expiry.expiry = {between(random, 50'000, 4'000'000)};
  s.expiry.stale_for = {between(random, 0, 4'000'000)};
  s.expiry.unknown_expiry = {between(random, 1'000, 1'000'000)};
  s.expiry.jitter = 0.9 * unit(random);
  s.expiry.bytes_max = chance(random, 0.3) ? std::size_t{16} << 10 : std::size_t{4} << 20;
  s.expiry.buckets = 1 + static_cast<std::uint32_t>(random.below(4));
}

}  // namespace

void draw_kind(std::uint64_t seed, Scenario& s) {
  RandomStream random(seed, 0x9e4e7a7e);
  s.generates = chance(random, 0.15);
  if (!s.generates) return;
  s.item_tokens = 3;
  if (chance(random, 0.8))
    s.history_part = static_cast<std::uint32_t>(draw_setting(random, "router.history_part", 1, 32));
  // A prompt and the rows of a medium-width beam search replace the candidates.
  const double ranking_us = 1e6 * s.workers * s.slots / s.capacity_per_s;
  const double request_us = 150 * s.us_per_token + static_cast<double>(s.batch_overhead.us);
  s.capacity_per_s *= ranking_us / request_us;
  s.requests_per_s = std::max(5.0, s.requests_per_s * std::min(1.0, ranking_us / request_us));
}

namespace {

// Not if the first model has features that the others lack.
void draw_models(std::uint64_t seed, Scenario& s) {
  RandomStream random(seed, 0x5e7e4a15);
  if (s.generates || s.prototypes || s.page_rows > 0 || chance(random, 0.6)) return;
  s.models = 2 + static_cast<std::uint32_t>(random.below(2));
}

// Draws what the form of a ranker declares, and how it reads scores. A policy that may not serve it becomes
// the planner.
void draw_arrangements(std::uint64_t seed, Scenario& s) {
  using enum Arrangement;
  RandomStream random(seed, 0xa44a);
  struct Declared {
    std::vector<Arrangement> arrangements, interchangeable;
  };
  static const Declared kinds[] = {
      {{causal}, {}},
      {{candidates_apart}, {}},
      {{causal, item_first, user_first}, {}},
      {{user_first, causal, candidates_apart}, {}},
      {{item_first, causal, user_first}, {item_first, causal, user_first}},
      {{causal, candidates_apart}, {causal, candidates_apart}},
  };
  static const Declared prefixes_behind_each[] = {
      {{item_first, user_first, causal}, {item_first, user_first}},
      {{causal, item_first, user_first}, {}},
      {{user_first, item_first}, {user_first, item_first}},
  };
  static const Declared behind_each[] = {
      {{candidates_apart}, {}},
      {{causal}, {}},
      {{candidates_apart, causal}, {}},
      {{causal, candidates_apart}, {}},
      {{causal, candidates_apart}, {causal, candidates_apart}},
  };
  if (s.generates || chance(random, 0.5)) return;
  const Declared* drawn = &kinds[random.below(std::size(kinds))];
  s.scores_each = chance(random, 0.3);
  if (s.scores_each) drawn = &behind_each[random.below(std::size(behind_each))];
  if (s.scores_each && chance(random, 0.3))  // drawn last, so that the draws before do not depend on it
    drawn = &prefixes_behind_each[random.below(std::size(prefixes_behind_each))];
  s.arrangements = drawn->arrangements;
  s.interchangeable = drawn->interchangeable;
  PromptForm form;
  (s.scores_each ? form.score : form.discriminant) = {0};
  form.arrangements = s.arrangements;
  form.interchangeable = s.interchangeable;
  if (!router::why_not_usual(s.policy, form).empty()) s.policy = router::policy("planner");
}

// Draws from its own stream, last: the run is otherwise the same.
void draw_members(std::uint64_t seed, Scenario& s) {
  RandomStream random(seed, 0x3e3b);
  s.joins_at = {s.warm_up.us / 2 + between(random, 0, s.safety.us / 4)};
  s.leaves_at = {s.joins_at.us + between(random, 1'000'000, 1'500'000)};
  if (s.together || s.workers < 2) return;
  s.leaves = s.worker(static_cast<std::uint32_t>(random.below(s.workers)));
}

}  // namespace

Scenario draw_scenario(std::uint64_t seed, const DrawLimits& limits) {
  RandomStream random(seed, 0x5ce7a510);
  Scenario s;
  s.seed = seed;
  s.drill = chance(random, 0.4);
  draw_topology(random, limits, s);
  draw_knobs(random, s);
  if (s.drill) s.deadline = {draw_setting(random, "router.deadline", 1'600'000, 3'000'000)};
  draw_load(random, s);
  draw_rows(seed, s);
  draw_split(seed, s);
  draw_routing(seed, s);
  draw_overlap(seed, s);
  draw_approximation(seed, s);
  draw_placement(seed, s);
  draw_automatic_placement(seed, s);
  draw_checks(seed, s);
  draw_verification(seed, s);
  draw_shares(seed, s);
  draw_waiting(seed, s);
  draw_kind(seed, s);
  draw_expiry(seed, s);
  s.safety = {between(random, s.drill ? 6'000'000 : 3'000'000, s.drill ? 9'000'000 : 7'000'000)};
  if (limits.minutes) s.safety = {static_cast<std::int64_t>(*limits.minutes * 60e6)};
  draw_faults(random, limits, s);
  fit_load(s);
  s.harmless = all_harmless(s);
  if (s.harmless) fit_bounds(s);
  s.drifts = has(s, FaultKind::clock_drift);
  if (limits.members)
    draw_members(seed, s);
  else
    draw_models(seed, s);
  draw_arrangements(seed, s);
  return s;
}

std::string describe(const Scenario& s) {
  char text[512];
  std::snprintf(
      text, sizeof text,
      "seed %llu: %u routers, %u cache-metas, %u workers%s; policy %s, %u pages of %u tokens, %u executors, "
      "deadline %.3g s; %u items, %u users of %u tenants (window %lld us), %.0f %s/s of %u candidates; "
      "%zu faults in %.1f s%s%s%s%s%s%s%s%s",
      static_cast<unsigned long long>(s.seed), s.routers, s.cache_metas, s.workers,
      s.together ? " on the same nodes" : "", s.policy.name().c_str(), s.pages, s.page_tokens, s.slots,
      static_cast<double>(s.deadline.us) * 1e-6, s.items, s.users, s.tenants,
      static_cast<long long>(s.window.us), s.requests_per_s, s.generates ? "generate requests" : "requests",
      s.candidates, s.faults.size(), static_cast<double>(s.safety.us) * 1e-6, s.drill ? " (drill)" : "",
      s.shards          ? "; tables spread over workers, rows in the pool"
      : s.page_rows > 0 ? "; rows of tables in the pool"
                        : "",
      s.overlap ? "; overlap" : "", s.batch_wait.us > 0 ? "; batches wait" : "",
      s.scores_each ? "; scores behind each candidate" : "", s.split.empty() ? "" : "; split ",
      s.split.c_str(), s.models > 1 ? ("; " + std::to_string(s.models) + " models").c_str() : "");
  return text;
}

}  // namespace troupe::sim
