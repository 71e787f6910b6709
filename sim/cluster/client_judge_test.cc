// Tests of the clients' judgement. Each check gets an outcome that it must reject and a similar one that it
// must accept. The outcomes are made up here: a router is paused when a request arrives and then replaced,
// so that the request is lost.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "router/fleet/fingerprint.h"
#include "router/fleet/versions.h"
#include "router/request/ranking.h"
#include "runtime/actor/message_id.h"
#include "runtime/actor/user_home.h"
#include "sim/cluster/clients.h"
#include "sim/world/expected_results.h"

using namespace troupe;
using namespace troupe::sim;

namespace client_judge_test {

constexpr std::int64_t way_us = 100;  // latency of a message from outside
constexpr NodeId first = 1, second = 2;

Scenario calm(bool harmless = false) {
  Scenario s;
  s.routers = 2;
  s.link.latency_min = s.link.latency_max = {way_us};
  s.precompute = false;
  s.whole_catalogs = true;
  s.tenants = 1;
  s.harmless = harmless;
  return s;
}

struct JudgeBench {
  Violations violations;
  Cluster cluster;
  Clients clients{cluster, violations};
  RequestId last = 0;
  std::size_t seen = 0;

  explicit JudgeBench(const Scenario& scenario = calm()) : cluster(scenario, violations) {
    cluster.start();
    run(1'000'000);
    cluster.coordination().faults().slowness = 1e9;  // only this test changes the served versions
  }
  // Loses the requests just sent.
  void lose() {
    for (const NodeId router : {first, second}) cluster.host().pause(router);
    run(way_us);
    for (const NodeId router : {first, second}) cluster.host().restart(router);
    ++last;
  }
  void run(std::int64_t us) { cluster.host().run_until(cluster.now() + Duration{us}); }
  std::int64_t heartbeat() { return cluster.scenario().heartbeat.us; }

  // Names neither policy nor arrangement, so that `right` answers it.
  RankRequest rank(const std::string& user = "u1") {
    RankRequest request = clients.draw_for("", user);
    request.policy.clear();
    request.approximate = -1;
    request.arrangement = Arrangement::unnamed;
    return request;
  }
  RankRequest ask(const RankRequest& request) {
    clients.ask(request);
    lose();
    RankRequest asked = request;
    asked.id = last;
    return asked;
  }
  void ask_other(const Message& request) { clients.ask(request), lose(); }
  void reload(const std::string& model, const std::string& catalog, double share = 1) {
    clients.reload(model, catalog, share), lose();
  }
  void ask_nonsense() {
    clients.set_malformed(1);
    clients.start(cluster.now(), cluster.now() + Duration{1});
    run(0);
    REQUIRE(clients.open() == 1);
    lose();
  }
  RankRequest ask() { return ask(rank()); }
  NodeId router() { return clients.open_at(first) > 0 ? first : second; }
  // Answer of a correct cluster.
  RankReply right(const RankRequest& request, std::uint64_t version = 0, const std::string& model = "m1",
                  const std::string& catalog = "c1", std::uint32_t of = 0) {
    const WorldData& world = cluster.world();
    const auto profile =
        world.profile("", request.user, version ? version : world.profile_version("", request.user));
    std::vector<Item> items;
    for (const std::string& id : request.candidates) items.push_back(*world.item(id, catalog));
    const auto truth = *expected_ranking(cluster.form(), model, "user", *profile, items, cluster.family(of));
    RankReply reply{.id = request.id, .user = request.user, .plan = "user"};
    reply.items = router::rank_items(views(items), truth.scores, request.top_k);
    reply.tokens_total = reply.tokens_computed = truth.tokens;
    reply.history_cut = truth.history_cut;
    reply.arrangement = truth.arrangement;
    reply.model_version = model, reply.catalog_version = catalog, reply.profile_version = profile->version;
    return reply;
  }
  void answer(NodeId at, const Message& message) {
    cluster.host().post({at, Role::server}, {at, Role::router}, message);
    run(way_us);
  }
  void answer(const Message& message) { answer(router(), message); }
  void refuse(RefusalKind kind, const std::string& code, NodeId at = 0) {
    answer(at ? at : router(), Refused{last, {kind, code, "what", "where", "expected"}});
  }
  void serve(const std::string& model, const std::string& catalog, const std::string& next = "",
             std::uint32_t share = Versions::all_users) {
    Coordinate question{ReadKey{"versions"}};
    const auto present =
        std::get<CoordinationReply>(cluster.coordination().ask(cluster.now(), first, question));
    const Versions versions{0, model, catalog, next, "", share};
    question.what = WriteKey{"versions", router::versions_text(versions), present.revision};
    REQUIRE(std::get<CoordinationReply>(cluster.coordination().ask(cluster.now(), first, question)).ok);
  }
  // Returns the first violation since the last call, as "4: …"; "" if there is none.
  std::string verdict() {
    const std::size_t before = std::exchange(seen, violations.kept().size());
    if (before == seen) return "";
    const Violation& violation = violations.kept()[before];
    return std::to_string(violation.promise) + ": " + violation.what;
  }
  bool finds(int promise, const std::string& words) {
    const std::string found = verdict();
    CAPTURE(found);
    CHECK(found.starts_with(std::to_string(promise) + ": "));
    return found.find(words) != std::string::npos;
  }
};

TEST_SUITE("client judge") {
  TEST_CASE("client judge: a correct answer is accepted once, from the router that was asked") {
    JudgeBench b;
    RankRequest asked = b.ask();
    b.answer(b.right(asked));
    CHECK(b.verdict() == "");
    CHECK(b.clients.tally().answered == 1);
    b.answer(first, b.right(asked));
    CHECK(b.finds(1, "has two outcomes"));
    asked = b.ask();
    b.answer(b.router() == first ? second : first, b.right(asked));
    CHECK(b.finds(1, "is answered by another router"));
  }

  TEST_CASE("client judge: an outcome of an unknown request is reported") {
    JudgeBench b;
    const RankRequest asked = b.ask();
    for (const RequestId id : {RequestId{0}, b.last + 1, RequestId{77'000}}) {
      b.answer(first, Refused{id, {RefusalKind::unavailable, "overloaded"}});
      CHECK(b.finds(1, "was never asked"));
    }
    b.answer(b.right(asked));
    CHECK(b.verdict() == "");
  }

  TEST_CASE("client judge: an outcome is in time until two heartbeats after the deadline") {
    for (const std::int64_t late_us : {0, 1}) {
      CAPTURE(late_us);
      JudgeBench b;
      b.ask();
      const NodeId router = b.router();
      b.run(b.cluster.scenario().deadline.us + 2 * b.heartbeat() - way_us + late_us);
      b.refuse(RefusalKind::deadline_exceeded, "deadline_exceeded", router);
      if (late_us == 0) CHECK(b.verdict() == "");
      if (late_us == 1) CHECK(b.finds(1, "1 us too late"));
    }
  }

  TEST_CASE("client judge: a missing outcome is reported once; a paused router gets more time") {
    JudgeBench b;
    b.ask();
    const NodeId router = b.router();
    b.run(b.cluster.scenario().deadline.us + 2 * b.heartbeat());
    b.clients.check_overdue();
    CHECK(b.verdict() == "");
    b.run(1);
    b.cluster.pause(router);
    b.clients.check_overdue();
    CHECK(b.verdict() == "");
    b.cluster.resume(router);
    b.clients.check_overdue();  // the router has received it only now
    CHECK(b.verdict() == "");
    b.run(b.cluster.scenario().deadline.us + 2 * b.heartbeat() + 1);
    b.clients.check_overdue();
    if (b.clients.open() > 0) CHECK(b.finds(1, "has no outcome long after its deadline"));
    b.clients.check_overdue();
    CHECK(b.verdict() == "");
  }

  TEST_CASE("client judge: a request lost with its router has no outcome, unless it was still in flight") {
    JudgeBench b;
    RankRequest asked = b.ask();
    b.run(way_us + 1);
    const NodeId router = b.router();
    b.clients.cut_off(router);
    CHECK(b.clients.open() == 0);
    CHECK(b.clients.tally().cut_off == 1);
    b.answer(router, b.right(asked));
    CHECK(b.finds(1, "was lost with its router"));
    asked = b.ask();
    const NodeId other = b.router();
    b.clients.cut_off(other);  // it has not arrived there yet
    b.answer(other, b.right(asked));
    CHECK(b.verdict() == "");
  }

  TEST_CASE("client judge: an answer of another kind than the request is reported") {
    JudgeBench b;
    const RankRequest asked = b.ask();
    b.answer(Stored{b.last, 2});
    CHECK(b.finds(1, "gets the answer of a write"));
    b.ask();
    b.answer(ScoreReply{.id = b.last});
    CHECK(b.finds(1, "gets an answer of another kind"));
    b.ask_other(ScoreRequest{.query = {11, 12}, .items = {{{13}}}, .label_tokens = {11}});
    RankReply ranking = b.right(asked);
    ranking.id = b.last;
    b.answer(ranking);
    CHECK(b.finds(1, "gets a ranking"));
    b.ask_other(PutUser{0, "", "u2", {}, {10, 11}});
    b.answer(Stored{b.last, 2});
    CHECK(b.verdict() == "");
  }

  TEST_CASE("client judge: an answer that differs from the oracle is reported") {
    JudgeBench b;
    RankReply reply = b.right(b.ask());
    reply.items[0].score += 1e-9;
    b.answer(reply);
    CHECK(b.finds(1, "items[0].score"));
    const ScoreRequest score{.query = {11, 12}, .items = {{{13}}, {{14}}}, .label_tokens = {11, 12}};
    for (const double wrong : {0.0, 1e-9}) {
      b.ask_other(score);
      const ExpectedScores truth = expected_scores("m1", score, b.cluster.family());
      ScoreReply scores{
          .id = b.last, .items = truth.items, .tokens_total = truth.tokens, .model_version = "m1"};
      scores.tokens_computed = truth.tokens;
      scores.items[1].scores[0] += wrong;
      b.answer(scores);
      if (wrong > 0) CHECK(b.finds(1, "items[1]"));
      if (wrong == 0) CHECK(b.verdict() == "");
    }
  }

  TEST_CASE("client judge: a malformed request must be refused, and may be refused as malformed") {
    JudgeBench b;
    b.ask_nonsense();
    b.refuse(RefusalKind::malformed, "bad_request");
    CHECK(b.verdict() == "");
    b.ask_nonsense();
    b.answer(RankReply{.id = b.last});
    CHECK(b.finds(15, "is malformed but is answered"));
  }

  TEST_CASE("client judge: an answer under an arrangement that is neither named nor served is reported") {
    JudgeBench b;
    RankRequest asked = b.ask();
    RankReply reply = b.right(asked);
    reply.arrangement = Arrangement::causal;
    b.answer(reply);
    CHECK(b.finds(21, "is answered under arrangement \"causal\"; expected user_first, item_first"));
  }

  TEST_CASE("client judge: recompute serves the form's first arrangement, others only if they are named") {
    JudgeBench b;
    RankRequest request = b.rank();
    request.policy = "recompute";
    const auto verdict_of = [&](Arrangement named) {
      request.arrangement = named;
      RankReply reply = b.right(b.ask(request));  // of user_first
      reply.policy = "recompute";
      b.answer(reply);
      return b.verdict();
    };
    CHECK(verdict_of(Arrangement::unnamed).find("21: ") == 0);
    CHECK(verdict_of(Arrangement::user_first) == "");
  }

  TEST_CASE("client judge: a request that the form does not allow must get the refusal that says so") {
    JudgeBench b;
    std::size_t sent = 0;
    const auto ask_undeclared = [&] {
      for (b.ask_nonsense();; b.refuse(RefusalKind::malformed, "bad_request"), b.verdict(), b.ask_nonsense())
        if (++sent > 500 || !b.clients.open_refusal(b.last).empty()) return b.clients.open_refusal(b.last);
    };
    std::string code = ask_undeclared();
    REQUIRE(code != "");
    b.refuse(RefusalKind::malformed, code);
    CHECK(b.verdict() == "");
    code = ask_undeclared();
    b.refuse(RefusalKind::malformed, "bad_request");
    CHECK(b.finds(15, "gets another refusal than " + code));
    code = ask_undeclared();
    b.refuse(RefusalKind::unavailable, "no_worker");
    CHECK(b.verdict() == "");
    code = ask_undeclared();
    b.answer(RankReply{.id = b.last});
    CHECK(b.finds(21, "is answered; expected the refusal " + code));
  }

  TEST_CASE("client judge: a lenient request gets no expired profile, unless it is marked stale and may be") {
    Scenario scenario = calm();
    scenario.expiry.expiry = scenario.expiry.stale_for = {1'000'000};
    JudgeBench b(scenario);
    const PutUser put{0, "", "u1", {}, {21, 22, 23}};
    b.cluster.world().write({put});
    b.ask_other(put);
    const NodeId wrote = b.router();
    b.answer(Stored{b.last, 2});
    RankRequest request = b.rank();
    const auto verdict_of = [&](Freshness features, std::uint32_t stale, bool at_writer = false) {
      request.features = features;
      RankRequest asked = b.ask(request);
      for (; (b.router() == wrote) != at_writer; asked = b.ask(request)) b.answer(b.right(asked, 2));
      RankReply reply = b.right(asked, 1);
      reply.features_stale = stale;
      b.answer(reply);
      return b.verdict();
    };
    const auto is_old = [](const std::string& verdict) {
      return verdict.find("is answered from profile 1") != std::string::npos;
    };
    CHECK(is_old(verdict_of(Freshness::configured, 0)));
    CHECK(verdict_of(Freshness::wait, 0) == "");
    CHECK(verdict_of(Freshness::behind, 1) == "");
    CHECK(is_old(verdict_of(Freshness::wait, 0, true)));  // the router knows its own writes
    CHECK(is_old(verdict_of(Freshness::behind, 1, true)));
    for (const Freshness features : {Freshness::wait, Freshness::configured}) {
      const std::string verdict = verdict_of(features, 1);
      CHECK(verdict.starts_with("4: "));
      CHECK(verdict.ends_with("is answered from a stale or missing profile but does not allow that"));
    }
    b.run(1'000'000);
    CHECK(is_old(verdict_of(Freshness::wait, 0)));
    CHECK(is_old(verdict_of(Freshness::behind, 0)));
    CHECK(verdict_of(Freshness::behind, 1) == "");
    b.run(1'000'000);
    CHECK(is_old(verdict_of(Freshness::behind, 1)));
    request.features = Freshness::behind;
    RankReply reply = b.right(b.ask(request), 2);
    reply.features_missing = 1;  // but the answer names a profile
    b.answer(reply);
    CHECK(b.finds(1, "profile_version is 2"));
  }

  TEST_CASE("client judge: items are written to the served catalog once the world follows it") {
    JudgeBench b;
    for (const std::string catalog : {"c2", "c1"}) {
      b.serve("m1", catalog);
      CHECK(b.cluster.world().present() != catalog);
      b.cluster.follow_catalog();
      CHECK(b.cluster.world().present() == catalog);
    }
  }

  TEST_CASE("client judge: an answer from a profile older than one known to be stored is reported") {
    JudgeBench b;
    const PutUser put{0, "", "u1", {}, {21, 22, 23}};
    RankRequest asked = b.ask();
    b.cluster.world().write({put});
    b.answer(b.right(asked, 1));  // it was in flight before
    CHECK(b.verdict() == "");
    asked = b.ask();
    b.answer(b.right(asked, 1));  // no client knows that it was stored
    CHECK(b.verdict() == "");
    for (const Message& write : {Message(put), Message(DeleteUser{0, "", "u1"})}) {
      b.ask_other(write);
      b.answer(Stored{b.last, 2});
    }
    asked = b.ask();
    b.answer(b.right(asked, 2));
    CHECK(b.verdict() == "");
    asked = b.ask();
    b.answer(b.right(asked, 1));
    CHECK(b.finds(1, "is answered from profile 1, stored before it was 2"));
    asked = b.ask(b.rank("u2"));  // another user's profile
    b.answer(b.right(asked, 1));
    CHECK(b.verdict() == "");
  }

  TEST_CASE("client judge: former versions may answer for four heartbeats if all must succeed") {
    for (const bool must : {true, false})
      for (const std::int64_t later_us : {0, 1}) {
        CAPTURE(must);
        CAPTURE(later_us);
        JudgeBench b;
        b.serve("m2", "c1");
        b.run(4 * b.heartbeat() + later_us);
        b.clients.set_must_succeed(must);
        RankRequest asked = b.ask();
        b.answer(b.right(asked, 0, "m1"));
        if (must && later_us > 0)
          CHECK(b.finds(4, "is answered by model m1 from catalog c1, which were not served"));
        CHECK(b.verdict() == "");
        asked = b.ask();
        b.answer(b.right(asked, 0, "m2"));
        CHECK(b.verdict() == "");
        asked = b.ask();
        b.answer(b.right(asked, 0, "m3"));
        CHECK(b.finds(4, "by model m3"));
        asked = b.ask();
        b.answer(b.right(asked, 0, "m2", "c2"));
        CHECK(b.finds(4, "from catalog c2"));
      }
  }

  TEST_CASE("client judge: a refusal needs a code, and a kind promised to its request") {
    JudgeBench b;
    for (const RefusalKind kind :
         {RefusalKind::over_quota, RefusalKind::unavailable, RefusalKind::deadline_exceeded}) {
      b.ask();
      b.refuse(kind, "busy");
      CHECK(b.verdict() == "");
    }
    for (const RefusalKind kind :
         {RefusalKind::malformed, RefusalKind::unauthenticated, RefusalKind::forbidden,
          RefusalKind::too_large, RefusalKind::internal, RefusalKind::unsupported}) {
      b.ask();
      b.refuse(kind, "busy");
      CHECK(b.finds(1, "a refusal that was not promised"));
    }
    b.ask();
    b.refuse(RefusalKind::unavailable, "");
    CHECK(b.finds(1, "a refusal that was not promised"));
  }

  TEST_CASE("client judge: only what was missing while the request was in flight may be unknown") {
    JudgeBench b;
    b.ask();
    b.refuse(RefusalKind::not_found, "unknown_user");
    CHECK(b.finds(1, "is refused as unknown but exists"));
    b.ask();
    b.cluster.world().write({DeleteUser{0, "", "u1"}});
    b.cluster.world().write({PutUser{0, "", "u1", {}, {10}}});
    b.refuse(RefusalKind::not_found, "unknown_user");
    CHECK(b.verdict() == "");
    b.ask();
    b.refuse(RefusalKind::not_found, "unknown_user");
    CHECK(b.finds(1, "is refused as unknown but exists"));
    const RankRequest asked = b.ask();
    b.cluster.world().write({DeleteItem{0, asked.candidates[0]}});
    b.refuse(RefusalKind::not_found, "unknown_item");
    CHECK(b.verdict() == "");
    b.ask_other(ScoreRequest{.query = {11}, .items = {{{13}}}, .label_tokens = {11}});
    b.refuse(RefusalKind::not_found, "unknown_user");
    CHECK(b.finds(1, "is refused as unknown but exists"));
  }

  TEST_CASE(
      "client judge: a valid request is not refused as invalid, or as poison unless it was lost twice") {
    JudgeBench b;
    Attempts attempts({200'000}, b.violations);
    b.clients.set_poison_judge(attempts);
    b.ask();
    b.refuse(RefusalKind::unprocessable, "repeated_candidate");
    CHECK(b.finds(1, "is valid but refused"));
    b.ask();
    b.refuse(RefusalKind::unprocessable, "poison");
    CHECK(b.finds(12, "was not lost twice"));
    const RankRequest asked = b.ask();
    Execute plan{.id = 5, .budget_us = 2'000'000};
    const auto profile = *b.cluster.world().profile("", asked.user);
    std::vector<Item> items;
    for (const std::string& id : asked.candidates) items.push_back(*b.cluster.world().item(id, "c1"));
    const auto history =
        router::fit_history(b.cluster.form(), profile, router::item_tokens_max(views(items)));
    plan.plan.segments = {{SegmentKind::user, history.tokens}};
    plan.plan.readouts = {{0, 0, {}}};
    for (const Item& item : items) plan.plan.readouts[0].rows.push_back(item.identifier);
    const Address router{first, Role::router};
    for (const NodeId worker : {NodeId{4}, NodeId{5}}) {
      plan.alone = worker == 5;
      attempts.on_send(b.cluster.now(), router, {worker, Role::inference_worker}, plan);
      attempts.on_event(b.cluster.now(), router, PeerLost{worker});
    }
    b.refuse(RefusalKind::unprocessable, "poison");
    CHECK(b.verdict() == "");
    b.ask();  // other contents
    b.refuse(RefusalKind::unprocessable, "poison");
    CHECK(b.finds(12, "was not lost twice"));
  }

  TEST_CASE("client judge: no refusal is accepted if all must succeed") {
    JudgeBench b;
    b.ask();
    b.refuse(RefusalKind::unavailable, "overloaded");
    CHECK(b.verdict() == "");
    b.clients.set_must_succeed(true);
    b.ask();
    b.refuse(RefusalKind::unavailable, "overloaded");
    CHECK(b.finds(6, "is refused although the cluster has the resources"));
    b.clients.send_poison(b.rank());
    b.lose();
    b.refuse(RefusalKind::unavailable, "overloaded");
    CHECK(b.verdict() == "");
  }

  TEST_CASE("client judge: an undisturbed reload may be refused only for an unknown model") {
    for (const bool harmless : {true, false}) {
      CAPTURE(harmless);
      JudgeBench b(calm(harmless));
      b.reload("m9", "");
      b.refuse(RefusalKind::unprocessable, "model_refused");
      CHECK(b.verdict() == "");
      b.reload("m2", "");
      b.refuse(RefusalKind::unavailable, "busy");
      if (harmless) CHECK(b.finds(4, "is refused although nothing prevents it"));
      CHECK(b.verdict() == "");
      b.reload("m2", "");
      const NodeId at = b.router();
      b.reload("m3", "");  // the two disturb each other
      --b.last;
      b.refuse(RefusalKind::unavailable, "busy", at);
      CHECK(b.verdict() == "");
    }
  }

  TEST_CASE(
      "client judge: after a successful reload the requested versions are served and none are pending") {
    JudgeBench b;
    const auto done = [&](const std::string& model, const std::string& catalog) {
      b.reload(model, catalog);
      return std::function<void()>([&b] { b.answer(Stored{b.last, 5}); });
    };
    done("m9", "")();
    CHECK(b.finds(4, "there is no such model"));
    done("m2", "")();
    CHECK(b.finds(4, "other versions are served or pending"));
    auto end = done("m2", "");
    b.serve("m2", "c1");
    end();
    CHECK(b.verdict() == "");
    CHECK(b.clients.tally().swaps == 3);
    end = done("", "c2");
    b.serve("m2", "c1", "m3");
    end();
    CHECK(b.finds(4, "other versions are served or pending"));
    end = done("m3", "");
    b.serve("m3", "c1", "m1");
    end();
    CHECK(b.finds(4, "other versions are served or pending"));
  }

  TEST_CASE("client judge: with several models, only the requested one may answer, as its family computes") {
    Scenario two = calm();
    two.models = 2;
    int of_first = 0, of_other = 0;
    for (int i = 0; i < 8; ++i) {
      JudgeBench b(two);
      const RankRequest wanted = b.rank("u" + std::to_string(i));
      b.answer(b.right(b.ask(wanted), 0, "other1", "c1", 1));
      const std::string found = b.verdict();
      if (found.empty()) {
        ++of_other;
        CHECK(b.clients.tally().of_others == 1);
        b.answer(b.right(b.ask(wanted), 0, "m1"));
        CHECK(b.finds(1, "expected"));  // not what its family computes
        CHECK(b.violations.kept().back().what.find("which were not served then") != std::string::npos);
        b.answer(b.right(b.ask(wanted), 0, "other1"));
        CHECK(b.finds(1, "expected"));
      } else {
        ++of_first;
        CHECK(found.starts_with("1: "));
        CHECK(b.violations.kept().back().what.find("which were not served then") != std::string::npos);
        b.answer(b.right(b.ask(wanted), 0, "m1"));
        CHECK(b.verdict() == "");
      }
    }
    CHECK(of_first > 0);
    CHECK(of_other > 0);
  }

  TEST_CASE(
      "client judge: with a shared rollout, users get the present model, or the next one if their place is "
      "below the share") {
    JudgeBench b;
    b.serve("m1", "c1", "m2", 500);
    std::size_t of_next = 0;
    constexpr int users = 12;
    for (int i = 0; i < users; ++i) {
      const RankRequest wanted = b.rank("u" + std::to_string(i));
      b.answer(b.right(b.ask(wanted), 0, "m2"));
      const bool may = router::share_position(user_hash("", wanted.user), "m2") < 500;
      const bool is_found = b.verdict().find("which were not served then") != std::string::npos;
      CHECK(is_found == !may);
      of_next += may;
      b.answer(b.right(b.ask(wanted)));
      CHECK(b.verdict() == "");
    }
    CHECK(of_next > 0);
    CHECK(of_next < users);
  }

  TEST_CASE("client judge: a share reload is done when the next model has it, and survives a new catalog") {
    JudgeBench b;
    b.reload("m2", "", 0.5);
    b.serve("m1", "c1", "m2", 250);
    b.answer(Stored{b.last, 5});
    CHECK(b.finds(4, "other versions are served or pending"));
    b.reload("m2", "", 0.25);
    b.answer(Stored{b.last, 5});
    CHECK(b.verdict() == "");
    b.reload("", "c2");
    b.serve("m1", "c2", "m2", 250);
    b.answer(Stored{b.last, 5});
    CHECK(b.verdict() == "");
    b.reload("m2", "");
    b.answer(Stored{b.last, 5});
    CHECK(b.finds(4, "other versions are served or pending"));
  }

  TEST_CASE("client judge: model and catalog of one reload must change in one step") {
    for (const bool in_steps : {false, true}) {
      CAPTURE(in_steps);
      JudgeBench b;
      b.reload("m2", "c2");
      if (in_steps) b.serve("m2", "c1");
      b.run(10);
      b.serve("m2", "c2");
      b.answer(Stored{b.last, 5});
      if (in_steps) CHECK(b.finds(4, "has changed model and catalog one after the other"));
      CHECK(b.verdict() == "");
    }
  }

  TEST_CASE("client judge: shares after kills count each request once, and no excused one") {
    JudgeBench b;
    b.clients.set_since_kill(SentRequest::SinceKill::long_ago);
    b.answer(b.right(b.ask()));
    b.ask();
    b.refuse(RefusalKind::unavailable, "overloaded");
    b.ask();
    b.cluster.world().write({DeleteUser{0, "", "u1"}});
    b.refuse(RefusalKind::not_found, "unknown_user");
    b.clients.set_since_kill(SentRequest::SinceKill::a_while);
    b.answer(b.right(b.ask(b.rank("u2"))));
    b.clients.set_since_kill(SentRequest::SinceKill::unknown);
    b.answer(b.right(b.ask(b.rank("u2"))));
    const Tally& tally = b.clients.tally();
    CHECK(tally.after_kill == 3);
    CHECK(tally.after_kill_ok == 2);
    CHECK(tally.long_after_kill == 2);
    CHECK(tally.long_after_kill_ok == 1);
    CHECK(b.verdict() == "");
  }
}

}  // namespace client_judge_test
