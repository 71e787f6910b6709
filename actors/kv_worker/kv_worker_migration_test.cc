#include "actors/kv_worker/migration.h"

#include "actors/testing/kv_worker_test.h"
#include "placement/assignment/homes.h"
#include "runtime/actor/user_home.h"

namespace troupe::actors {
namespace {

using namespace kv_worker_test;

// Node 1 leaves; its users go to nodes 2 and 3. Each block has one page of four tokens; users have
// 12 pages.
struct LeaveBench : Bench {
  static KvWorkerConfig roomy() {
    KvWorkerConfig config = small();
    config.pool = pool_sizes(16, 4, {4, 12});
    config.heartbeat = {100};
    config.migration = {.lookup_blocks = 4,
                        .waiting_max = 4,
                        .part_blocks = 2,
                        .part_tokens = 8,
                        .lookup_wait = {1'000},
                        .offer_wait = {2'000},
                        .back_off = {500}};
    return config;
  }
  explicit LeaveBench(KvWorkerConfig config = roomy()) : Bench(std::move(config)) {}

  void drain(std::int64_t us, std::vector<NodeId> to = {2, 3}) {
    probe.receive(us, server, Drain{++last, true, std::move(to)});
  }
  // Answers the latest lookup with these holders; other blocks have none.
  void found(std::int64_t us, std::vector<std::vector<NodeId>> holders) {
    const auto asked = probe.sent<LookupBlocks>();
    REQUIRE(asked.size() == 1);
    BlocksFound answer{.id = asked[0].id};
    holders.resize(asked[0].blocks.size());
    for (const auto& of_block : holders) {
      answer.counts.push_back(static_cast<std::uint8_t>(of_block.size()));
      answer.holders.insert(answer.holders.end(), of_block.begin(), of_block.end());
    }
    probe.receive(us, meta, answer);
  }
  struct Offer {
    NodeId to = 0;
    AcquireBlocks ask;
  };
  std::vector<Offer> offers() const {
    std::vector<Offer> found;
    for (const auto& effect : probe.effects.list)
      if (const auto* send = std::get_if<Effects::Send>(&effect))
        if (const auto* ask = std::get_if<AcquireBlocks>(&send->message))
          found.push_back({send->to.node, *ask});
    return found;
  }
  void answer(std::int64_t us, const Offer& offer, Grant grant) {
    probe.receive(
        us, {offer.to, Role::kv_worker},
        BlocksAcquired{offer.ask.id, 5, 1'000, std::vector<BlockGrant>(offer.ask.wants.size(), {grant})});
  }
  std::string field(std::int64_t us, const char* name) {
    probe.receive(us, server, StatusRequest{1});
    const StatusReply reply = probe.sent<StatusReply>().at(0);
    for (const StatusField& field : reply.fields)
      if (field.name == name) return field.value;
    return "";
  }
};

NodeId home_of(const std::string& owner) {
  const auto rank = [&](NodeId node) { return placement::home_rank(owner_hash(owner), spread(node)); };
  return rank(2) > rank(3) ? 2 : 3;
}

TEST_CASE(
    "migration: a leaving worker looks up its user blocks and offers the others to their homes, latest used "
    "first") {
  LeaveBench b;
  for (std::uint8_t n = 1; n <= 3; ++n) b.write(0, user(n));
  b.write(0, item(9));
  b.drain(1);
  CHECK(b.probe.sent<StatusReply>().size() == 1);
  const LookupBlocks question = b.probe.sent<LookupBlocks>().at(0);
  CHECK_FALSE(question.count_access);
  CHECK(question.all_holders);
  REQUIRE(question.blocks.size() == 3);
  CHECK(identical(question.blocks[0].name, name(3)));
  b.found(2, {{}, {1, 3}, {1}});  // the second is at a node that stays
  std::vector<LeaveBench::Offer> offers = b.offers();
  std::size_t offered = 0;
  for (const auto& offer : offers)
    for (const BlockWant& want : offer.ask.wants) {
      CHECK(offer.to == home_of(want.owner));
      CHECK(want.at == 1);
      CHECK_FALSE(identical(want.name, name(2)));
      CHECK_FALSE(offer.ask.read_only);
      ++offered;
    }
  CHECK(offered == 2);
  CHECK(b.field(3, "drained") == "no");
  b.drain(4);
  CHECK(b.probe.sent<LookupBlocks>().empty());  // it goes on, and does not begin anew
  double counted = 0;
  for (const auto& offer : offers) {
    b.answer(5, offer, Grant::read);
    counted += b.probe.counted(Metric::users_handed_on);
    CHECK(b.probe.sent<ReleaseBlocks>() == std::vector<ReleaseBlocks>{{offer.ask.id, {}}});
  }
  CHECK(counted == 2);
  CHECK(b.field(6, "drained") == "yes");
  CHECK(b.field(6, "users_blocks_held_elsewhere") == "1");
  CHECK(b.field(6, "users_blocks_left_behind") == "0");
}

TEST_CASE(
    "migration: a node that takes nothing, is lost or silent is followed by the next, until tries_max") {
  LeaveBench b;
  b.write(0, user(1));
  b.drain(1);
  b.found(2, {});
  const NodeId home = home_of("user 1"), next = home == 2 ? 3 : 2;
  REQUIRE(b.offers().size() == 1);
  CHECK(b.offers()[0].to == home);
  b.answer(3, b.offers()[0], Grant::none);
  REQUIRE(b.offers().size() == 1);
  CHECK(b.offers()[0].to == next);
  b.probe.lose(4, next);
  CHECK(b.offers().empty());  // both are in back-off
  b.probe.run_until(700);
  REQUIRE(b.offers().size() == 1);
  CHECK(b.field(701, "drained") == "no");
  b.probe.run_until(4'000);  // no answer
  CHECK(b.field(4'001, "users_blocks_left_behind") == "1");
  CHECK(b.field(4'001, "drained") == "yes");
}

TEST_CASE(
    "migration: a silent cache-meta costs one lookup_wait, and without staying nodes the worker is drained "
    "at once") {
  LeaveBench b;
  b.write(0, user(1));
  b.drain(1);
  CHECK(b.offers().empty());
  b.probe.run_until(1'200);
  CHECK(b.offers().size() == 1);

  LeaveBench alone;
  alone.write(0, user(1));
  alone.drain(1, {1});
  CHECK(alone.field(2, "drained") == "yes");
  CHECK(alone.field(2, "users_blocks_left_behind") == "1");

  LeaveBench empty;
  empty.drain(1);
  CHECK(empty.field(2, "drained") == "yes");
}

TEST_CASE("migration: only a share of the blocks may evict others, and full nodes get no further offers") {
  LeaveBench b;
  for (std::uint8_t n = 1; n <= 12; ++n) b.write(0, user(n));
  b.drain(1);
  std::size_t displacing = 0, offered = 0;
  std::int64_t us = 2;
  for (int rounds = 0; rounds < 200 && b.field(us, "drained") == "no"; ++rounds) {
    b.probe.run_until(us += 100);
    std::vector<LeaveBench::Offer> offers = b.offers();
    if (!b.probe.sent<LookupBlocks>().empty()) {
      b.found(++us, {});
      for (const auto& offer : b.offers()) offers.push_back(offer);
    }
    while (!offers.empty()) {
      const LeaveBench::Offer offer = offers.back();
      offers.pop_back();
      CHECK(offer.ask.wants.size() <= 2);
      (offer.ask.may_evict ? displacing : offered) += offer.ask.wants.size();
      b.answer(++us, offer, offer.ask.may_evict ? Grant::read : Grant::none);
      for (const auto& more : b.offers()) offers.push_back(more);
      if (!b.probe.sent<LookupBlocks>().empty()) {
        b.found(++us, {});
        for (const auto& more : b.offers()) offers.push_back(more);
      }
    }
  }
  CHECK(displacing == 8);  // two thirds of 12 pages, with two nodes that stay
  CHECK(offered > 0);
  CHECK(b.field(us, "users_blocks_handed_on") == "8");
  CHECK(b.field(us, "users_blocks_left_behind") == "4");
}

TEST_CASE("migration: a cancelled drain stops the migration") {
  LeaveBench b;
  b.write(0, user(1));
  b.drain(1);
  b.found(2, {});
  const LeaveBench::Offer offer = b.offers().at(0);
  b.probe.receive(3, server, Drain{9, false});
  b.answer(4, offer, Grant::read);
  CHECK(b.field(5, "drained") == "");
}

// ---- nodes that stay ----

// Node 2 leaves and offers blocks to this node.
struct StayBench : Bench {
  using Bench::Bench;
  AcquireBlocks offer(std::vector<BlockWant> wants, bool may_evict = true) {
    AcquireBlocks ask{++last, 500, {}};
    for (BlockWant& want : wants) ask.wants.push_back(at(2, std::move(want)));
    ask.may_evict = may_evict;
    ask.retention.belongs = true;
    return ask;
  }
  // Grants the pull that it starts. Returns the job.
  std::uint64_t pulled(std::int64_t us) {
    const AcquireBlocks ask = probe.sent<AcquireBlocks>().at(0);
    CHECK(ask.read_only);
    std::vector<BlockGrant> grants;
    for (std::size_t i = 0; i < ask.wants.size(); ++i)
      grants.push_back({Grant::read, 500 + i, 40 + i, {static_cast<std::uint32_t>(i)}});
    probe.receive(us, far, BlocksAcquired{ask.id, 300, 1'000, grants});
    return probe.started<PullBlocks>().at(0).first;
  }
  Grant answered() const {
    for (const BlocksAcquired& answer : probe.sent<BlocksAcquired>())
      if (answer.id == last) return answer.grants.at(0).grant;
    return Grant::write;
  }
};

TEST_CASE("migration: an offered block is pulled, reported to the index, and readable") {
  StayBench b;
  const AcquireBlocks ask = b.offer({user(1)});
  b.probe.receive(0, far, ask);
  const std::uint64_t job = b.pulled(1);
  b.probe.done(2, job, PullResult{{1}});
  CHECK(b.answered() == Grant::read);
  CHECK(b.probe.counted(Metric::user_bytes_moved) == 4 * 10);
  CHECK(b.probe.counted(Metric::item_bytes_moved) == 0);
  REQUIRE(b.sent_changes().added.size() == 1);
  CHECK(b.sent_changes().added[0].owner == "user 1");
  b.probe.receive(3, far, ReleaseBlocks{b.last, {}});
  CHECK(b.core.remote_reads() == 0);
  CHECK_FALSE(b.core.pool().find(name(1))->is_copy());
  b.probe.receive(4, far, b.offer({user(1)}));  // again
  CHECK(b.answered() == Grant::read);
  CHECK(b.probe.started<PullBlocks>().empty());
  b.probe.receive(5, far, ReleaseBlocks{b.last, {}});
  CHECK(b.acquire(6, {user(1)}).at(0).grant == Grant::read);
}

TEST_CASE(
    "migration: a failed offer makes its receiver compute nothing, and a waiting request computes the "
    "block") {
  StayBench b;
  b.probe.receive(0, far, b.offer({user(1)}));
  const RequestId offer = b.last;
  const std::uint64_t job = b.pulled(1);
  CHECK(b.acquire(2, {user(1)}).empty());  // a request waits for the block in flight
  b.probe.done(3, job, Refusal{RefusalKind::unavailable, "pull_failed", "gone", "node 2", "another"});
  Grant offered = Grant::write, asked = Grant::none;
  for (const BlocksAcquired& answer : b.probe.sent<BlocksAcquired>())
    (answer.id == offer ? offered : asked) = answer.grants.at(0).grant;
  CHECK(offered == Grant::none);
  CHECK(asked == Grant::write);
  b.probe.receive(4, far, b.offer({user(2)}));  // that node is in back-off
  CHECK(b.answered() == Grant::none);
}

TEST_CASE("migration: an offer evicts the least recently used block only if it may") {
  StayBench b;
  for (std::uint8_t n = 1; n <= 3; ++n) b.write(0, user(n));
  b.probe.receive(1, far, b.offer({user(4)}, false));
  CHECK(b.answered() == Grant::none);
  CHECK(b.probe.sent<CacheChanges>().empty());  // no request was refused
  b.probe.receive(2, far, b.offer({user(4)}));
  b.probe.done(3, b.pulled(3), PullResult{{1}});
  CHECK(b.answered() == Grant::read);
  b.probe.receive(4, far, ReleaseBlocks{b.last, {}});
  for (std::uint8_t n = 1; n <= 4; ++n) CHECK((b.core.pool().find(name(n)) != nullptr) == (n > 1));
}

TEST_CASE(
    "migration: an offer has only user blocks of its sender; all else that is not read-only is refused") {
  StayBench b;
  const auto refused = [&](AcquireBlocks ask) {
    b.probe.receive(1, far, std::move(ask));
    return b.probe.counted(Metric::protocol_errors) == 1;
  };
  AcquireBlocks elsewhere = b.offer({user(1)});
  elsewhere.wants[0].at = 3;
  CHECK(refused(elsewhere));
  AcquireBlocks early = b.offer({user(1)});
  early.early = true;
  CHECK(refused(early));
  CHECK(refused(b.offer({item(1)})));
  CHECK(refused(b.offer({})));
  b.probe.receive(2, {2, Role::server}, Drain{1, true, {2}});  // not of this node
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
}

TEST_CASE("migration: pins of a lost offerer end with their lease, and nothing is left behind") {
  StayBench b;
  b.probe.receive(0, far, b.offer({user(1)}));
  b.probe.lose(1, 2);
  CHECK(b.answered() == Grant::none);
  CHECK(b.core.pool().find(name(1)) == nullptr);
  b.probe.run_until(2'000);
  CHECK(b.core.remote_reads() == 0);
  CHECK(b.core.pending() == 0);
}

}  // namespace
}  // namespace troupe::actors
