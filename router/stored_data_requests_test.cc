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
                    availability,
                    workers,
                    queues,
                    flights};
  ReplayConfig recording{.keep = {1'000'000}};
  Replays replays{{recording, form}, availability, versions, workers, {members, 1}, attempts, outcomes};
  std::uint32_t jobs_max = 1, writes_at_once = 16;
  StoredDataRequests requests{{form, limits, {1'000}, jobs_max, writes_at_once, blocks},
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
  JobResult kept;
  JobResult& keep(JobResult result) { return kept = std::move(result); }
  std::vector<std::uint64_t> started() const {  // jobs by the last step
    std::vector<std::uint64_t> jobs;
    for (const auto& effect : effects.list)
      if (const auto* start = std::get_if<Effects::Start>(&effect)) jobs.push_back(start->job);
    return jobs;
  }
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

TEST_CASE("stored data: a write that has begun is answered outcome_unknown at its deadline, its news later") {
  Bench b;
  b.write(put(1));
  b.requests.on_deadline(b.at(1'000), 10);
  REQUIRE(b.sent<Refused>().size() == 1);
  CHECK(b.sent<Refused>()[0].refusal.code == "outcome_unknown");
  CHECK(b.sent<Refused>()[0].refusal.kind == RefusalKind::unavailable);
  b.write(put(2));
  CHECK(b.sent<Refused>().at(0).refusal.code == "overloaded");  // the job still runs
  b.done(10, WriteResult{});
  CHECK(b.sent<Stored>().empty());
  CHECK(b.sent<Forget>().size() == 1);
}

TEST_CASE("stored data: further writes wait, begin in turn, and one whose time is over never begins") {
  Bench b{.jobs_max = 8, .writes_at_once = 2};
  for (RequestId id = 1; id <= 5; ++id) b.write(put(id));  // jobs 10 to 14
  CHECK(b.started().empty());
  CHECK(b.requests.writes() == 5);
  CHECK(b.requests.running_writes() == 2);
  b.requests.on_deadline(b.at(1'000), 12);
  REQUIRE(b.sent<Refused>().size() == 1);
  CHECK(b.sent<Refused>()[0].id == 3);
  CHECK(b.sent<Refused>()[0].refusal.code == "deadline_exceeded");
  CHECK(b.requests.writes() == 4);
  b.requests.on_deadline(b.at(1'000), 10);
  CHECK(b.sent<Refused>().at(0).refusal.code == "outcome_unknown");
  b.done(11, WriteResult{.version = 1});  // the others have their time until 1'000
  CHECK(b.started() == std::vector<std::uint64_t>{13});
  // The timer of the last one is late: it is not begun all the same.
  CHECK(b.requests.on_done(b.at(1'000), 13, b.keep(WriteResult{.version = 2})));
  CHECK(b.started().empty());
  CHECK(b.sent<Stored>() == std::vector<Stored>{{4, 2}});
  CHECK(b.sent<Refused>().at(0).id == 5);
  CHECK(b.sent<Refused>().at(0).refusal.code == "deadline_exceeded");
  b.done(10, WriteResult{.version = 3});
  CHECK(b.requests.writes() == 0);
  CHECK(b.requests.running_writes() == 0);
}

TEST_CASE("stored data: writes that wait do not refuse reads") {
  Bench b{.jobs_max = 1, .writes_at_once = 1};
  b.write(put(1));
  b.requests.on_read(b.at(0), {1, Role::server}, GetUser{.id = 9, .tenant = "t", .user = "ann"});
  CHECK(b.started() == std::vector<std::uint64_t>{11});
  b.requests.on_read(b.at(0), {1, Role::server}, GetUser{.id = 8, .tenant = "t", .user = "ann"});
  CHECK(b.sent<Refused>().at(0).refusal.code == "overloaded");
}

TEST_CASE("stored data: the write of a client that has gone is dropped unless it has begun") {
  Bench b{.jobs_max = 8, .writes_at_once = 1};
  const Address client{1, Role::server};
  for (RequestId id = 1; id <= 3; ++id) b.write(put(id));
  CHECK(b.requests.cancel(b.at(1), client, 2));
  CHECK(b.sent<Refused>().at(0).refusal.code == "client_gone");
  CHECK_FALSE(b.requests.cancel(b.at(1), client, 2));
  CHECK_FALSE(b.requests.cancel(b.at(1), {2, Role::server}, 3));
  CHECK(b.requests.cancel(b.at(1), client, 1));  // it has begun
  CHECK(b.sent<Refused>().empty());
  b.done(10, WriteResult{.version = 1});
  CHECK(b.sent<Stored>().size() == 1);
  CHECK(b.sent<Forget>().size() == 1);
  CHECK(b.started() == std::vector<std::uint64_t>{12});
  b.requests.on_read(b.at(0), client, GetUser{.id = 9, .tenant = "t", .user = "ann"});
  CHECK(b.requests.cancel(b.at(1), client, 9));
  CHECK(b.sent<Refused>().size() == 1);
  b.done(13, UserReply{.user = "ann"});
  CHECK(b.sent<UserReply>().empty());
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
