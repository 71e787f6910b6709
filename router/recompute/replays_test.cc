// Tests what is recorded of answers, and how a recorded request is computed again.
#include "router/recompute/replays.h"

#include <string>

#include "router/testing/flights_test.h"

namespace troupe::router {
namespace replays_test {

constexpr Address operator_of{1, Role::server}, other_router{8, Role::router};
const std::vector<double> logits{1.5, -2.5};

struct Bench : AttemptsBench {
  explicit Bench(ReplayConfig config = recording())
      : AttemptsBench({1, 2}, {7, 8, 9}), replay_config(config) {
    hear(0, {"m"});
  }
  static ReplayConfig recording() { return {.keep = {3'600'000'000}}; }

  ReplayConfig replay_config;
  PromptForm form;
  LeaderView leader{{4}, {1'000}};
  VersionKeeper versions{{.model_version = "m"}, false};
  Availability availability{{}, versions, workers, leader};
  Replays replays{
      {replay_config, form, {1'000}}, availability, versions, workers, {members, 7}, attempts, outcomes};

  void hear(std::int64_t us, std::vector<std::string> models) {
    Heartbeat beat{.incarnation = 5, .sequence = ++beats, .slots = 1};
    beat.models = std::move(models);
    for (const NodeId node : workers.nodes()) workers.hear({us}, node, beat);
  }
  std::uint64_t beats = 0;

  // Answers a request that scores an item.
  void answer(const std::string& id, std::vector<double> scores = logits, std::uint32_t tokens = 4) {
    Flight flight = flight_of(tokens);
    ScoreRequest request{.id = flight.origin.id, .tenant = "t"};
    request.client_request_id = id;
    flight.request = take_score(std::move(request), policy("bat"));
    Flight& added = flights.add(at(0), std::move(flight));
    replays.note(at(1), added, 2, {added.serial, {{std::move(scores)}}, {1}, 0, 0, 0, 0, "m"});
    flights.close(at(1), added);
  }
  // Returns the job started since the last call, which must be of this kind.
  template <class T>
  T started() {
    std::optional<T> found;
    for (auto& effect : std::exchange(effects, {}).list)
      if (auto* start = std::get_if<Effects::Start>(&effect)) {
        REQUIRE(std::holds_alternative<T>(start->work));
        REQUIRE_FALSE(found);
        found = std::get<T>(std::move(start->work));
        job = start->job;
      }
    REQUIRE(found);
    return *std::move(found);
  }
  bool starts_nothing() {
    for (const auto& effect : effects.list)
      if (std::holds_alternative<Effects::Start>(effect)) return false;
    return true;
  }
  std::uint64_t job = 0;
  void done(JobResult result) { CHECK(replays.on_done(at(2), job, result)); }

  // Runs the sweep of the start.
  void begin() {
    replays.on_beat(at(0));
    started<SweepRecords>();
    done(RecordsChanged{});
    effects = {};
  }
  // Answers a request and returns its record.
  AnswerRecord record(const std::string& id, std::vector<double> scores = logits) {
    answer(id, std::move(scores));
    const KeepRecords kept = started<KeepRecords>();
    REQUIRE(kept.records.size() == 1);
    done(RecordsChanged{.records = 1, .bytes = 10});
    return kept.records.front();
  }
  void ask(RequestId id, const std::string& request_id, bool forwarded = false, Address from = operator_of) {
    replays.on_request(at(3), from, {id, request_id, forwarded, "t"});
  }
  // Asks for a record and has the store find it.
  void find(RequestId id, const AnswerRecord& record) {
    ask(id, record.reply.request_id);
    CHECK(started<FindRecord>().request_id == record.reply.request_id);
    done(FoundRecord{record});
  }
  struct SentPlan {
    NodeId node = 0;
    Execute execute;
  };
  SentPlan plan() {
    SentPlan found;
    for (auto& effect : std::exchange(effects, {}).list)
      if (auto* send = std::get_if<Effects::Send>(&effect))
        if (auto* execute = std::get_if<Execute>(&send->message))
          found = {send->to.node, std::move(*execute)};
    REQUIRE(found.node != 0);
    return found;
  }
  void execute(const SentPlan& plan, std::vector<double> scores) {
    CHECK(replays.on_executed(at(5), {plan.node, Role::inference_worker},
                              {plan.execute.id, {{std::move(scores)}}, {0}, 0, 0, 0, 0, "m"}));
  }
  ReplayReply reply() {
    const auto replies = sent<ReplayReply>();
    REQUIRE(replies.size() == 1);
    return replies.front();
  }
  Refusal refusal() {
    const auto refused = sent<Refused>();
    REQUIRE(refused.size() == 1);
    return refused.front().refusal;
  }
};

TEST_CASE("replays: nothing is recorded and no job is started while recording is off") {
  Bench b(ReplayConfig{});
  b.replays.on_beat(b.at(0));
  b.answer("r1");
  b.replays.forget_user(b.at(2), "t", "ann");
  CHECK(b.starts_nothing());
  CHECK(b.replays.pending() == 0);
  b.effects = {};
  b.ask(9, "r1");
  const Refusal refusal = b.refusal();
  CHECK(refusal.code == "replay_off");
  CHECK(refusal.where == "replay.keep");
}

TEST_CASE("replays: an answer is recorded with its plan, its values and nothing of the cache") {
  Bench b;
  b.begin();
  const AnswerRecord record = b.record("r1");
  CHECK(record.reply.request_id == "r1");
  CHECK(record.reply.kind == "score");
  CHECK(record.reply.tenant == "t");
  CHECK(record.reply.model_version == "m");
  REQUIRE(record.reply.values.size() == 2);
  CHECK(record.reply.values[0].name == "items[0], token 1");
  CHECK(record.reply.values[1].recorded == -2.5);
  CHECK(record.plan.priority == Priority::background);
  CHECK(record.plan.plan.segments.front().tokens.size() == 4);
  for (const SegmentBlock& block : record.plan.blocks) CHECK_FALSE(block.name);
  CHECK(record.answer.readouts.front().scores == logits);
  CHECK(b.replays.records() == 1);
  CHECK(b.replays.bytes() == 10);
}

TEST_CASE("replays: one job runs at a time; what it cannot take waits, up to the bound") {
  ReplayConfig config = Bench::recording();
  config.pending_max = 2;
  Bench b(config);
  b.begin();
  b.answer("r1");
  CHECK(b.started<KeepRecords>().records.size() == 1);
  for (const char* id : {"r2", "r3", "r4"}) b.answer(id);
  CHECK(b.starts_nothing());
  CHECK(b.replays.pending() == 2);
  CHECK(b.replays.lost() == 1);
  b.done(RecordsChanged{});
  const KeepRecords next = b.started<KeepRecords>();
  REQUIRE(next.records.size() == 2);
  CHECK(next.records[1].reply.request_id == "r3");
  b.done(RecordsChanged{.lost = 1, .why = "disk full"});
  CHECK(b.replays.lost() == 2);
}

TEST_CASE("replays: large plans wait up to a bound of tokens, but one is always taken") {
  ReplayConfig config = Bench::recording();
  config.pending_tokens_max = 10;
  Bench b(config);
  b.begin();
  b.answer("r1", logits, 40);
  CHECK(b.started<KeepRecords>().records.size() == 1);
  b.answer("r2", logits, 8);
  b.answer("r3", logits, 8);
  CHECK(b.replays.pending() == 1);
  CHECK(b.replays.lost() == 1);
}

TEST_CASE("replays: a failing store is logged once, until records are stored again") {
  Bench b;
  b.begin();
  const auto logged = [&] {
    std::size_t lines = 0;
    for (const auto& effect : b.effects.list) lines += std::holds_alternative<Effects::Log>(effect);
    return lines;
  };
  const auto fail = [&](const char* id) {
    b.answer(id);
    b.started<KeepRecords>();
    b.done(RecordsChanged{.lost = 1, .why = "the disk is full"});
  };
  fail("r1");
  CHECK(logged() == 1);
  b.effects = {};
  fail("r2");
  CHECK(logged() == 0);
  b.record("r3");
  b.effects = {};
  fail("r4");
  CHECK(logged() == 1);
}

TEST_CASE("replays: a deletion goes before answers that wait, and takes the user's with it") {
  Bench b;
  b.begin();
  b.answer("r1");
  b.started<KeepRecords>();
  b.answer("r2");
  b.replays.forget_user(b.at(2), "t", "");
  b.replays.forget_user(b.at(2), "t", "bob");
  CHECK(b.replays.pending() == 0);
  b.replays.on_beat(b.at(2'000));  // requests of before the deletion have ended
  b.answer("r3");
  b.done(RecordsChanged{});
  CHECK(b.started<DropRecords>().of == std::vector<RecordOwner>{{"t", ""}, {"t", "bob"}});
  b.done(RecordsChanged{});
  CHECK(b.started<KeepRecords>().records.front().reply.request_id == "r3");
}

TEST_CASE("replays: an answer that was in flight when its user was deleted is not recorded") {
  Bench b;
  b.begin();
  b.replays.forget_user(b.at(0), "t", "");  // the requests name no user
  b.started<DropRecords>();
  b.done(RecordsChanged{});
  b.effects = {};
  b.answer("r1");
  CHECK(b.starts_nothing());
  b.replays.on_beat(b.at(1'001));  // no request of that time is in flight any more
  b.answer("r2");
  b.started<KeepRecords>();
}

TEST_CASE("replays: storing goes on between the parts of a sweep") {
  Bench b;
  b.replays.on_beat(b.at(0));
  b.started<SweepRecords>();
  b.answer("r1");
  b.done(RecordsChanged{.more = true});
  b.started<KeepRecords>();
  b.answer("r2");
  b.done(RecordsChanged{});
  b.started<SweepRecords>();
  b.done(RecordsChanged{});
  b.started<KeepRecords>();
}

TEST_CASE("replays: too many deletions at once become a sweep; sweeps come every minute") {
  ReplayConfig config = Bench::recording();
  config.deleted_max = 1;
  Bench b(config);
  b.begin();
  b.answer("r1");
  b.started<KeepRecords>();
  b.replays.forget_user(b.at(2), "t", "ann");
  b.replays.forget_user(b.at(2), "t", "bob");
  CHECK(b.replays.deleted() == 1);
  b.done(RecordsChanged{});
  b.started<DropRecords>();
  b.done(RecordsChanged{});
  b.started<SweepRecords>();
  b.done(RecordsChanged{});
  b.effects = {};
  b.replays.on_beat(b.at(59'000'000));
  CHECK(b.starts_nothing());
  b.replays.on_beat(b.at(60'000'001));
  b.started<SweepRecords>();
}

TEST_CASE("replays: a record is computed again without blocks, and equal up to rounding") {
  Bench b;
  b.begin();
  const AnswerRecord record = b.record("r1");
  b.find(9, record);
  const Bench::SentPlan plan = b.plan();
  CHECK(plan.execute.plan == record.plan.plan);
  CHECK(plan.execute.priority == Priority::background);
  CHECK(plan.execute.budget_us > 0);
  b.execute(plan, {1.5 + 2e-5, -2.5});
  const ReplayReply reply = b.reply();
  CHECK(reply.id == 9);
  CHECK(reply.request_id == "r1");
  CHECK(reply.node == plan.node);
  CHECK(reply.values[0].recorded == 1.5);
  CHECK(reply.values[0].replayed == 1.5 + 2e-5);
  CHECK(reply.largest_difference == doctest::Approx(2e-5));
  CHECK(reply.bound == doctest::Approx(2.5e-5));
  CHECK(reply.equal);
  CHECK(b.replays.running() == 0);
  b.find(10, record);
  b.execute(b.plan(), {1.5 + 3e-5, -2.5});
  CHECK_FALSE(b.reply().equal);
}

TEST_CASE("replays: a request that was just answered is found before it is stored") {
  Bench b;
  b.begin();
  b.answer("r1");
  b.started<KeepRecords>();
  b.answer("r2", {7, 8});
  b.ask(9, "r2");
  b.execute(b.plan(), {7, 8});
  CHECK(b.reply().equal);
}

TEST_CASE("replays: a version that is gone is named, with those that are served") {
  Bench b;
  b.begin();
  AnswerRecord record = b.record("r1");
  record.plan.model_version = "m0";
  b.find(9, record);
  const Refusal refusal = b.refusal();
  CHECK(refusal.code == "version_gone");
  CHECK(refusal.what.find("answered by model m0, which is no longer served") != std::string::npos);
  CHECK(refusal.expected.find("served now: m)") != std::string::npos);
  CHECK(b.replays.running() == 0);
}

TEST_CASE("replays: another worker computes what one refuses; a catalog that is gone is named") {
  Bench b;
  b.begin();
  const AnswerRecord record = b.record("r1");
  b.find(9, record);
  const Bench::SentPlan first = b.plan();
  const auto refuse = [&](const Bench::SentPlan& plan, const char* code) {
    CHECK(b.replays.on_refused(b.at(5), {plan.node, Role::inference_worker},
                               {plan.execute.id, {RefusalKind::unavailable, code}}));
  };
  refuse(first, "overloaded");
  const Bench::SentPlan second = b.plan();
  CHECK(second.node != first.node);
  refuse(first, "overloaded");  // late
  CHECK(b.sent<Refused>().empty());
  refuse(second, "draining");
  CHECK(b.refusal().code == "draining");
  b.find(10, record);
  refuse(b.plan(), "wrong_catalog");
  refuse(b.plan(), "wrong_catalog");
  CHECK(b.refusal().code == "version_gone");
  b.find(11, record);
  refuse(b.plan(), "device_failed");  // the other device may fail of it too
  CHECK(b.refusal().code == "device_failed");
}

TEST_CASE("replays: a worker that is lost ends the replay, and the deadline does") {
  Bench b;
  b.begin();
  const AnswerRecord record = b.record("r1");
  b.find(9, record);
  const Bench::SentPlan sent = b.plan();
  CHECK(sent.execute.alone);
  b.replays.lose(b.at(5), std::vector<NodeId>{sent.node});
  CHECK(b.refusal().code == "worker_lost");
  b.find(10, record);
  CHECK(b.refusal().code == "poison");
  AnswerRecord other = record;
  other.fingerprint = 2;
  b.find(11, other);
  const std::uint64_t serial = b.plan().execute.id;
  b.replays.on_deadline(b.at(1'003), serial);
  CHECK(b.refusal().code == "deadline_exceeded");
  CHECK_FALSE(b.replays.on_executed(b.at(1'004), {1, Role::inference_worker}, {serial}));
}

TEST_CASE("replays: without a record the other routers are asked, and their first reply is passed on") {
  Bench b;
  b.begin();
  b.ask(9, "r1");
  b.started<FindRecord>();
  b.done(FoundRecord{});
  const auto asked = b.sent<ReplayRequest>();
  REQUIRE(asked.size() == 2);  // routers 8 and 9
  CHECK(asked[0].forwarded);
  CHECK(asked[0].request_id == "r1");
  CHECK(
      b.replays.on_refused(b.at(5), {9, Role::router}, {asked[0].id, {RefusalKind::not_found, "no_record"}}));
  b.replays.on_reply(b.at(6), other_router, {.id = asked[0].id, .request_id = "r1", .equal = true});
  const ReplayReply reply = b.reply();
  CHECK(reply.id == 9);
  CHECK(reply.equal);
  b.replays.on_reply(b.at(7), other_router, {.id = asked[0].id, .request_id = "r1"});
  CHECK(b.sent<ReplayReply>().empty());
}

TEST_CASE("replays: nobody's record is refused once all have said so or are lost, with the retention") {
  Bench b;
  b.begin();
  b.ask(9, "r1");
  b.started<FindRecord>();
  b.done(FoundRecord{});
  const RequestId id = b.sent<ReplayRequest>().at(0).id;
  b.replays.on_refused(b.at(5), other_router, {id, {RefusalKind::not_found, "replay_off"}});
  CHECK(b.sent<Refused>().empty());
  b.replays.lose_router(b.at(6), 9);
  const Refusal refusal = b.refusal();
  CHECK(refusal.code == "no_record");
  CHECK(refusal.expected.find("3600 s") != std::string::npos);
}

TEST_CASE("replays: another router's refusal names the version there; its silence is named") {
  Bench b;
  b.begin();
  const auto ask = [&](RequestId id) {
    b.ask(id, "r1");
    b.started<FindRecord>();
    b.done(FoundRecord{});
    return b.sent<ReplayRequest>().at(0).id;
  };
  const RequestId first = ask(9);
  b.replays.on_refused(b.at(5), other_router, {first, {RefusalKind::conflict, "version_gone"}});
  CHECK(b.sent<Refused>().empty());  // the third router may have the record
  b.replays.on_refused(b.at(5), {9, Role::router}, {first, {RefusalKind::not_found, "no_record"}});
  CHECK(b.refusal().code == "version_gone");
  const RequestId id = ask(10);
  b.replays.on_refused(b.at(5), other_router, {id, {RefusalKind::not_found, "no_record"}});
  b.replays.on_deadline(b.at(1'003), id);
  CHECK(b.refusal().what.find("router 9 did not") != std::string::npos);
}

TEST_CASE("replays: a forwarded request is not forwarded again") {
  Bench b;
  b.begin();
  b.ask(9, "r1", true, other_router);
  b.started<FindRecord>();
  b.done(FoundRecord{});
  CHECK(b.refusal().code == "no_record");
}

TEST_CASE("replays: requests are bounded, copies are ignored, and ids are checked") {
  Bench b;
  b.begin();
  for (RequestId id = 1; id <= 4; ++id) b.ask(id, "r1");
  b.ask(4, "r1");
  CHECK(b.replays.running() == 4);
  b.effects = {};
  b.ask(5, "r1");
  CHECK(b.refusal().code == "overloaded");
  Bench other;
  other.ask(6, "");
  CHECK(other.refusal().code == "bad_request_id");
  other.ask(7, std::string(129, 'x'));
  CHECK(other.refusal().code == "bad_request_id");
}

TEST_CASE("replays: a request without an id of its client or a trace is not recorded") {
  Bench b;
  b.begin();
  b.answer("");
  CHECK(b.starts_nothing());
}

}  // namespace replays_test
}  // namespace troupe::router
