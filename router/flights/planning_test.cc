#include "router/flights/planning.h"

#include "router/testing/flights_test.h"
#include "runtime/testing/catalog_test.h"
#include "runtime/testing/shared_ranker.h"

namespace troupe::router {
namespace planning_test {

struct Bench : FlightBench {
  PromptForm form = shared_ranker({{1, 2}, {3}, {4}, {5}, 64, 1'000});
  RequestLimits limits;
  placement::UnitCosts costs;
  NameContext own{"m", "layout"};
  ModelNames names{form, own};
  MemberWatch members{{{1, 2}, {8}}, {0}};
  VersionKeeper versions{{.epoch = 1, .model_version = "m", .catalog_version = "c"}, true};
  LeaderView leader{{1}, {1'000}};
  ModelShare share{versions, workers};
  Availability availability{{}, versions, workers, leader};
  PullCost pull_cost{0.25};
  Precompute precompute{{}, workers, leader, form, own};
  Attempts attempts{{},
                    {Routing::By::earliest, workers, queues},
                    {{}, workers, tenants, pull_cost},
                    {{1'000}, tenants, queues, workers},
                    {members, 7},
                    availability,
                    workers,
                    queues,
                    flights};
  Planning planning{
      {form, limits, costs, policy("item"), {{1'000}, {10'000}}, {50}},
      {4, {{1'000}, tenants, queues, workers}, availability, tenants, workers, queues, outcomes, flights},
      versions,
      share,
      leader,
      pull_cost,
      names,
      precompute,
      flights,
      attempts};

  void receive(Message message) {
    effects = {};
    const RequestKind* kind = find_kind(message);
    REQUIRE(kind);
    planning.on_request(at(0), client, *kind, std::move(message));
  }
  void rank(RequestId id) { receive(RankRequest{.id = id, .user = "ann", .candidates = {"a"}}); }
  // Returns the number of the features job that was started, or 0.
  std::uint64_t job() const {
    for (const auto& effect : effects.list)
      if (const auto* start = std::get_if<Effects::Start>(&effect)) return start->job;
    return 0;
  }
  void find(std::uint64_t job, JobResult result) {
    effects = {};
    CHECK(planning.on_done(at(10), job, result));
  }
  static Features features() {
    return features_of(std::make_shared<const Profile>(Profile{7, {30, 31}, {1, 1}}),
                       {{"a", "the a", {10, 11}, 20, {}}}, "c");
  }
};

TEST_CASE("planning: a request without features goes to a worker at once, and a copy of it nowhere") {
  Bench b;
  ScoreRequest request{.id = 1, .items = {{{3, 4}}}};
  request.label_tokens = {1};
  b.receive(request);
  CHECK(b.sent<Execute>().size() == 1);
  b.receive(request);
  CHECK(b.sent<Execute>().empty());
  CHECK(b.flights.size() == 1);
}

TEST_CASE("planning: a ranking request waits for its features, then for the index, then it is sent") {
  Bench b;
  b.rank(1);
  CHECK(b.flights.count(Stage::features) == 1);
  const std::uint64_t job = b.job();
  b.find(job, b.features());
  CHECK(b.planning.feature_jobs() == 0);
  CHECK(b.planning.catalog_version() == "c");
  const auto lookups = b.sent<LookupBlocks>();
  REQUIRE(lookups.size() == 1);
  CHECK(lookups[0].blocks.size() == 1);
  b.planning.on_found(b.at(20), {.id = lookups[0].id, .counts = {0}, .uses = {0}});
  CHECK(b.sent<Execute>().size() == 1);
  b.planning.on_found(b.at(21), {.id = lookups[0].id, .counts = {0}, .uses = {0}});
  CHECK(b.sent<Execute>().empty());  // the answer came again
}

TEST_CASE("planning: a silent index delays a flight for a limited time, none at all not") {
  Bench b;
  b.rank(1);
  b.find(b.job(), b.features());
  Flight& flight = *b.flights.find(b.sent<LookupBlocks>().at(0).id);
  b.planning.on_lookup_late(b.at(100), flight);
  CHECK(b.sent<Execute>().size() == 1);
  CHECK(flight.timings.lookup == 90);
  b.leader.lose(1);
  b.rank(2);
  b.find(b.job(), b.features());
  CHECK(b.sent<Execute>().size() == 1);
}

TEST_CASE("planning: without features the request is refused; another catalog is tried once more") {
  Bench b;
  b.rank(1);
  b.find(b.job(), Refusal{RefusalKind::not_found, "unknown_user"});
  CHECK(b.sent<Refused>().at(0).refusal.code == "unknown_user");
  b.rank(2);
  for (const std::uint64_t epoch : {2, 3}) {
    const std::uint64_t job = b.job();
    REQUIRE(job != 0);
    const std::string catalog = "c" + std::to_string(epoch);
    b.versions.hear({0}, {.epoch = epoch, .model_version = "m", .catalog_version = catalog}, b.workers);
    b.find(job, Refusal{RefusalKind::unavailable, "wrong_catalog"});
    CHECK((b.job() != 0) == (epoch == 2));
  }
  CHECK(b.sent<Refused>().at(0).refusal.code == "wrong_catalog");
}

TEST_CASE("planning: the result of a job whose flight has ended is ignored") {
  Bench b;
  b.rank(1);
  const std::uint64_t job = b.job();
  b.flights.refuse(b.at(5), *b.flights.find(100), {RefusalKind::deadline_exceeded, "late"});
  CHECK(b.planning.feature_jobs() == 1);
  b.find(job, b.features());
  CHECK(b.effects.list.empty());
  JobResult other = b.features();
  CHECK_FALSE(b.planning.on_done(b.at(10), 12345, other));
}

}  // namespace planning_test
}  // namespace troupe::router
