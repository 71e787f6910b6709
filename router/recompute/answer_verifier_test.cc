// Tests which answers are verified, when and where, and what is reported of them.
#include "router/recompute/answer_verifier.h"

#include <cmath>
#include <limits>
#include <set>

#include "kernels/base/hash.h"
#include "router/testing/flights_test.h"

namespace troupe::router {
namespace answer_verifier_test {

constexpr std::uint64_t content = 77;
const std::vector<double> scores{1.5, -2.5}, other_scores{1.5, -2.4};

struct SentPlan {
  NodeId node = 0;
  Execute execute;
};

struct Bench : AttemptsBench {
  explicit Bench(VerifyConfig config = {.share = 1}, std::vector<NodeId> nodes = {1, 2})
      : AttemptsBench(nodes, {8}), verifier(config, workers, flights, attempts) {
    hear(0);
  }
  AnswerVerifier verifier;

  static Heartbeat idle() {
    Heartbeat beat{.incarnation = 5, .slots = 1};
    beat.models = {"m"};
    return beat;
  }
  void hear(std::int64_t us) {
    for (const NodeId node : workers.nodes()) workers.hear({us}, node, idle());
  }
  Flight& open(std::int64_t us) {
    Flight flight = flight_of();
    ScoreRequest request{.id = flight.origin.id, .trace = {1, 2, 3}};
    request.client_request_id = "r-" + std::to_string(flight.serial);
    flight.request = take_score(std::move(request), policy("bat"));
    flight.fingerprint = content;
    return flights.add(at(us), std::move(flight));
  }
  static Executed result(RequestId id, const std::vector<double>& scores, std::uint8_t reused = 0) {
    return {id, {{scores}}, {reused}, 0, 0, 0, 0, "m"};
  }
  // Answers a new flight at this node; returns its serial.
  Flight::Serial answer(std::int64_t us, NodeId node = 1) {
    Flight& flight = open(us);
    const Flight::Serial serial = flight.serial;
    verifier.note(at(us), flight, node, result(serial, scores, 1));
    flights.close(at(us), flight);
    return serial;
  }
  std::vector<SentPlan> plans() {
    std::vector<SentPlan> found;
    for (auto& effect : std::exchange(effects, {}).list)
      if (auto* send = std::get_if<Effects::Send>(&effect))
        if (auto* plan = std::get_if<Execute>(&send->message))
          found.push_back({send->to.node, std::move(*plan)});
    return found;
  }
  std::vector<SentPlan> beat(std::int64_t us) {
    effects = {};
    verifier.on_beat(at(us));
    return plans();
  }
  // Runs a heartbeat at which all workers are idle; returns the one plan that is sent.
  SentPlan send(std::int64_t us) {
    hear(us);
    std::vector<SentPlan> sent = beat(us);
    REQUIRE(sent.size() == 1);
    return std::move(sent.front());
  }
  void compute(std::int64_t us, const SentPlan& plan, const std::vector<double>& scores) {
    effects = {};
    CHECK(verifier.on_executed(at(us), {plan.node, Role::inference_worker}, result(plan.execute.id, scores)));
  }
  void refuse(std::int64_t us, const SentPlan& plan, const std::string& code) {
    effects = {};
    CHECK(verifier.on_refused(at(us), {plan.node, Role::inference_worker},
                              {plan.execute.id, {RefusalKind::unavailable, code}}));
  }
  std::vector<Effects::Log> logs() const {
    std::vector<Effects::Log> found;
    for (const auto& effect : effects.list)
      if (const auto* log = std::get_if<Effects::Log>(&effect)) found.push_back(*log);
    return found;
  }
  double counted(Metric metric) const {
    double sum = 0;
    for (const auto& effect : effects.list)
      if (const auto* count = std::get_if<Effects::Count>(&effect))
        if (count->metric == metric) sum += count->amount;
    return sum;
  }
};

std::string field(const Effects::Log& log, const std::string& name) {
  for (const LogField& field : log.fields)
    if (field.name == name) return field.value;
  return "(none)";
}

// ---- which answers ----

TEST_CASE("verification: the share of answers is chosen by their serials, and 0 chooses none") {
  for (const double share : {0.0, 0.25, 1.0}) {
    CAPTURE(share);
    Bench b({.share = share, .pending_max = 4'000});
    for (int i = 0; i < 4'000; ++i) b.answer(0);
    CHECK(static_cast<double>(b.verifier.pending()) == doctest::Approx(4'000 * share).epsilon(0.1));
  }
  Bench a({.share = 0.5}), b({.share = 0.5});
  for (int i = 0; i < 40; ++i) a.answer(0), b.answer(0);
  CHECK(a.send(1'000).execute.plan == b.send(1'000).execute.plan);
  CHECK(a.verifier.pending() == b.verifier.pending());
}

TEST_CASE("verification: answers beyond pending_max are left out and counted") {
  Bench b({.share = 1, .pending_max = 2});
  for (int i = 0; i < 5; ++i) b.answer(0);
  CHECK(b.verifier.pending() == 2);
  CHECK(b.verifier.dropped() == 3);
  CHECK(b.counted(Metric::verified_dropped) == 3);
}

TEST_CASE("verification: an answer with a repair is not chosen") {
  Bench b;
  Flight& flight = b.open(0);
  flight.plans.front().candidate.plan.repair.reused_spans.push_back({});
  b.verifier.note(b.at(0), flight, 1, Bench::result(flight.serial, scores));
  CHECK(b.verifier.is_idle());
}

// ---- when and where ----

TEST_CASE("verification: the plan is computed again in the background without any block") {
  Bench b;
  Flight& flight = b.open(0);
  b.hold_block(flight, SegmentKind::user, {1});
  flight.plans.front().candidate.blocks[0].at = 2;
  const Plan plan = flight.plans.front().candidate.plan;
  b.verifier.note(b.at(0), flight, 2, Bench::result(flight.serial, scores, 1));
  b.flights.close(b.at(0), flight);
  const SentPlan sent = b.send(1'000);
  CHECK(sent.node == 2);  // it answered
  CHECK(sent.execute.plan == plan);
  CHECK(sent.execute.priority == Priority::background);
  CHECK(sent.execute.blocks == std::vector<SegmentBlock>(1));
  CHECK(sent.execute.retention == Retention{});
  CHECK(sent.execute.model_version == "m");
  CHECK(sent.execute.budget_us == VerifyConfig{}.budget.us);
  CHECK(b.beat(1'001).empty());  // one at a time
}

TEST_CASE("verification: a worker is idle only without requests, waiting plans and busy slots") {
  struct Row {
    const char* what;
    void (*occupy)(Bench& b);
  };
  const Row rows[] = {
      {"a request that has no plan yet", [](Bench& b) { b.open(900); }},
      {"a request that runs there", [](Bench& b) { b.attempt(b.open(900), 1); }},
      {"plans that wait there",
       [](Bench& b) {
         Heartbeat beat = Bench::idle();
         beat.plans_waiting = 1;
         b.workers.hear({900}, 1, beat);
       }},
      {"a busy slot",
       [](Bench& b) {
         Heartbeat beat = Bench::idle();
         beat.slots_busy = 1;
         b.workers.hear({900}, 1, beat);
       }},
      {"a drain",
       [](Bench& b) {
         Heartbeat beat = Bench::idle();
         beat.draining = true;
         b.workers.hear({900}, 1, beat);
       }},
      {"a silence", [](Bench& b) { b.workers.lose(1); }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    Bench b({.share = 1}, {1});
    b.answer(0);
    row.occupy(b);
    CHECK(b.beat(1'000).empty());
    CHECK(b.verifier.pending() == 1);
    b.hear(1'100);
    while (b.flights.size() > 0)
      b.flights.close(b.at(1'100), *b.flights.find(b.flights.all().begin()->first));
    CHECK(b.beat(1'200).size() == 1);
  }
  Bench b;  // the other worker is idle
  b.answer(0, 1);
  b.attempt(b.open(900), 1);
  CHECK(b.send(1'000).node == 2);
}

TEST_CASE("verification: while requests come, the next one waits 199 times as long as the last one took") {
  Bench b;
  b.answer(0);
  b.answer(0);
  const SentPlan first = b.send(1'000);
  b.compute(1'100, first, scores);
  CHECK(b.plans().empty());
  b.hear(20'000);
  CHECK(b.beat(20'999).empty());
  CHECK(b.send(21'000).node == 1);
}

TEST_CASE("verification: the pause ends when no request has come for a while, or if an answer differed") {
  const std::int64_t second = 1'000'000, quiet = VerifyConfig{}.quiet_after.us;
  Bench b;
  b.answer(0);
  b.answer(0);
  const SentPlan first = b.send(second);
  b.flights.close(b.at(second), b.open(second));
  b.compute(2 * second, first, scores);  // 199 s of pause
  b.hear(3 * second);
  CHECK(b.beat(3 * second).empty());  // requests came before this heartbeat
  b.hear(3 * second + quiet - 1);
  CHECK(b.beat(3 * second + quiet - 1).empty());
  const SentPlan next = b.send(3 * second + quiet);
  b.flights.close(b.at(9 * second), b.open(9 * second));
  b.hear(9 * second);
  b.compute(9 * second, next, other_scores);
  CHECK(b.plans().size() == 1);
}

// ---- results ----

TEST_CASE("verification: an equal answer is counted, up to rounding of its largest value") {
  for (const double off : {0.0, 2.4e-4}) {
    Bench b;
    b.answer(0);
    b.compute(1'100, b.send(1'000), {scores[0], scores[1] + off});
    CHECK(b.verifier.equal() == 1);
    CHECK(b.counted(Metric::verified_equal) == 1);
    CHECK(b.logs().empty());
    CHECK(b.verifier.is_idle());
  }
}

TEST_CASE("verification: an answer that two recomputations contradict is reported with its request id") {
  Bench b;
  const Flight::Serial serial = b.answer(0, 1);
  const SentPlan first = b.send(1'000);
  b.compute(1'100, first, other_scores);
  CHECK(b.logs().empty());
  const std::vector<SentPlan> again = b.plans();
  REQUIRE(again.size() == 1);
  CHECK(first.node == 1);
  CHECK(again[0].node == 2);  // another worker judges
  b.compute(1'200, again[0], other_scores);
  CHECK(b.verifier.different() == 1);
  CHECK(b.counted(Metric::verified_different) == 1);
  const auto logs = b.logs();
  REQUIRE(logs.size() == 1);
  CHECK(logs[0].level == LogLevel::error);
  CHECK(logs[0].event == "answer_differs");
  CHECK(field(logs[0], "request_id") == "r-" + std::to_string(serial));
  CHECK(field(logs[0], "trace_id") == "00000000000000010000000000000002");
  CHECK(field(logs[0], "tenant") == "");
  CHECK(field(logs[0], "kind") == "score");
  CHECK(field(logs[0], "plan") == "score");
  CHECK(field(logs[0], "node") == "1");
  CHECK(field(logs[0], "by") == "1");
  CHECK(field(logs[0], "model") == "m");
  CHECK(field(logs[0], "largest") == "0.1");
  CHECK(field(logs[0], "bound") == "0.00025");
  CHECK(field(logs[0], "blocks_reused") == "1");
  CHECK(field(logs[0], "user") == "(none)");
}

TEST_CASE("verification: recomputations that contradict each other are reported as such") {
  Bench b;
  b.answer(0, 1);
  b.compute(1'100, b.send(1'000), other_scores);
  const std::vector<SentPlan> again = b.plans();
  REQUIRE(again.size() == 1);
  b.compute(1'200, again[0], scores);  // equals the answer
  CHECK(b.verifier.unstable() == 1);
  CHECK(b.verifier.different() == 0);
  CHECK(b.counted(Metric::verified_unstable) == 1);
  const auto logs = b.logs();
  REQUIRE(logs.size() == 1);
  CHECK(logs[0].level == LogLevel::warning);
  CHECK(logs[0].event == "recomputation_differs");
  CHECK(field(logs[0], "first") == "1");
  CHECK(field(logs[0], "second") == "2");
}

// ---- failures ----

TEST_CASE("verification: a refusal, a late or an invalid result is tried again, three times in all") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Bench b({.share = 1, .pause_factor = 0});
  b.answer(0);
  b.refuse(1'100, b.send(1'000), "overloaded");
  b.compute(2'100, b.send(2'000), {nan, 0});
  CHECK(b.logs().empty());
  std::vector<SentPlan> third = b.plans();
  REQUIRE(third.size() == 1);
  const std::int64_t late = 2'100 + VerifyConfig{}.budget.us + 1'000'000;
  b.hear(late);
  CHECK(b.beat(late - 1).empty());
  CHECK(b.verifier.running() == 1);
  CHECK(b.beat(late).empty());
  CHECK(b.verifier.is_idle());
  CHECK(b.verifier.dropped() == 1);
  CHECK_FALSE(b.verifier.on_executed(b.at(late + 1), {1, Role::inference_worker},
                                     Bench::result(third[0].execute.id, scores)));
}

TEST_CASE("verification: an answer of a model or catalog that is gone is dropped") {
  for (const char* code : {"wrong_model", "wrong_catalog"}) {
    Bench b;
    b.answer(0);
    b.refuse(1'100, b.send(1'000), code);
    CHECK(b.verifier.is_idle());
    CHECK(b.counted(Metric::verified_dropped) == 1);
  }
  Bench b;
  b.answer(0);
  Heartbeat other = Bench::idle();
  other.models = {"m2"};
  for (const NodeId node : {1U, 2U}) b.workers.hear({900}, node, other);
  CHECK(b.beat(1'000).empty());
  CHECK(b.verifier.is_idle());
  CHECK(b.verifier.dropped() == 1);
}

TEST_CASE("verification: a worker lost with it is a strike against the content, which is not tried again") {
  Bench b;
  b.answer(0);
  b.answer(0);
  const SentPlan first = b.send(1'000);
  b.effects = {};
  const NodeId other = 3 - first.node;
  b.verifier.lose(b.at(1'100), {&other, 1});
  CHECK(b.verifier.running() == 1);
  b.verifier.lose(b.at(1'100), {&first.node, 1});
  CHECK(b.attempts.is_suspect({1'100}, content));
  CHECK(b.sent<Suspect>().size() == 1);
  CHECK(b.verifier.running() == 0);
  CHECK(b.beat(1'200).empty());  // the other answer is of the same content
  CHECK(b.verifier.is_idle());
  CHECK(b.verifier.dropped() == 2);
}

TEST_CASE("verification: only the worker that was asked answers") {
  Bench b;
  b.answer(0);
  const SentPlan sent = b.send(1'000);
  CHECK(b.verifier.on_executed(b.at(1'001), {3 - sent.node, Role::inference_worker},
                               Bench::result(sent.execute.id, other_scores)));
  CHECK(b.verifier.running() == 1);
  CHECK_FALSE(b.verifier.on_executed(b.at(1'002), {sent.node, Role::inference_worker},
                                     Bench::result(sent.execute.id + 1, scores)));
  CHECK_FALSE(b.verifier.on_refused(b.at(1'002), {sent.node, Role::inference_worker},
                                    {sent.execute.id + 1, {RefusalKind::unavailable, "overloaded"}}));
}

}  // namespace answer_verifier_test
}  // namespace troupe::router
