// Tests the text form of a repair, and the repairs of plans whose budgets are chosen in different ways.
#include "router/request/repair_choice.h"

#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

#include "router/request/policy.h"

namespace troupe::router {
namespace repair_choice_test {

using By = RepairChoice::By;
using Numbers = std::vector<std::uint32_t>;
using Weights = kernels::Repair::Weights;

RepairChoice choice(std::string_view text) {
  const auto read = read_repair(text);
  REQUIRE(std::holds_alternative<RepairChoice>(read));
  return std::get<RepairChoice>(read);
}

std::string fault(std::string_view text) {
  const auto read = read_repair(text);
  const auto* wrong = std::get_if<RepairFault>(&read);
  return wrong ? wrong->what + "; expected " + wrong->expected : "";
}

TEST_CASE("repair text: every part is read, and a choice's text gives the choice again") {
  const RepairChoice rcllm = choice("30:attention:history20:history-importance:lambda0.5");
  CHECK(rcllm ==
        RepairChoice{
            .share = 0.3, .by = By::attention, .history = 0.2, .history_by = By::importance, .lambda = 0.5});
  for (const char* text :
       {"30", "0:history100", "30:tail:mean:layer2", "30:importance:lambda0.5", "25:importance:lambda0",
        "25:importance:lambda12.25", "25:importance:lambda0.000001",
        "25:importance:lambda0.0000012345678901234567", "25:importance:lambda100",
        "30:attention:history20:history-importance:lambda0.5",
        "30:importance:history20:history-attention:lambda2:window64", "30:history20:history-deviation",
        "30:tail:mean:layer2:history20:history-first:window64:prototypes"}) {
    CAPTURE(text);
    CHECK(text_of(choice(text)) == text);
    CHECK(choice(text_of(choice(text))) == choice(text));
  }
}

TEST_CASE("repair text: parts may come in any order, and those that say the default are left out") {
  CHECK(text_of(choice("30:lambda0.5:history-importance:window4:history20:attention")) ==
        "30:attention:history20:history-importance:lambda0.5:window4");
  CHECK(text_of(choice("30:first")) == "30");
  CHECK(text_of(choice("30:importance:lambda1")) == "30:importance");
  CHECK(text_of(choice("30:importance:lambda0.50")) == "30:importance:lambda0.5");
  CHECK(text_of(choice("30:tail:history20:history-tail")) == "30:tail:history20");
}

TEST_CASE("repair text: a wrong part is named, with what was expected") {
  CHECK(
      fault("30:best").starts_with("has \"best\"; expected a selection (first, attention, tail, deviation, "
                                   "importance), mean, layer2, historyNUMBER"));
  CHECK(fault("x:tail") == "begins with \"x\"; expected a per cent from 0 to 100");
  CHECK(fault("101").starts_with("begins with \"101\""));
  CHECK(fault("30:history-best") ==
        "has \"history-best\"; expected history- and one of first, attention, tail, deviation, importance");
  CHECK(fault("30:history101").ends_with("expected history and a per cent from 0 to 100, such as history20"));
  CHECK(fault("30:window0").ends_with("expected window and a number of tokens from 1 to 1000000"));
  for (const char* text :
       {"lambda", "lambda-1", "lambda-0", "lambda101", "lambda1e1", "lambdanan", "lambdainf", "lambda0.5x",
        "lambda 1", "lambda0.00000099", "lambda0.0000000000000000000000000000001"})
    CHECK(fault(std::string("30:importance:") + text)
              .ends_with("expected lambda and 0, or 0.000001 to 100, such as lambda0.5"));
  CHECK(fault("30:mean:mean") == "has mean twice; expected each part once");
  CHECK(fault("30:tail:attention") == "has a selection twice; expected each part once");
  CHECK(fault("30:importance:lambda1:lambda1") == "has lambda twice; expected each part once");
}

TEST_CASE("repair text: parts that say nothing together are refused") {
  CHECK(fault("30:attention:history-importance") ==
        "has history-importance without a budget of the history; expected historyNUMBER, too");
  CHECK(fault("30:attention:lambda0.5") ==
        "has lambda without a selection by importance; expected importance or history-importance");
  CHECK(fault("30:importance:history20:history-tail") ==
        "chooses one budget by tail and one by importance; expected both by tail or none, as attention is "
        "measured once");
  CHECK(fault("30:tail:history20:history-attention").starts_with("chooses one budget by tail"));
  CHECK(fault("30:tail:history20:history-deviation") == "");
  CHECK(fault("30:tail:history20:history-first") == "");
}

TEST_CASE("policy names: they take a selection for each budget, and faults name the part") {
  const char* name = "all_blocks+30:attention:history20:history-importance:lambda0.5";
  REQUIRE(find_policy(name).has_value());
  CHECK(policy(name).name() == name);
  CHECK(find_policy("planner+30:importance:lambda2").has_value());
  CHECK(policy_fault("best").what == "");
  CHECK(policy_fault("best").expected == policy_names());
  CHECK(policy_fault("blocks+30:lambda0.5").what ==
        ", whose repair has lambda without a selection by importance");
  CHECK(policy_fault("user+25").what == ", whose repair would have no blocks of items");
  CHECK(policy_fault("item+25:history20").expected == "parts for items alone");
  CHECK(policy_fault("blocks+0").what == ", whose repair repairs nothing");
  CHECK(
      policy_fault_text("blocks+30:window0") ==
      "\"blocks+30:window0\", whose repair has \"window0\"; expected window and a number of tokens from 1 to "
      "1000000");
}

// Returns the repair for two events of four tokens, and items of six and three; or for one of these kinds.
kernels::Repair repair_of(std::string_view text, std::size_t left_max = SIZE_MAX,
                          std::vector<std::size_t> lengths = {4, 4, 6, 3}) {
  Plan plan;
  const auto count = static_cast<std::uint32_t>(lengths.size());
  for (const std::size_t tokens : lengths)
    plan.segments.push_back(
        {tokens == 4 ? SegmentKind::user : SegmentKind::item, std::vector<Token>(tokens, 7), 0, {}});
  for (std::uint32_t i = 0; i < count; ++i) {
    plan.repair.reused_spans.push_back({count + i, i, 0});
    plan.segments.push_back(plan.segments[i]);
  }
  write_repair(plan, choice(text), left_max);
  kernels::PlanLimits limits{100, 512};
  limits.repairs = true;
  CHECK(validate(plan, limits) == "");
  return plan.repair;
}

TEST_CASE("repair: lambda is the weight of the divergence") {
  for (const auto& [text, lambda] : {std::pair{"50:importance", 1.0F},
                                     {"50:importance:lambda0.5", 0.5F},
                                     {"50:importance:lambda2", 2.0F},
                                     {"50:importance:lambda0", 0.0F}}) {
    CAPTURE(text);
    CHECK(repair_of(text).attention == 1);
    CHECK(repair_of(text).divergence == lambda);
    CHECK(repair_of(text).factors.empty());
  }
}

TEST_CASE("repair: budgets that are chosen in different ways have factors of their own") {
  const kernels::Repair rcllm = repair_of("30:attention:history25:history-importance:lambda0.5");
  CHECK(rcllm.budgets == Numbers{2, 3});
  CHECK(rcllm.weights_of(0) == Weights{1, 0.5F});
  CHECK(rcllm.weights_of(1) == Weights{1, 0});
  CHECK(rcllm.attending == 0);
  const kernels::Repair apart = repair_of("30:importance:history25:history-deviation:lambda0.25");
  CHECK(apart.weights_of(0) == Weights{0, 1});
  CHECK(apart.weights_of(1) == Weights{1, 0.25F});
  const kernels::Repair tail = repair_of("30:tail:history25:history-deviation");
  CHECK(tail.attending == 8);
  CHECK(tail.weights_of(0) == Weights{0, 1});
  CHECK(repair_of("30:tail:history25").factors.empty());
  CHECK(repair_of("30:attention:history25:history-importance:lambda0").factors.empty());
}

TEST_CASE("repair: one budget may take first tokens while the other chooses by scores") {
  const kernels::Repair first = repair_of("50:attention:history25:history-first");
  CHECK(first.always == Numbers{0, 4});
  CHECK(first.budgets == Numbers{0, 5});
  CHECK(first.weights_of(0) == Weights{0, 0});
  const kernels::Repair last = repair_of("50:history25:history-attention");
  CHECK(last.always == Numbers{8, 9, 10, 14, 15});
  CHECK(last.budgets == Numbers{2, 0});
  for (const char* text : {"50:attention:history25:history-first", "50:history25:history-attention",
                           "20:history40:history-importance:window5"})
    for (std::size_t left = 0; left <= 17; ++left) {
      const kernels::Repair repair = repair_of(text, left);
      std::size_t chosen = repair.always.size();
      for (const std::uint32_t budget : repair.budgets) chosen += budget;
      CHECK(17 - chosen <= left);
    }
}

TEST_CASE("repair: where only one kind of blocks is reused, its own selection counts") {
  const char* text = "30:attention:history25:history-deviation";
  const kernels::Repair items = repair_of(text, SIZE_MAX, {6, 3}),
                        history = repair_of(text, SIZE_MAX, {4, 4});
  CHECK(items.weights_of(0) == Weights{1, 0});
  CHECK(items.budgets == Numbers{3});
  CHECK(history.weights_of(0) == Weights{0, 1});
  CHECK(history.budgets == Numbers{2});
}

}  // namespace repair_choice_test
}  // namespace troupe::router
