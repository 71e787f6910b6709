#include "router/flights/answer_check.h"

#include <doctest/doctest.h>

#include <cmath>

namespace troupe::router {
namespace {

// Returns a plan of three segments, with a readout of each given number of vocabulary rows.
Plan plan_of(std::vector<std::size_t> readouts) {
  Plan plan;
  plan.segments.resize(3);
  for (const std::size_t rows : readouts)
    plan.readouts.push_back({.segment = 2, .rows = std::vector<Token>(rows, 1)});
  return plan;
}
Executed answer(std::vector<ScoreRow> rows, std::size_t segments = 3, const std::string& model = "m") {
  return {1, std::move(rows), std::vector<std::uint8_t>(segments), 0, 0, 0, 0, model};
}

TEST_CASE("answer check: a ranking is one row with one finite logit per candidate") {
  const Plan plan = plan_of({2});
  CHECK_FALSE(validate_answer(plan, "m", answer({{{1, 2}}})).has_value());
  for (const Executed& bad :
       {answer({}), answer({{{1, 2}}, {{1, 2}}}), answer({{{1}}}), answer({{{1, 2, 3}}}),
        answer({{{1, std::nan("")}}}), answer({{{INFINITY, 1}}}), answer({{{1, 2}}}, 2)}) {
    const auto fault = validate_answer(plan, "m", bad);
    REQUIRE(fault.has_value());
    CHECK(fault->code == "bad_model_output");
    CHECK(fault->kind == RefusalKind::internal);
  }
}

TEST_CASE("answer check: another model's logits are refused, even if they are finite") {
  const auto fault = validate_answer(plan_of({2}), "m", answer({{{1, 2}}}, 3, "n"));
  REQUIRE(fault.has_value());
  CHECK(fault->expected == "model m");
}

TEST_CASE("answer check: scores are one row per item and one logit per label") {
  const Plan plan = plan_of({3, 3});
  CHECK_FALSE(validate_answer(plan, "m", answer({{{1, 2, 3}}, {{4, 5, 6}}})).has_value());
  CHECK(validate_answer(plan, "m", answer({{{1, 2, 3}}})).has_value());
  CHECK(validate_answer(plan, "m", answer({{{1, 2, 3}}, {{4, 5}}})).has_value());
}

TEST_CASE("answer check: hidden states are finite and of one size") {
  Plan plan = plan_of({0, 0});
  for (Readout& readout : plan.readouts) readout.what = Readout::What::state;
  CHECK_FALSE(validate_answer(plan, "m", answer({{{1, 2, 3}}, {{4, 5, 6}}})).has_value());
  CHECK(validate_answer(plan, "m", answer({{{1, 2, 3}}, {{4, 5}}})).has_value());
  CHECK(validate_answer(plan, "m", answer({{{}}, {{}}})).has_value());
  CHECK(validate_answer(plan, "m", answer({{{1, 2}}, {{1, std::nan("")}}})).has_value());
}

TEST_CASE(
    "answer check: paths are within the limit, best first, with token log-probabilities only if requested") {
  Plan plan = plan_of({});
  plan.search = {.width = 3, .results = 2};
  const auto faulty = [&](std::vector<Beam> beams) {
    Executed found = answer({});
    found.beams = std::move(beams);
    return validate_answer(plan, "m", found).has_value();
  };
  CHECK_FALSE(faulty({{{1, 2}, -1}, {{1, 3}, -2}}));
  CHECK(faulty({{{1, 2}, -1}, {{1, 3}, -2}, {{1, 4}, -3}}));
  CHECK(faulty({{{1, 2}, -2}, {{1, 3}, -1}}));
  CHECK(faulty({{{1, 2}, std::nan("")}}));
  CHECK(faulty({{{1, 2}, -1, {-0.5, -0.5}}}));
  plan.search.by_token = true;
  CHECK_FALSE(faulty({{{1, 2}, -1, {-0.5, -0.5}}}));
  CHECK(faulty({{{1, 2}, -1}}));
  CHECK(faulty({{{1, 2}, -1, {-1}}}));
  CHECK(faulty({{{1, 2}, -1, {-1, -INFINITY}}}));
}

TEST_CASE("answer check: a model head gives one number") {
  Plan plan = plan_of({0, 0});
  for (Readout& readout : plan.readouts) readout.what = Readout::What::head;
  CHECK_FALSE(validate_answer(plan, "m", answer({{{1}}, {{4}}})).has_value());
  CHECK(validate_answer(plan, "m", answer({{{1}}, {{}}})).has_value());
  CHECK(validate_answer(plan, "m", answer({{{1}}, {{4, 5}}})).has_value());
}

}  // namespace
}  // namespace troupe::router
