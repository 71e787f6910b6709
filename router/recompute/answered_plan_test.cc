// Tests what is kept of an answer, and the comparison of two results.
#include "router/recompute/answered_plan.h"

#include <limits>

#include "router/testing/router_core_test.h"

namespace troupe::router {
namespace answered_plan_test {

AnsweredPlan rows_of(std::vector<ScoreRow> rows) {
  AnsweredPlan answered;
  answered.rows = std::move(rows);
  return answered;
}
Executed again(std::vector<ScoreRow> rows) {
  Executed executed;
  executed.readouts = std::move(rows);
  return executed;
}
AnsweredPlan beams_of(std::vector<Beam> beams) {
  AnsweredPlan answered;
  answered.beams = std::move(beams);
  return answered;
}
Executed again(std::vector<Beam> beams) {
  Executed executed;
  executed.beams = std::move(beams);
  return executed;
}

TEST_CASE("answered plan: all readouts are compared, relative to the largest value or to 1") {
  const std::vector<ScoreRow> small{{{0.1, 0.2}}, {{0.3}}}, large{{{0.1, -20}}, {{0.3}}};
  CHECK(compare(rows_of(small), again(small), 1e-4).largest == 0);
  CHECK(compare(rows_of(small), again(small), 1e-4).bound == doctest::Approx(1e-4));
  CHECK(compare(rows_of(large), again(large), 1e-4).bound == doctest::Approx(2e-3));
  const Difference difference =
      compare(rows_of(small), again(std::vector<ScoreRow>{{{0.1, 0.2}}, {{0.3002}}}), 1e-4);
  CHECK(difference.largest == doctest::Approx(2e-4));
  CHECK_FALSE(difference.is_rounding());
  CHECK(compare(rows_of(large), again(std::vector<ScoreRow>{{{0.1, -20}}, {{0.3002}}}), 1e-4).is_rounding());
}

TEST_CASE("answered plan: another shape and values that are not finite differ infinitely") {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const AnsweredPlan answered = rows_of({{{1, 2}}});
  for (const std::vector<ScoreRow>& rows : std::vector<std::vector<ScoreRow>>{
           {}, {{{1}}}, {{{1, 2}}, {{3}}}, {{{1, nan}}}, {{{1, infinity}}}, {{{-infinity, 2}}}}) {
    const Difference difference = compare(answered, again(rows), 1e-4);
    CHECK(difference.largest == infinity);
    CHECK_FALSE(difference.is_rounding());
  }
  CHECK_FALSE(
      compare(rows_of({{{infinity}}}), again(std::vector<ScoreRow>{{{infinity}}}), 1e-4).is_rounding());
  CHECK_FALSE(compare(beams_of({{{1}, -1}}), again(std::vector<Beam>{}), 1e-4).is_rounding());
}

TEST_CASE("answered plan: beams are compared by path, else by rank") {
  const std::vector<Beam> beams{{{1, 2}, -1.0}, {{1, 3}, -2.0}, {{4, 5}, -2.00001}};
  CHECK(compare(beams_of(beams), again(beams), 1e-4).largest == 0);
  // two of equal probability change places, or another one is found instead
  CHECK(compare(beams_of(beams), again(std::vector<Beam>{beams[0], beams[2], beams[1]}), 1e-4).is_rounding());
  CHECK(compare(beams_of(beams), again(std::vector<Beam>{beams[0], beams[1], {{6, 7}, -2.0001}}), 1e-4)
            .is_rounding());
  CHECK_FALSE(compare(beams_of(beams), again(std::vector<Beam>{beams[0], beams[1], {{6, 7}, -2.1}}), 1e-4)
                  .is_rounding());
  // the same probabilities of other paths are another answer
  const std::vector<Beam> swapped{{{1, 3}, -1.0}, {{1, 2}, -2.0}, {{4, 5}, -2.00001}};
  CHECK(compare(beams_of(beams), again(swapped), 1e-4).largest == doctest::Approx(1));
  // tokens' own log-probabilities
  const std::vector<Beam> tokens{{{1, 2}, -1.0, {-0.5, -0.5}}}, other{{{1, 2}, -1.0, {-0.4, -0.6}}};
  CHECK(compare(beams_of(tokens), again(tokens), 1e-4).is_rounding());
  CHECK_FALSE(compare(beams_of(tokens), again(other), 1e-4).is_rounding());
}

// ---- through the router ----

struct VerifyingRouter : RouterBench {
  static RouterConfig config() {
    RouterConfig c = small_config();
    c.verify.share = 1;
    c.verify.pause_factor = 0;
    return c;
  }
  VerifyingRouter() : RouterBench(config()) {
    probe.start(0);
    beat(0, 1, beat_of(5));
  }
  // Answers a ranking with these scores; returns its plan.
  Execute answer_ranking(std::int64_t us, RequestId id, const std::string& request_id,
                         std::vector<double> scores) {
    RankRequest request{id, "t", "ann", {"a", "b"}, 0, "bat"};
    request.client_request_id = request_id;
    request.trace = {7, 8, 9, false};
    probe.receive(us, server, std::move(request));
    for (const auto& [started, work] : probe.started<FindFeatures>()) job = started;
    find(us);
    if (plans() == 0) index(us, 0, 0);
    const Execute sent = plan();
    execute(us + 10, std::move(scores), std::vector<std::uint8_t>(sent.plan.segments.size(), 1));
    CHECK(replies() == 1);
    return sent;
  }
  void compute(std::int64_t us, const Execute& plan, std::vector<double> scores) {
    answer_at(us, 1,
              {plan.id,
               {{std::move(scores)}},
               std::vector<std::uint8_t>(plan.plan.segments.size(), 0),
               0,
               0,
               0,
               0,
               "model 1"});
  }
  std::vector<Effects::Log> logs(const std::string& event) const {
    std::vector<Effects::Log> found;
    for (const auto& effect : probe.effects.list)
      if (const auto* log = std::get_if<Effects::Log>(&effect))
        if (log->event == event) found.push_back(*log);
    return found;
  }
};

TEST_CASE("router: an answer is verified in idle time, and a difference names its request") {
  VerifyingRouter r;
  const Execute served = r.answer_ranking(100, 1, "r-17", {1, 2});
  CHECK(r.core.verifying());
  r.run_until(1'000);
  const Execute again = r.plan();
  CHECK(again.priority == Priority::background);
  CHECK(again.plan == served.plan);
  CHECK(again.blocks == std::vector<SegmentBlock>(served.blocks.size()));
  CHECK(again.catalog_version == served.catalog_version);
  CHECK(r.core.attempts() == 1);  // it is no attempt of a request
  r.compute(1'100, again, {1, 2.5});
  r.compute(1'200, r.plan(), {1, 2.5});
  const auto logs = r.logs("answer_differs");
  REQUIRE(logs.size() == 1);
  CHECK(logs[0].fields.at(0).value == "r-17");
  CHECK(logs[0].fields.at(2).value == "t");
  CHECK(logs[0].fields.at(3).value == "rank");
  CHECK_FALSE(r.core.verifying());
  r.probe.receive(1'300, server, StatusRequest{9});
  const StatusReply status = r.probe.sent<StatusReply>().at(0);
  CHECK(field_of(status, "answers_verified") == "1");
  CHECK(field_of(status, "answers_different") == "1");
  CHECK(r.core.check_bounds().empty());
}

TEST_CASE("router: a request without x-request-id is named by its trace, and an equal answer not at all") {
  VerifyingRouter r;
  r.answer_ranking(100, 1, "", {1, 2});
  r.run_until(1'000);
  r.compute(1'100, r.plan(), {1, 2});
  CHECK(r.probe.counted(Metric::verified_equal) == 1);
  CHECK(r.plans() == 0);
  r.beat(1'250, 1, beat_of(5));
  r.answer_ranking(1'300, 2, "", {1, 2});
  r.run_until(2'000);
  r.compute(2'100, r.plan(), {1, 3});
  r.compute(2'200, r.plan(), {1, 3});
  REQUIRE(r.logs("answer_differs").size() == 1);
  CHECK(r.logs("answer_differs")[0].fields.at(0).value == "00000000000000070000000000000008");
}

TEST_CASE("router: without verify.share nothing is computed again, and the status does not tell of it") {
  RouterBench b;
  b.probe.start(0);
  b.beat(0, 1, beat_of(5));
  b.send(100, 1);
  b.execute(110, {1, 2});
  CHECK(b.replies() == 1);
  CHECK_FALSE(b.core.verifying());
  b.run_until(1'000);
  CHECK(b.plans() == 0);
  b.probe.receive(1'300, server, StatusRequest{9});
  CHECK(field_of(b.probe.sent<StatusReply>().at(0), "answers_verified").empty());
}

TEST_CASE("answered plan: names the request's user, profile and versions") {
  VerifyingRouter r;
  const PromptForm form = r.config().form;
  RankRequest request{4, "t", "ann", {"a", "b"}, 0, "bat"};
  request.trace = {7, 8, 9, false};
  Flight flight{.serial = 11, .origin = {server, 4, {0}, {1'000}}};
  flight.pinned = {"model 1", "catalog 1"};
  flight.request = take_rank(std::move(request), policy("bat"));
  REQUIRE_FALSE(flight.request->take(form, {}, test_features()));
  for (Candidate& candidate : flight.request->candidates(form, BlockNames(form, {"model 1", "layout 1"}))) {
    PlanCost cost({}, candidate, 0);
    flight.plans.push_back({std::move(candidate), std::move(cost)});
  }
  const Candidate& sent = flight.plans.front().candidate;
  std::vector<std::uint8_t> reused(sent.plan.segments.size(), 0);
  reused.at(1) = 1;
  const AnsweredPlan answered = answered_plan(flight, 3, {11, {{{1, 2}}}, reused, 0, 0, 0, 0, "model 1"});
  CHECK(answered.request_id == "00000000000000070000000000000008");
  CHECK(answered.tenant == "t");
  CHECK(answered.user == "ann");
  CHECK(answered.kind == "rank");
  CHECK(answered.plan_name == sent.name);
  CHECK(answered.plan == sent.plan);
  CHECK(answered.model_version == "model 1");
  CHECK(answered.catalog_version == "catalog 1");
  CHECK(answered.profile_version == 7);
  CHECK(answered.rows == std::vector<ScoreRow>{{{1, 2}}});
  CHECK(answered.node == 3);
  CHECK(answered.blocks_reused == 1);
  const Execute execute = recompute(answered, 12, {5'000});
  CHECK(execute.id == 12);
  CHECK(execute.budget_us == 5'000);
  CHECK(execute.catalog_version == "catalog 1");
  CHECK_FALSE(execute.trace.is_there());
}

}  // namespace answered_plan_test
}  // namespace troupe::router
