// Tests, in a build with mutations, that each mutation of this folder has its effect. Other builds
// have nothing to test.
#include "runtime/actor/mutants.h"

#ifdef TROUPE_MUTANTS
#include <cmath>

#include "router/testing/router_core_test.h"

namespace troupe::router {
namespace {

struct Plant {
  explicit Plant(Mutant bug) { mutation::bug = bug; }
  ~Plant() { mutation::bug = Mutant::none; }
};
struct Cluster : RouterBench {
  explicit Cluster(RouterConfig config = cluster_config({1, 2, 3})) : RouterBench(std::move(config)) {
    send(0, 1);
  }
};

TEST_CASE("mutation: a refused request is forgotten, a lost one is not retried") {
  Plant forget(Mutant::forget_refused_request);
  Cluster c;
  c.refuse_at(1, c.node, RefusalKind::unprocessable, "bad_plan");
  CHECK(c.refused() == "");
  c.run_until(10'000);
  CHECK(c.refused() == "");
  Plant no_retry(Mutant::no_retry_after_loss);
  Cluster d;
  d.lose(1, d.node);
  CHECK(d.refused() == "unavailable worker_lost");
}

TEST_CASE("mutation: an invalid answer is passed on") {
  Plant plant(Mutant::answer_without_check);
  Cluster c, d;
  c.answer_at(1, c.node, c.answer({1, std::nan("")}));
  CHECK(c.replies() == 1);
  d.answer_at(1, d.node, d.answer({1}, {}));
  CHECK(d.replies() == 1);
}

TEST_CASE("mutation: retries without a budget, poison without an end") {
  RouterConfig config = cluster_config({1, 2, 3, 4, 5, 6});
  config.retry_burst = 0;
  Plant unlimited(Mutant::unlimited_retries);
  Cluster c(config);
  c.refuse_at(1, c.node, RefusalKind::unavailable, "overloaded");
  CHECK(c.plans() == 1);
  Plant poison(Mutant::retry_poison);
  Cluster d(config);
  for (int i = 0; i < 5; ++i) {
    d.lose(2 + i, d.node);
    CHECK(d.plans() == 1);
  }
}

TEST_CASE("mutation: suspects are forgotten, or not shared") {
  for (const Mutant bug : {Mutant::forget_suspects, Mutant::keep_suspects_private}) {
    Plant plant(bug);
    Cluster c;
    c.beat(1, c.node, beat_of(1));
    c.send(2, 2);
    c.beat(3, c.node, beat_of(2));
    CHECK(c.probe.sent<Suspect>().empty() == (bug == Mutant::keep_suspects_private));
    const auto plans = c.probe.sent<Execute>();
    REQUIRE_FALSE(plans.empty());
    CHECK(plans[0].alone == (bug == Mutant::keep_suspects_private));
  }
}

TEST_CASE("mutation: the index wait has no limit, slowness is ignored, users share names") {
  Plant wait(Mutant::wait_for_index);
  RouterBench b;
  b.rank(0, 1);
  b.find(1);
  b.run_until(999);
  CHECK(b.plans() == 0);
  mutation::bug = Mutant::no_tenant_salt;
  const BlockNames names({}, {});
  CHECK(names.user("a", {5}) == names.user("b", {5}));
  mutation::bug = Mutant::ignore_slowness;
  WorkerTable table({}, {1, 2});
  table.tick({0});
  table.time_out({1'000'000}, table.send({0}, {1, 10}));
  CHECK_FALSE(table.slow(1));
}

}  // namespace
}  // namespace troupe::router
#endif
