#include "router/core/answer_check.h"

#include <doctest/doctest.h>

#include <cmath>

namespace troupe::router {
namespace {

Flight ranking() {
  Flight flight;
  flight.pinned.model_version = "m";
  flight.sent.resize(3);
  flight.work = RankWork{.items = std::vector<ItemView>(2)};
  return flight;
}
Executed answer(std::vector<ScoreRow> rows, std::size_t segments = 3, const std::string& model = "m") {
  return {1, std::move(rows), std::vector<std::uint8_t>(segments), 0, 0, 0, 0, model};
}

TEST_CASE("a ranking is one row of as many finite logits as there are candidates") {
  const Flight flight = ranking();
  CHECK_FALSE(find_answer_fault(flight, answer({{{1, 2}}})).has_value());
  for (const Executed& bad :
       {answer({}), answer({{{1, 2}}, {{1, 2}}}), answer({{{1}}}), answer({{{1, 2, 3}}}),
        answer({{{1, std::nan("")}}}), answer({{{INFINITY, 1}}}), answer({{{1, 2}}}, 2)}) {
    const auto fault = find_answer_fault(flight, bad);
    REQUIRE(fault.has_value());
    CHECK(fault->code == "bad_model_output");
    CHECK(fault->status == 500);
  }
}

TEST_CASE("another model's logits are no answer, however sound they look") {
  const auto fault = find_answer_fault(ranking(), answer({{{1, 2}}}, 3, "n"));
  REQUIRE(fault.has_value());
  CHECK(fault->expected == "model m");
}

TEST_CASE("scores are a row per item and a logit per label") {
  Flight flight = ranking();
  flight.work = ScoreWork{{1, "", {}, {{{5}}, {{6}}}, {7, 8, 9}}};
  CHECK_FALSE(find_answer_fault(flight, answer({{{1, 2, 3}}, {{4, 5, 6}}})).has_value());
  CHECK(find_answer_fault(flight, answer({{{1, 2, 3}}})).has_value());
  CHECK(find_answer_fault(flight, answer({{{1, 2, 3}}, {{4, 5}}})).has_value());
}

}  // namespace
}  // namespace troupe::router
