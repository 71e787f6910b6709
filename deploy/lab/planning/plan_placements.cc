// Computes the placements of items on nodes that `troupe-lab plan` compares, and tests each with
// simulated requests.
#include "deploy/lab/planning/plan_placements.h"

#include <algorithm>
#include <cmath>

#include "deploy/reports/table.h"
#include "placement/assignment/co_occurrence.h"

namespace troupe::deploy {

namespace {

using placement::ItemNumber;

// minimum number; fewer real requests are repeated on other nodes
constexpr std::size_t simulated_requests = 50'000;

std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

double kv_token_bytes(const PlanSetup& setup) { return setup.shape.kv_token_bytes(); }

struct PlacementChoice {
  placement::Placement placement;
  std::string why;
};

std::string hottest(std::uint64_t items, const PlanWorkload& workload) {
  return (items == 1 ? "the hottest item" : "the " + std::to_string(items) + " hottest items") + " (" +
         percent(workload.accesses.cdf(items)) + " of the accesses)";
}

// Returns the figures of Algorithm 1, in the order of its lines.
std::string why_hrcs(const PlanSetup& setup, const placement::ReplicationInput& input,
                     const placement::HrcsDecision& decision, const PlanWorkload& workload) {
  const double pulled_tokens = input.alpha * input.prefill_us / 1e6 * input.tokens_per_s;
  std::string why = fixed(setup.user_tokens, 0) + " user tokens behind " +
                    fixed(input.candidates * input.item_tokens, 0) + " cached item tokens take " +
                    fixed(input.prefill_us / 1e3, 2) + " ms on " + setup.device.name + "; " +
                    percent(input.alpha) + " of that may be spent on pulls, in which " + setup.link.name +
                    " brings " + fixed(pulled_tokens, 0) + " tokens: R_max = " + percent(decision.ratio_max) +
                    " of the accesses may go to sharded items, so " +
                    hottest(decision.by_algorithm, workload) + " should be everywhere";
  why += decision.ratio_max >= 1 ? ", because the network is no limit." : ".";
  if (decision.replicated != decision.by_algorithm || decision.placed < workload.items.count())
    why += " The memory does not fit all items: with " + std::to_string(decision.replicated) +
           " everywhere it holds " + hottest(decision.placed, workload) + ".";
  return why;
}

PlacementChoice choose_hrcs(const PlanSetup& setup, const PlanWorkload& w) {
  const placement::ReplicationInput input = replication_input(setup);
  const placement::HrcsDecision decision = decide_replication(
      communication_ratio_max(input), w.accesses, w.items, setup.nodes.size(), setup.memory_bytes);
  return {place_hot_and_cold(decision.replicated, w.accesses, w.items, setup.nodes, setup.memory_bytes),
          why_hrcs(setup, input, decision, w)};
}

PlacementChoice choose_replicas(const PlanSetup& setup, const PlanWorkload& w) {
  const bool all = w.items.total_bytes() <= setup.memory_bytes;
  return {place_everywhere(w.accesses, w.items, setup.nodes, setup.memory_bytes),
          all ? "All items fit on every node, so nothing is ever pulled."
              : "Every node has the hottest items that fit; the others are computed for each request."};
}

PlacementChoice choose_hash(const PlanSetup& setup, const PlanWorkload& w) {
  return {place_by_hash(w.accesses, w.items, setup.nodes, setup.memory_bytes),
          "Each item is on one node, so one access in " + std::to_string(setup.nodes.size()) + " is local."};
}

PlacementChoice choose_metis(const PlanSetup& setup, const PlanWorkload& w,
                             const placement::Placement* earlier) {
  return {place_by_co_occurrence(w.histories, w.accesses, w.items, setup.nodes, setup.memory_bytes, earlier),
          "The " + std::to_string(placement::hottest_per_mille(w.items.count())) +
              " hottest items are on every node; METIS partitions the others by " +
              std::to_string(w.histories.size()) +
              " requests, so that items of one request are on one node. This helps if requests run on their "
              "best node."};
}

PlacementChoice choose(const std::string& name, const PlanSetup& setup, const PlanWorkload& workload,
                       const placement::Placement* earlier) {
  if (name == "hrcs") return choose_hrcs(setup, workload);
  if (name == "replicate") return choose_replicas(setup, workload);
  if (name == "hash") return choose_hash(setup, workload);
  return choose_metis(setup, workload, earlier);
}

void count_items(PlannedPlacement& planned) {
  for (std::uint64_t item = 0; item < planned.placement.items(); ++item) {
    const placement::NodeIndex place = planned.placement.place(static_cast<ItemNumber>(item));
    ++(place == placement::everywhere ? planned.everywhere
       : place == placement::nowhere  ? planned.nowhere
                                      : planned.sharded);
  }
}

}  // namespace

double prediction_gap(const PlannedPlacement& planned) {
  return std::max(std::abs(planned.expected.local - planned.simulated.any),
                  std::abs(planned.predicted.best - planned.simulated.best));
}

placement::ReplicationInput replication_input(const PlanSetup& setup) {
  const placement::CostModel cost(setup.device, setup.shape);
  const auto tokens = [](double number) { return static_cast<std::uint64_t>(std::llround(number)); };
  return {.prefill_us = cost.prefill_us(std::max<std::uint64_t>(1, tokens(setup.user_tokens)),
                                        tokens(setup.candidates * setup.item_tokens)),
          .alpha = setup.alpha,
          .tokens_per_s = setup.link.bandwidth * setup.link.efficiency / kv_token_bytes(setup),
          .candidates = static_cast<double>(setup.candidates),
          .item_tokens = setup.item_tokens,
          .nodes = static_cast<std::uint32_t>(setup.nodes.size())};
}

std::optional<PlannedPlacement> plan_placement(const std::string& name, const PlanSetup& setup,
                                               const PlanWorkload& workload,
                                               const placement::Placement* earlier) {
  if (name == "metis" && workload.histories.size() == 0) return std::nullopt;
  PlacementChoice chosen = choose(name, setup, workload, earlier);
  PlannedPlacement planned{.name = name, .placement = std::move(chosen.placement), .why = chosen.why};
  count_items(planned);
  planned.node_bytes = bytes_per_node(planned.placement, workload.items);
  planned.expected =
      expected_shares(planned.placement, workload.held_out ? *workload.held_out : workload.accesses);
  planned.predicted = count_shares(planned.placement, workload.predict, 1);
  const std::size_t rounds = simulated_requests / std::max<std::size_t>(1, workload.simulate.size()) + 1;
  planned.simulated = count_shares(planned.placement, workload.simulate, 2, rounds);
  const double request_bytes = setup.candidates * setup.item_tokens * kv_token_bytes(setup);
  planned.pulled_bytes = planned.expected.pulled * request_bytes;
  planned.link_busy = planned.pulled_bytes / (setup.link.bandwidth * setup.link.efficiency) * 1e6 /
                      replication_input(setup).prefill_us;
  return planned;
}

}  // namespace troupe::deploy
