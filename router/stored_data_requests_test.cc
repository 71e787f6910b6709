#include "router/stored_data_requests.h"

#include <doctest/doctest.h>

#include "runtime/actor/user_home.h"

namespace troupe::router {
namespace stored_data_requests_test {

struct Bench {
  PromptForm form{{1, 2}, {3}, {4}, {5}, 64, 1'000};
  ItemBlockKind blocks = ItemBlockKind::none;
  RequestLimits limits;
  NameContext own{"m", "layout"};
  ModelNames names{form, own};
  WorkerTable workers{{.heartbeat = {1'000}}, {1}};
  LeaderView leader{{4}, {1'000}};
  VersionKeeper versions{{.model_version = "m"}, false};
  Availability availability{{}, versions, workers, leader};
  Precompute precompute{{}, workers, leader, form, own};
  Outcomes outcomes{16};
  MemberWatch members{{{1}}, {0}};
  Tenants tenants{{}};
  WorkerQueues queues{{100}, workers, tenants};
  Flights flights{outcomes, tenants, workers, queues};
  PullCost pull_cost{0.25};
  Attempts attempts{{},
                    {Routing::By::earliest, workers, queues},
                    {{}, workers, tenants, pull_cost},
                    {{1'000}, tenants, queues, workers},
                    {members, 1},
                    workers,
                    queues,
                    flights};
  ReplayConfig recording{.keep = {1'000'000}};
  Replays replays{{recording, form}, availability, versions, workers, {members, 1}, attempts, outcomes};
  StoredDataRequests requests{{form, limits, {1'000}, 1, blocks},
                              availability,
                              versions,
                              leader,
                              names,
                              precompute,
                              replays,
                              outcomes};
  std::uint64_t next_id = 10;
  Effects effects;

  Step at(std::int64_t us) {
    effects = {};
    return {{us}, next_id, effects};
  }
  template <class Request>
  void write(Request request) {
    requests.on_write(at(0), {1, Role::server}, std::move(request));
  }
  bool done(std::uint64_t job, JobResult result) { return requests.on_done(at(5), job, result); }
  template <class T>
  std::vector<T> sent() const {
    std::vector<T> found;
    for (const auto& effect : effects.list)
      if (const auto* send = std::get_if<Effects::Send>(&effect))
        if (const auto* message = std::get_if<T>(&send->message)) found.push_back(*message);
    return found;
  }
};

PutUser put(RequestId id) { return {.id = id, .tenant = "t", .user = "ann", .tokens = {7, 8}}; }

TEST_CASE("stored data: a write is answered when its job ends, and the index forgets the old blocks") {
  Bench b;
  b.write(put(1));
  CHECK(b.requests.writes() == 1);
  CHECK(b.done(10, WriteResult{.version = 3}));
  CHECK(b.sent<Stored>() == std::vector<Stored>{{1, 3}});
  REQUIRE(b.sent<Forget>().size() == 1);
  CHECK(b.sent<Forget>()[0].owner == owner_of_user("t", "ann"));
  CHECK(b.requests.writes() == 0);
  CHECK_FALSE(b.done(10, WriteResult{}));
}

TEST_CASE("stored data: a put item's new block stays, and events that were known change nothing") {
  Bench b;
  b.write(PutItem{.id = 1, .item = "a", .title = "the a", .tokens = {7}, .identifier = 2});
  b.done(10, WriteResult{});
  REQUIRE(b.sent<Forget>().size() == 1);
  CHECK(b.sent<Forget>()[0].present == b.names.of("m").item(std::vector<Token>{7}));
  b.write(AppendEvents{.id = 2, .tenant = "t", .user = "ann", .tokens = {7}});
  b.done(11, WriteResult{.repeated = 1, .events = 4});
  CHECK(b.sent<Forget>().empty());
  CHECK(b.sent<Appended>().at(0).repeated == 1);
}

TEST_CASE("stored data: of a put item the block that is precomputed stays") {
  Bench b{.blocks = ItemBlockKind::movable};
  b.write(PutItem{.id = 1, .item = "a", .title = "the a", .tokens = {7}, .identifier = 2});
  b.done(10, WriteResult{});
  REQUIRE(b.sent<Forget>().size() == 1);
  CHECK(b.sent<Forget>()[0].present == b.names.of("m").item_alone(std::vector<Token>{7}));
}

TEST_CASE("stored data: a hanging job's request is refused at its deadline, its news spreads later") {
  Bench b;
  b.write(put(1));
  b.requests.on_deadline(b.at(1'000), 10);
  CHECK(b.sent<Refused>().size() == 1);
  b.write(put(2));
  CHECK(b.sent<Refused>().at(0).refusal.code == "overloaded");  // the job still runs
  b.done(10, WriteResult{});
  CHECK(b.sent<Stored>().empty());
  CHECK(b.sent<Forget>().size() == 1);
}

TEST_CASE("stored data: a read is answered with what the job found") {
  Bench b;
  b.requests.on_read(b.at(0), {1, Role::server}, GetUser{.id = 9, .tenant = "t", .user = "ann"});
  CHECK(b.requests.reads() == 1);
  b.done(10, UserReply{.user = "ann", .version = 4});
  CHECK(b.sent<UserReply>().at(0).id == 9);
  b.requests.on_read(b.at(0), {1, Role::server}, GetItem{.id = 8, .item = "a"});
  b.done(11, Refusal{RefusalKind::not_found, "unknown_item"});
  CHECK(b.sent<Refused>().at(0).id == 8);
}

TEST_CASE("stored data: the records of a user go when the deletion has succeeded, not before") {
  Bench b;
  const auto dropped = [&] {
    std::vector<RecordOwner> users;
    for (const auto& effect : b.effects.list)
      if (const auto* start = std::get_if<Effects::Start>(&effect))
        if (const auto* drop = std::get_if<DropRecords>(&start->work))
          users.insert(users.end(), drop->of.begin(), drop->of.end());
    return users;
  };
  b.write(DeleteUser{.id = 1, .tenant = "t", .user = "ann"});
  b.done(10, Refusal{RefusalKind::unavailable, "storage_failed"});
  CHECK(dropped().empty());
  b.write(DeleteUser{.id = 2, .tenant = "t", .user = "ann"});
  b.done(11, WriteResult{.version = 4});
  CHECK(dropped() == std::vector<RecordOwner>{{"t", "ann"}});
  b.write(put(3));
  b.done(13, WriteResult{.version = 5});
  CHECK(dropped().empty());
}

}  // namespace stored_data_requests_test
}  // namespace troupe::router
