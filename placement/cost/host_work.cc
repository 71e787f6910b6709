// Models the CPU time of requests outside of forward passes (parsing, planning, checksums and so
// on), from costs that were fitted to profiled runs. The simulator needs it because small models
// spend much of their time there.
#include "placement/cost/host_work.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <stdexcept>
#include <vector>

namespace troupe::placement {
namespace {

constexpr std::size_t units_count = 6;
constexpr double HostUnits::*members[units_count] = {&HostUnits::requests, &HostUnits::parts,
                                                     &HostUnits::blocks,   &HostUnits::mebibytes,
                                                     &HostUnits::kept,     &HostUnits::cold};
constexpr int rounds = 20'000;
constexpr double half_cold_us = 1'000;
// Minimum time of a request; less is noise, and its relative error says nothing.
constexpr double least_us = 0.05;

// An equation of one room: costs · x = share. `x` are a run's units divided by a measured time;
// `share` is the fraction of that time that they explain.
struct Equation {
  std::array<double, units_count> x{};
  double share = 1;
};

bool is_one_of(std::size_t component, std::initializer_list<HostComponent> components) {
  return std::ranges::find(components, static_cast<HostComponent>(component)) != components.end();
}

// True for components that receive messages only about blocks: a request that names no block says
// nothing about their cost.
bool depends_only_on_blocks(std::size_t component) {
  return is_one_of(component, {HostComponent::cache_meta, HostComponent::kv_worker});
}

// Says which units a room's cost depends on. Only checksums, the executor port and `rest` depend on
// bytes. The HTTP server and the feature port finish before the router knows what must be computed,
// so they do not depend on kept blocks. Only a pass and the clients' clocks see cold starts.
std::array<bool, units_count> used_by(std::size_t component) {
  return {
      true,
      !depends_only_on_blocks(component),
      true,
      is_one_of(component, {HostComponent::checksums, HostComponent::executor_port, HostComponent::rest}),
      !is_one_of(component, {HostComponent::server, HostComponent::feature_port, HostComponent::checksums}),
      is_one_of(component, {HostComponent::passes, HostComponent::rest})};
}

std::vector<Equation> equations_of(std::span<const HostRun> runs, std::size_t component) {
  std::vector<Equation> equations;
  for (const HostRun& run : runs) {
    if (run.units.blocks == 0 && depends_only_on_blocks(component)) continue;
    const bool passes = component == static_cast<std::size_t>(HostComponent::passes);
    const double us =
        std::max(run.us[component], least_us * run.units.requests) + (passes ? run.passes_us : 0);
    if (us <= 0) continue;
    Equation& equation = equations.emplace_back();
    for (std::size_t u = 0; u < units_count; ++u) equation.x[u] = run.units.*members[u] / us;
    if (passes) equation.share = run.us[component] / us;
  }
  return equations;
}

double residual(const Equation& equation, const std::array<double, units_count>& costs) {
  double left = equation.share;
  for (std::size_t u = 0; u < units_count; ++u) left -= equation.x[u] * costs[u];
  return left;
}

// Minimizes one cost at a time, given the others, with no cost below 0. The sum is convex, so this
// converges to its minimum.
std::array<double, units_count> least_squares(const std::vector<Equation>& equations,
                                              std::span<const bool> used) {
  std::array<double, units_count> costs{};
  for (int round = 0; round < rounds; ++round)
    for (std::size_t u = 0; u < units_count; ++u) {
      double top = 0, bottom = 0;
      for (const Equation& equation : equations) {
        top += equation.x[u] * residual(equation, costs);
        bottom += equation.x[u] * equation.x[u];
      }
      if (used[u] && bottom > 0) costs[u] = std::max(0.0, costs[u] + top / bottom);
    }
  return costs;
}

}  // namespace

HostUnits& HostUnits::operator+=(const HostUnits& other) {
  for (const auto member : members) this->*member += other.*member;
  return *this;
}

double dot(const HostUnits& costs, const HostUnits& units) {
  double sum = 0;
  for (const auto member : members) sum += costs.*member * units.*member;
  return sum;
}

double cold_cache_share(double still_us) { return still_us <= 0 ? 0 : still_us / (still_us + half_cold_us); }

std::string_view name_of(HostComponent component) {
  static constexpr std::array<std::string_view, host_components> names{"door",
                                                                       "router",
                                                                       "cache-meta",
                                                                       "KV-cache worker",
                                                                       "inference worker",
                                                                       "feature port",
                                                                       "executor port",
                                                                       "checksums",
                                                                       "host",
                                                                       "kernels",
                                                                       "rest"};
  return names[static_cast<std::size_t>(component)];
}

std::string validate(const HostWork& work) {
  const auto sound = [](double value) { return std::isfinite(value) && value >= 0; };
  for (std::size_t component = 0; component < host_components; ++component)
    for (const auto member : members)
      if (!sound(work.costs[component].*member))
        return "host work of " + std::string(name_of(static_cast<HostComponent>(component))) + " is " +
               std::to_string(work.costs[component].*member) + "; expected 0 us or more";
  if (!sound(work.idle_share) || work.idle_share > 1)
    return "idle_share is " + std::to_string(work.idle_share) + "; expected a share of a processor";
  if (!sound(work.wait_us)) return "wait_us is " + std::to_string(work.wait_us) + "; expected 0 us or more";
  return "";
}

HostWork fit_host(std::span<const HostRun> runs) {
  if (runs.empty()) throw std::invalid_argument("there are no profiled runs; expected at least one");
  HostWork work;
  for (std::size_t component = 0; component < host_components; ++component) {
    const auto costs = least_squares(equations_of(runs, component), used_by(component));
    for (std::size_t u = 0; u < units_count; ++u) work.costs[component].*members[u] = costs[u];
  }
  return work;
}

}  // namespace troupe::placement
