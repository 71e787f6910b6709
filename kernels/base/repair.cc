// Validates a plan's repair: which reused blocks are approximate and which of their tokens are
// computed again (RcLLM §III-C). An invalid repair gets a text that names the member and what was
// expected.
#include "kernels/base/repair.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/plan.h"

namespace troupe::kernels {
namespace {

std::string number(std::size_t n) { return std::to_string(n); }

std::string fault_of(const std::string& where, std::size_t found, const std::string& expected) {
  return "repair." + where + " is " + number(found) + "; expected " + expected;
}

bool is_reused_span(const Plan& plan, std::uint32_t segment) {
  const auto& reused_spans = plan.repair.reused_spans;
  const auto at = std::ranges::lower_bound(reused_spans, segment, {}, &Repair::ReusedSpan::segment);
  return at != reused_spans.end() && at->segment == segment;
}

std::string span_fault(const Plan& plan, std::size_t index) {
  const Repair& repair = plan.repair;
  const Repair::ReusedSpan& reused = repair.reused_spans[index];
  const std::string name = "places[" + number(index) + "]";
  const std::int64_t before = index == 0 ? -1 : std::int64_t{repair.reused_spans[index - 1].segment};
  if (reused.segment >= plan.segments.size())
    return fault_of(name + ".segment", reused.segment, "below " + number(plan.segments.size()));
  if (reused.segment <= before)
    return fault_of(name + ".segment", reused.segment, "more than " + std::to_string(before) + " before it");
  if (reused.block >= reused.segment)
    return fault_of(name + ".block", reused.block, "an earlier segment than " + number(reused.segment));
  if (is_reused_span(plan, reused.block))
    return fault_of(name + ".block", reused.block, "a segment that is not a reused span");
  const Segment &segment = plan.segments[reused.segment], &block = plan.segments[reused.block];
  if (segment.tokens != block.tokens)
    return fault_of(name + ".block", reused.block, "a segment with the tokens of " + number(reused.segment));
  if (segment.shift != 0 || segment.replaces.segment != ReplacedTokens::none)
    return fault_of(name + ".segment", reused.segment, "a segment without a shift that replaces nothing");
  if (reused.budget >= repair.budgets.size())
    return fault_of(name + ".budget", reused.budget, "below " + number(repair.budgets.size()));
  if (reused.of_prototypes && repair.prototypes.empty())
    return "repair." + name + ".of_prototypes is true; expected false, as the repair names no prototypes";
  for (const std::uint32_t seen : block.sees)
    if (is_reused_span(plan, seen))
      return fault_of(name + ".block", reused.block, "a segment that sees no reused span");
  return "";
}

std::string budgets_fault(const Plan& plan) {
  const Repair& repair = plan.repair;
  if (repair.budgets.size() > Repair::budgets_max)
    return "repair.budgets has " + number(repair.budgets.size()) + "; expected at most " +
           number(Repair::budgets_max);
  std::vector<std::size_t> tokens(repair.budgets.size());
  for (const Repair::ReusedSpan& reused : repair.reused_spans)
    tokens[reused.budget] += plan.segments[reused.segment].tokens.size();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Repair::Weights weights = repair.weights_of(static_cast<std::uint32_t>(i));
    const bool scored = weights.attention > 0 || weights.divergence > 0;
    if (!scored && repair.budgets[i] > 0)
      return fault_of("budgets[" + number(i) + "]", repair.budgets[i], "0, as scores have no weight");
    if (repair.budgets[i] > tokens[i])
      return fault_of("budgets[" + number(i) + "]", repair.budgets[i],
                      "at most the " + number(tokens[i]) + " tokens of its spans");
  }
  return "";
}

bool is_weight(float weight) { return std::isfinite(weight) && weight >= 0; }

std::string weights_fault(const Repair& repair) {
  for (const float weight : {repair.attention, repair.divergence})
    if (!is_weight(weight))
      return "repair has a weight of " + std::to_string(weight) + "; expected a number from 0";
  if (!repair.factors.empty() && repair.factors.size() != repair.budgets.size())
    return "repair.factors has " + number(repair.factors.size()) +
           "; expected none, or one for each of the " + number(repair.budgets.size()) + " budgets";
  for (std::size_t i = 0; i < repair.factors.size(); ++i)
    for (const float factor : {repair.factors[i].attention, repair.factors[i].divergence})
      if (!is_weight(factor))
        return "repair.factors[" + number(i) + "] has " + std::to_string(factor) +
               "; expected a number from 0";
  return "";
}

std::string always_fault(const Plan& plan) {
  const auto& always = plan.repair.always;
  const std::size_t tokens = repaired_tokens(plan);
  for (std::size_t i = 0; i < always.size(); ++i) {
    if (always[i] >= tokens)
      return fault_of("always[" + number(i) + "]", always[i], "below " + number(tokens));
    if (i > 0 && always[i] <= always[i - 1])
      return fault_of("always[" + number(i) + "]", always[i],
                      "more than " + number(always[i - 1]) + " before it");
  }
  return "";
}

std::string others_fault(const Plan& plan) {
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    const ReplacedTokens& replaced = plan.segments[s].replaces;
    if (replaced.segment != ReplacedTokens::none && is_reused_span(plan, replaced.segment))
      return "segments[" + number(s) + "].replaces is " + number(replaced.segment) +
             "; expected a segment that is not repaired";
  }
  for (std::size_t r = 0; r < plan.readouts.size(); ++r)
    if (is_reused_span(plan, plan.readouts[r].segment))
      return "readouts[" + number(r) + "].segment is " + number(plan.readouts[r].segment) +
             "; expected one that is not repaired";
  if (plan.search.width > 0)
    return "search.width is " + number(plan.search.width) + "; expected 0 where a plan has a repair";
  return "";
}

}  // namespace

std::string validate_repair(const Plan& plan, const PlanLimits& limits) {
  const Repair& repair = plan.repair;
  if (repair.reused_spans.empty())
    return repair == Repair{} ? ""
                              : "repair.places is empty; expected at least one, or nothing else of a repair";
  if (!limits.repairs)
    return "repair.places has " + number(repair.reused_spans.size()) +
           "; expected none, as this model's executor does not repair";
  if (std::string found = weights_fault(repair); !found.empty()) return found;
  if (!repair.prototypes.empty() && repair.prototypes != limits.prototypes)
    return "repair.prototypes is " + repair.prototypes.substr(0, 16) + "; expected " +
           (limits.prototypes.empty() ? "none, as this model has none here"
                                      : limits.prototypes.substr(0, 16));
  if (repair.exact_layers == 0) return "repair.exact_layers is 0; expected at least 1";
  if (repair.attending > plan.segments.size())
    return fault_of("attending", repair.attending, "at most " + number(plan.segments.size()));
  for (std::size_t i = 0; i < repair.reused_spans.size(); ++i)
    if (std::string found = span_fault(plan, i); !found.empty()) return found;
  if (std::string found = budgets_fault(plan); !found.empty()) return found;
  if (std::string found = always_fault(plan); !found.empty()) return found;
  return others_fault(plan);
}

std::size_t repaired_tokens(const Plan& plan) {
  std::size_t tokens = 0;
  for (const Repair::ReusedSpan& reused : plan.repair.reused_spans)
    tokens += plan.segments[reused.segment].tokens.size();
  return tokens;
}

}  // namespace troupe::kernels
