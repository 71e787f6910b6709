// Tests that the router moves what it keeps: the data of a request, a plan and an answer keep their
// addresses on the way through the router.
#include "router/testing/router_core_test.h"

namespace troupe::router {
namespace router_moves_test {

// A core whose effects the test reads where they are.
struct Bench {
  explicit Bench(RouterConfig config = small_config()) : core(std::move(config)) {}
  RouterCore core;
  Effects effects;

  template <class Kind>
  void step(Kind kind) {
    effects = {};
    core.step({0}, Event(std::move(kind)), effects);
  }
  template <class T>
  const T& sent() const {
    for (const auto& effect : effects.list)
      if (const auto* send = std::get_if<Effects::Send>(&effect))
        if (const auto* message = std::get_if<T>(&send->message)) return *message;
    FAIL("the router sent no such message");
    throw std::logic_error("unreachable");
  }
  template <class T>
  const T& started() const {
    for (const auto& effect : effects.list)
      if (const auto* start = std::get_if<Effects::Start>(&effect))
        if (const auto* work = std::get_if<T>(&start->work)) return *work;
    FAIL("the router started no such job");
    throw std::logic_error("unreachable");
  }
};

RouterConfig generator_config() {
  RouterConfig config = small_config();
  config.form.discriminant = {};
  return config;
}

// Too long for a string's own bytes, so that it has an address of its own.
const std::string long_name(40, 'x');

TEST_CASE("moves: a request's texts are moved from the message to its reply") {
  Bench b;
  RankRequest request{.id = 1, .user = long_name, .candidates = {"a", "b"}, .policy = "recompute"};
  const char* user = request.user.data();
  b.step(Received{server, std::move(request)});
  b.step(JobDone{101, test_features()});
  const std::uint64_t serial = b.sent<Execute>().id;
  b.step(Received{worker, Executed{serial, {{{1, 2}}}, {0, 0, 0, 0, 0, 0}, 0, 0, 0, 0, "model 1"}});
  CHECK(b.sent<RankReply>().user.data() == user);
}

TEST_CASE("moves: the tokens of a request are those of the plan that the worker gets") {
  Bench b(generator_config());
  CompleteRequest complete{.id = 1, .prompt = std::vector<Token>(20, 7)};
  const Token* prompt = complete.prompt.data();
  b.step(Received{server, std::move(complete)});
  CHECK(b.sent<Execute>().plan.segments.at(0).tokens.data() == prompt);
  ScoreRequest score{.id = 2, .query = {1, 2}, .items = {{{3, 4}}}};
  score.label_tokens = {5};
  const Token *query = score.query.data(), *item = score.items[0].tokens.data();
  b.step(Received{server, std::move(score)});
  CHECK(b.sent<Execute>().plan.segments.at(0).tokens.data() == query);
  CHECK(b.sent<Execute>().plan.segments.at(1).tokens.data() == item);
}

TEST_CASE("moves: every plan shares its tokens with the catalog") {
  Bench b;
  b.step(Received{server, RankRequest{.id = 1, .user = "ann", .candidates = {"a"}, .policy = "recompute"}});
  const Features features = features_of(test_features().user, {test_item("a")}, "catalog 1");
  const Token* tokens = features.catalog->item(features.items.at(0)).tokens.data();
  b.step(JobDone{101, features});
  const Execute& execute = b.sent<Execute>();
  const auto item = std::ranges::find(execute.plan.segments, SegmentKind::item, &Segment::kind);
  REQUIRE(item != execute.plan.segments.end());
  CHECK(item->tokens.data() == tokens);
}

TEST_CASE("moves: scores are moved from the worker's answer to the reply") {
  Bench b;
  ScoreRequest request{.id = 1, .items = {{{3, 4}}}};
  request.label_tokens = {1, 2};
  b.step(Received{server, std::move(request)});
  Executed executed{b.sent<Execute>().id, {{{1, 2}}}, {0}, 0, 0, 0, 0, "model 1"};
  const double* scores = executed.readouts[0].scores.data();
  b.step(Received{worker, std::move(executed)});
  CHECK(b.sent<ScoreReply>().items.at(0).scores.data() == scores);
}

TEST_CASE("moves: a write's history is moved into its job, and what a read found into the reply") {
  Bench b;
  PutUser put{.id = 1, .tenant = "t", .user = "ann", .tokens = std::vector<Token>(20, 7)};
  const Token* history = put.tokens.data();
  b.step(Received{server, std::move(put)});
  const auto& job = std::get<PutUser>(b.started<Write>().what);
  CHECK(job.tokens.data() == history);
  b.step(JobDone{100, WriteResult{}});
  b.step(Received{server, GetUser{.id = 2, .tenant = "t", .user = "ann"}});
  UserReply found{.user = "ann", .tokens = std::vector<Token>(20, 7)};
  const Token* tokens = found.tokens.data();
  b.step(JobDone{101, std::move(found)});
  CHECK(b.sent<UserReply>().tokens.data() == tokens);
}

TEST_CASE("moves: the paths of a search are moved into the reply") {
  Bench b(generator_config());
  b.step(Received{server, CompleteRequest{.id = 1, .prompt = {7, 8}, .max_tokens = 3}});
  Executed executed{b.sent<Execute>().id, {}, {0}, 0, 0, 0, 0, "model 1"};
  executed.beams = {{{1, 2, 3}, -1}};
  const Token* path = executed.beams[0].path.data();
  b.step(Received{worker, std::move(executed)});
  CHECK(b.sent<CompleteReply>().completions.at(0).path.data() == path);
}

}  // namespace router_moves_test
}  // namespace troupe::router
