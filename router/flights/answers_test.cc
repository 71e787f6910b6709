#include "router/flights/answers.h"

#include "router/testing/flights_test.h"

namespace troupe::router {
namespace answers_test {

struct Bench : FlightBench {
  PullCost pull_cost{0.25};
  placement::UnitCosts costs;
  Answers answers{{costs}, workers, pull_cost, flights};

  Executed result(const Flight& flight) const {
    return {flight.serial, {{{1.5, 2.5}}}, {0}, 0, 30, 40, 50, "m", 20};
  }
};

TEST_CASE("answers: the reply has the worker's scores and the times of all stages, and ends the flight") {
  Bench b;
  Flight& flight = b.add(4);
  b.attempt(flight, 2);
  flight.timings.features = 7;
  b.answers.answer(b.at(200), flight, 2, b.result(flight));
  const auto replies = b.sent<ScoreReply>();
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].items == std::vector<ScoreRow>{{{1.5, 2.5}}});
  CHECK(replies[0].timings == Timings{7, 0, 30, 40, 50, 200, 20, 4});
  CHECK(replies[0].tokens_computed == 4);
  CHECK(replies[0].model_version == "m");
  CHECK(b.flights.size() == 0);
  CHECK(b.flights.answered() == 1);
  CHECK(b.answers.plans().plans().at("score").tokens == 4);
}

TEST_CASE("answers: pulls are measured only if a pulled block was used") {
  Bench b;
  for (const std::uint8_t reused : {0, 1}) {
    Flight& flight = b.add(100);
    b.hold_block(flight, SegmentKind::item, {2});
    flight.plans.front().candidate.blocks[0].at = 2;
    Executed executed = b.result(flight);
    executed.reused = {reused};
    executed.pull_us = 1'000;
    const double before = b.pull_cost.share();
    b.answers.answer(b.at(0), flight, 1, std::move(executed));
    CHECK((b.pull_cost.share() != before) == (reused == 1));
  }
}

}  // namespace answers_test
}  // namespace troupe::router
