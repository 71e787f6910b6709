#include "deploy/lab/bench/bench_serve.h"

#include <doctest/doctest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "server/http/http_server.h"

using namespace troupe;
using namespace troupe::deploy;

namespace bench_serve_test {

constexpr Address router_address{1, Role::router};

// An HTTP server with a fake router. The user "nobody" is refused; other users' requests reuse 4 of 10
// tokens.
struct Service {
  MetricRegistry metrics;
  std::mutex noting;
  std::vector<std::string> notes;  // tenant/user of each write and request, in order
  server::HttpServer http_server;

  Service()
      : http_server(
            config(), [this](Address, Message m) { act(m); }, metrics) {
    http_server.open();
  }
  static server::HttpServerConfig config() {
    server::HttpServerConfig config;
    config.port = 0;
    config.router = router_address;
    config.actors = {router_address};
    return config;
  }
  void note(const std::string& what) {
    const std::lock_guard lock(noting);
    notes.push_back(what);
  }
  void act(const Message& message) {
    if (const auto* put = std::get_if<PutUser>(&message)) {
      note("write " + put->tenant + "/" + put->user);
      if (put->user == "nobody")
        return http_server.deliver(Refused{
            put->id, {RefusalKind::unprocessable, "unknown_item", "no such item", "history", "items"}});
      return http_server.deliver(Stored{put->id, 7});
    }
    const auto* asks = std::get_if<RankRequest>(&message);
    if (!asks) return;
    note("ask " + asks->tenant + "/" + asks->user);
    if (asks->user == "nobody")
      return http_server.deliver(
          Refused{asks->id, {RefusalKind::not_found, "unknown_user", "no such user", "user", "a known one"}});
    RankReply reply;
    reply.id = asks->id, reply.user = asks->user, reply.plan = "item";
    reply.arrangement = asks->arrangement;
    if (asks->arrangement != Arrangement::unnamed) note("as " + std::string(word_of(asks->arrangement)));
    reply.tokens_total = 10, reply.tokens_reused = 4, reply.tokens_computed = 6;
    http_server.deliver(reply);
  }
  ServeBenchOptions ask() const {
    ServeBenchOptions ask;
    ask.server.server = "http://127.0.0.1:" + std::to_string(http_server.port());
    ask.connections = 2;
    ask.closed = true;
    return ask;
  }
};

Questions of(std::vector<RankRequest> requests, std::int64_t at_us = 0) {
  return [requests = std::move(requests), at_us, next = std::size_t{0}](Question& question) mutable {
    if (next == requests.size()) return false;
    question = {.request = requests[next++], .truth = "", .at = {at_us}};
    return true;
  };
}
RankRequest by(const char* user, const char* tenant = "") {
  return {.tenant = tenant, .user = user, .candidates = {"a"}};
}

TEST_SUITE("bench serve") {
  TEST_CASE("run_serve_bench: answers are counted with their reuse, errors by status and code") {
    Service service;
    const ServeRun run =
        run_serve_bench(service.ask(), of({by("ana"), by("nobody"), by("bob", "b"), by("nobody")}));
    CHECK(run.requests == 4);
    CHECK(run.answered == 2);
    CHECK(run.tokens_total == 20);
    CHECK(run.tokens_reused == 8);
    CHECK(run.with_reuse == 2);
    CHECK(run.plans.at("item") == 2);
    CHECK(run.errors == std::map<std::string, std::uint64_t>{{"404 unknown_user", 2}});
    CHECK(run.connects <= 2);
    CHECK(std::ranges::find(service.notes, "ask b/bob") != service.notes.end());
    CHECK(to_json(run)["loop"] == "closed");
    CHECK(run.due.p50_ms <= run.due.p99_ms);
  }

  TEST_CASE("run_serve_bench: each ranking names the arrangement of the options") {
    Service service;
    ServeBenchOptions ask = service.ask();
    ask.arrangement = "causal";
    CHECK(run_serve_bench(ask, of({by("ana"), by("bob")})).answered == 2);
    CHECK(std::ranges::count(service.notes, "as causal") == 2);
    ask.arrangement = "sideways";
    CHECK(run_serve_bench(ask, of({by("ana")})).errors ==
          std::map<std::string, std::uint64_t>{{"400 unknown_arrangement", 1}});
  }

  TEST_CASE("run_serve_bench: latency counts from the due time in an open loop, not in a closed one") {
    Service service;
    ServeBenchOptions ask = service.ask();
    constexpr std::int64_t hour_ago = -3'600'000'000;
    ServeRun run = run_serve_bench(ask, of({by("ana")}, hour_ago));
    CHECK(run.due.p50_ms < 3'600'000);
    CHECK(run.late == 0);
    ask.closed = false;
    run = run_serve_bench(ask, of({by("ana")}, hour_ago));
    CHECK(run.due.p50_ms >= 3'600'000);
    CHECK(run.sent.p50_ms < 3'600'000);
    CHECK(run.late == 1);
    CHECK(run.late_ms_max >= 3'600'000);
    CHECK(to_json(run)["sent_late"] == 1);
  }

  TEST_CASE(
      "run_serve_bench: a stopped service counts as no answer, and an exception of questions ends the run") {
    Service service;
    service.http_server.close();
    const ServeRun run = run_serve_bench(service.ask(), of({by("ana"), by("bob")}));
    CHECK(run.answered == 0);
    REQUIRE(run.errors.size() == 1);
    CHECK(run.errors.begin()->first.starts_with("no answer: "));
    CHECK(run.errors.begin()->second == 2);
    CHECK_THROWS_WITH(
        run_serve_bench(service.ask(), [](Question&) -> bool { throw std::runtime_error("line 7"); }),
        "line 7");
  }

  TEST_CASE("profile writer: profiles are written per tenant, and a refusal throws with its reason") {
    Service service;
    ProfileWriter writer(service.ask());
    writer.write({{0, "", "ana", {"a"}, {}}, {0, "b", "bob", {"a"}, {}}});
    CHECK(writer.written() == 2);
    CHECK(service.notes == std::vector<std::string>{"write /ana", "write b/bob"});
    CHECK_THROWS_WITH_AS(writer.write({{0, "", "nobody", {"a"}, {}}}), doctest::Contains("unknown_item"),
                         std::runtime_error);
  }

  TEST_CASE(
      "generated questions: they use the given users and items, follow the seed, and have the given rate") {
    const auto draw = [](std::uint64_t seed) {
      GeneratedTraceOptions options{.common = {.candidates = 3, .seed = seed}};
      options.catalog = {"a", "b", "c", "d"};
      options.items = 4;
      std::string all;
      Question question;
      for (Questions questions =
               at_rate(generated_questions(options, {"ana", "bob"}, 5), "constant", 1000, seed);
           questions(question);) {
        const RankRequest& request = std::get<RankRequest>(question.request);
        CHECK((request.user == "ana" || request.user == "bob"));
        CHECK(request.candidates.size() == 3);
        all += std::to_string(question.at.us) + request.user + request.candidates[0] + " ";
      }
      return all;
    };
    CHECK(draw(1) == draw(1));
    CHECK(draw(1) != draw(2));
    CHECK(draw(1).find("4000") != std::string::npos);
  }
}

}  // namespace bench_serve_test
