#include "actors/cache_meta/followed_workers.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "actors/testing/block_index_test.h"

namespace troupe::actors {
namespace followed_workers_test {

BlockName name(std::uint8_t n) {
  BlockName result;
  result.bytes[0] = n;
  return result;
}
BlockEntry entry(std::uint8_t n, std::uint64_t generation) {
  return {name(n), SegmentKind::item, "item " + std::to_string(n), 4, generation};
}

// Bench with a worker on node 1. Heartbeat 100 us, retry 200 us; blocks of a silent worker are kept
// for 5,000 us. By default early changes do not wait, so each gap is seen at once.
struct Bench {
  std::size_t holdings_max = 1'000;
  std::size_t early_max = 0;
  std::size_t swept = 100;
  bool joined_later = false;
  NodeId own = 0;
  BlockIndex index{holdings_max};
  FollowedWorkers workers{{.nodes = {1, 2},
                           .silent_after = {300},
                           .forget_after = {5'000},
                           .inventory_retry = {200},
                           .own = own,
                           .joined_later = joined_later,
                           .removals_max = 4,
                           .gap_after = {50},
                           .early_max = early_max,
                           .swept_per_message = swept,
                           .swept_per_tick = swept},
                          index};
  std::vector<InventoryRequest> asked;  // requests to node 1, by the last call

  template <class Call>
  void call(const Call& on) {
    Effects effects;
    on(effects);
    asked.clear();
    for (const auto& effect : effects.list)
      if (const auto* send = std::get_if<Effects::Send>(&effect); send && send->to.node == 1)
        asked.push_back(std::get<InventoryRequest>(send->message));
  }
  void changes(std::int64_t us, Incarnation incarnation, std::uint64_t sequence,
               std::vector<BlockEntry> added = {}, std::vector<BlockVersion> removed = {}) {
    CacheChanges message{incarnation, sequence, std::move(added), std::move(removed), {{0, 0}, {10, 100}}};
    call([&](Effects& effects) { CHECK(workers.on_changes({us}, 1, std::move(message), effects)); });
  }
  void part(std::int64_t us, Incarnation incarnation, std::uint64_t after, std::uint64_t sequence,
            std::vector<BlockEntry> blocks, bool last) {
    InventoryPart message{incarnation, after, sequence, std::move(blocks), last};
    call([&](Effects& effects) { CHECK(workers.on_part({us}, 1, std::move(message), effects)); });
  }
  void start() {
    call([&](Effects& effects) { workers.start({0}, effects); });
  }
  void tick(std::int64_t us) {
    call([&](Effects& effects) { workers.on_tick({us}, effects); });
  }
  void follow() {  // incarnation 5, block 1, sequence 3
    start();
    part(1, 5, 0, 3, {entry(1, 50)}, true);
  }
  bool has(std::uint8_t n) const { return index.generation_of(name(n), 1) != 0; }
};
using Requests = std::vector<InventoryRequest>;

TEST_CASE("followed workers: on start every worker's inventory is requested, part by part until the last") {
  Bench b;
  b.start();
  CHECK(b.asked == Requests{{0, 0}});
  CHECK(b.workers.syncing() == 2);
  b.part(1, 5, 0, 3, {entry(1, 50), entry(2, 60)}, false);
  CHECK(b.asked == Requests{{5, 60}});
  b.part(2, 5, 60, 3, {}, true);
  CHECK(b.asked.empty());
  CHECK(b.workers.syncing() == 1);
  CHECK(b.has(1));
  CHECK(b.has(2));
}

TEST_CASE("followed workers: changes in sequence are applied, older ones are not") {
  Bench b;
  b.follow();
  b.changes(2, 5, 4, {entry(2, 60)}, {{name(1), 50}});
  CHECK(b.asked.empty());
  CHECK(b.has(2));
  CHECK(!b.has(1));
  b.changes(3, 5, 4, {entry(3, 55)});
  b.changes(3, 5, 2, {entry(3, 55)});
  CHECK(!b.has(3));
  CHECK(b.workers.capacity(1)->of(SegmentKind::user).free_tokens == 10);
}

TEST_CASE("followed workers: changes refused by a full index are walked for when a tenth of it is free") {
  Bench b{10};
  b.follow();
  std::vector<BlockEntry> eleven;
  for (std::uint8_t n = 2; n <= 12; ++n) eleven.push_back(entry(n, 50U + n));
  b.changes(2, 5, 4, eleven);
  CHECK(!b.has(12));
  b.changes(3, 5, 5, {}, {{name(1), 50}});
  b.tick(4);
  CHECK(b.asked.empty());
  b.changes(5, 5, 6, {}, {{name(2), 52}});
  b.tick(6);
  CHECK(b.asked == Requests{{5, 0}});
  eleven.erase(eleven.begin());
  b.part(7, 5, 0, 6, eleven, true);
  CHECK(b.has(12));
  b.changes(8, 5, 7, {}, {{name(3), 53}, {name(4), 54}});
  b.tick(9);
  CHECK(b.asked.empty());  // nothing is missing
}

TEST_CASE("followed workers: a part refused by a full index is walked for, too") {
  Bench b{2};
  b.start();
  b.part(1, 5, 0, 3, {entry(1, 50), entry(2, 51), entry(3, 52)}, true);
  b.changes(2, 5, 4, {}, {{name(1), 50}});
  b.tick(3);
  CHECK(b.asked == Requests{{5, 0}});
}

TEST_CASE("followed workers: a gap starts a walk, and unconfirmed blocks are swept") {
  Bench b;
  b.follow();
  b.changes(2, 5, 6, {entry(2, 60)});  // 4 and 5 are missing: block 1 was removed, block 3 added
  CHECK(b.asked == Requests{{5, 0}});
  CHECK(b.has(1));
  b.part(3, 5, 0, 6, {entry(3, 55)}, true);  // block 2 came with a change before the walk began
  CHECK(!b.has(1));
  CHECK(b.has(3));
  CHECK(b.workers.syncing() == 1);
}

TEST_CASE("followed workers: early changes wait for the missing ones without a request") {
  Bench b{.early_max = 2};
  b.follow();
  b.changes(2, 5, 6, {entry(3, 70)}, {{name(2), 60}});
  b.changes(3, 5, 6, {entry(3, 70)}, {{name(2), 60}});
  CHECK(!b.has(3));
  b.changes(4, 5, 5, {}, {{name(1), 50}});
  CHECK(b.has(1));
  b.tick(51);
  CHECK(b.asked.empty());
  b.changes(52, 5, 4, {entry(2, 60)});
  CHECK(!b.has(1));
  CHECK(!b.has(2));
  CHECK(b.has(3));
  b.tick(200);
  CHECK(b.asked.empty());
}

TEST_CASE("followed workers: a gap is as old as the first change that waits for it") {
  Bench b{.early_max = 4};
  b.follow();
  b.changes(2, 5, 5);
  b.changes(45, 5, 7);
  b.changes(46, 5, 4);  // the first gap is closed, the second one is young
  b.tick(60);
  CHECK(b.asked.empty());
  b.tick(96);
  CHECK(b.asked == Requests{{5, 0}});
}

TEST_CASE(
    "followed workers: early changes that wait too long or are too many are applied, and a walk follows") {
  Bench b{.early_max = 2};
  b.follow();
  b.changes(2, 5, 5, {entry(5, 70)});
  b.tick(51);
  CHECK(b.asked.empty());
  b.tick(52);
  CHECK(b.asked == Requests{{5, 0}});
  CHECK(b.has(5));
  b.part(53, 5, 0, 5, {}, true);
  CHECK(!b.has(1));
  for (std::uint64_t sequence : {7, 9}) b.changes(54, 5, sequence, {entry(6, 80)});
  CHECK(b.asked.empty());
  b.changes(54, 5, 11);
  CHECK(b.asked == Requests{{5, 0}});
  CHECK(b.workers.check_bounds() == "");
  b.part(55, 5, 0, 11, {entry(6, 80)}, true);
  b.changes(56, 5, 8);
  b.changes(57, 5, 10, {}, {{name(6), 80}});
  CHECK(!b.has(6));  // changes that waited for a second gap were not lost
}

TEST_CASE("followed workers: blocks added by a change during the walk need no part") {
  Bench b;
  b.follow();
  b.changes(2, 5, 6);
  b.changes(3, 5, 7, {entry(4, 70)});
  b.part(4, 5, 0, 6, {}, true);
  CHECK(b.has(4));
  CHECK(!b.has(1));
}

TEST_CASE("followed workers: a gap during a walk starts another walk after it") {
  Bench b;
  b.follow();
  b.changes(2, 5, 6);
  b.changes(3, 5, 9);
  CHECK(b.asked.empty());
  b.part(4, 5, 0, 8, {entry(1, 50)}, true);  // written before the second gap: not accepted
  CHECK(b.workers.syncing() == 2);
  b.part(5, 5, 0, 9, {entry(1, 50)}, true);
  CHECK(b.asked == Requests{{5, 0}});
  b.part(6, 5, 0, 9, {entry(1, 50)}, true);
  CHECK(b.workers.syncing() == 1);
  CHECK(b.has(1));
}

TEST_CASE("followed workers: a part overtaken by a removal does not bring the block back") {
  Bench b;
  b.follow();
  b.changes(2, 5, 5);
  b.changes(3, 5, 6, {}, {{name(1), 50}});
  b.part(4, 5, 0, 5, {entry(1, 50), entry(2, 60)}, true);
  CHECK(!b.has(1));
  CHECK(b.has(2));
}

TEST_CASE("followed workers: a part overtaken by too many removals is requested again") {
  Bench b;
  b.follow();
  b.changes(2, 5, 5);
  for (std::uint8_t i = 0; i < 5; ++i) b.changes(3, 5, 6 + i, {}, {{name(1), 50}});
  CHECK(b.workers.check_bounds() == "");
  b.part(4, 5, 0, 5, {entry(1, 50)}, true);
  CHECK(!b.has(1));
  CHECK(b.workers.syncing() == 2);
  b.tick(202);
  CHECK(b.asked == Requests{{5, 0}});
}

TEST_CASE("followed workers: a new incarnation starts from nothing, a smaller one is stale") {
  Bench b;
  b.follow();
  b.changes(2, 9, 2, {entry(2, 90)});
  CHECK(b.asked == Requests{{9, 0}});
  CHECK(!b.has(1));
  CHECK(b.has(2));
  b.changes(3, 5, 4, {entry(3, 51)});
  b.part(3, 5, 0, 4, {entry(3, 51)}, true);
  CHECK(!b.has(3));
  CHECK(b.workers.syncing() == 2);
  b.part(4, 9, 0, 2, {entry(2, 90)}, true);
  CHECK(b.workers.syncing() == 1);
  b.part(5, 12, 0, 1, {entry(7, 120)}, true);  // from a late answer: requested again, not accepted
  CHECK(b.asked == Requests{{12, 0}});
  CHECK(!b.has(2));
  CHECK(!b.has(7));
}

TEST_CASE(
    "followed workers: a restarted worker's old blocks are hidden at its first message and erased step by "
    "step") {
  Bench b{.swept = 10};
  b.start();
  std::vector<BlockEntry> many;
  for (std::uint8_t n = 1; n <= 100; ++n) many.push_back(entry(n, 50U + n));
  b.part(1, 5, 0, 3, many, true);
  b.changes(2, 900, 1, {entry(1, 901)});
  CHECK(b.index.generation_of(name(1), 1) == 901);
  for (std::uint8_t n = 2; n <= 100; ++n) CHECK(!b.has(n));
  CHECK(b.index.holdings(1) == 100);
  b.changes(3, 900, 2);
  CHECK(b.index.holdings(1) == 90);
  b.part(4, 900, 0, 2, {entry(1, 901)}, true);
  for (int i = 0; i < 10; ++i) b.tick(5 + i);
  CHECK(b.index.holdings(1) == 1);
}

TEST_CASE("followed workers: a restart during the first request asks the new process") {
  Bench b;
  b.start();
  b.part(1, 5, 0, 3, {entry(1, 50)}, false);
  b.changes(2, 9, 1);
  CHECK(b.asked == Requests{{9, 0}});
  b.part(3, 9, 50, 1, {}, true);  // answers the old request
  CHECK(b.workers.syncing() == 2);
}

TEST_CASE("followed workers: an unanswered request is repeated, and duplicate answers are ignored") {
  Bench b;
  b.start();
  b.tick(199);
  CHECK(b.asked.empty());
  b.tick(200);
  CHECK(b.asked == Requests{{0, 0}});
  b.part(250, 5, 0, 3, {entry(1, 50)}, false);
  b.part(251, 5, 0, 3, {entry(1, 50)}, false);
  CHECK(b.asked.empty());
  b.tick(450);
  CHECK(b.asked == Requests{{5, 50}});
}

TEST_CASE("followed workers: malformed messages are reported and change nothing") {
  Bench b;
  b.follow();
  Effects effects;
  CHECK(!b.workers.on_changes({2}, 1, CacheChanges{0, 4, {entry(9, 1)}, {}}, effects));
  CHECK(!b.workers.on_changes({2}, 1, CacheChanges{5, 0, {entry(9, 1)}, {}}, effects));
  CHECK(!b.workers.on_part({2}, 1, InventoryPart{}, effects));
  b.changes(3, 5, 9);
  CHECK(!b.workers.on_part({4}, 1, InventoryPart{5, 0, 9, {}, false}, effects));  // would never end
  CHECK(effects.list.empty());
  CHECK(!b.has(9));
}

TEST_CASE(
    "followed workers: silent and lost workers are not named, keep their blocks for a while, then are "
    "forgotten") {
  Bench b;
  b.follow();
  const auto named = [&] { return !holders(b.index, name(1), {}, 0, 1).empty(); };
  b.tick(301);
  CHECK(named());
  b.tick(302);
  CHECK(!named());
  CHECK(b.workers.capacity(1) == nullptr);
  b.changes(400, 5, 4);
  CHECK(named());
  b.workers.on_lost(1);
  CHECK(!named());
  b.workers.on_lost(77);
  b.changes(401, 5, 5);
  CHECK(named());
  b.tick(5'401);
  CHECK(b.has(1));
  b.tick(5'402);
  CHECK(!b.has(1));
  CHECK(b.workers.syncing() == 0);  // node 2 is not asked any more either
  b.changes(6'000, 5, 6);
  CHECK(b.asked == Requests{{5, 0}});
}

TEST_CASE("followed workers: the worker of this process stays named however long it is silent") {
  Bench b{.own = 1};
  b.follow();
  for (std::int64_t us = 300; us < 20'000; us += 100) b.tick(us);
  CHECK(!holders(b.index, name(1), {}, 0, 1).empty());
  CHECK(b.has(1));
  CHECK(!b.has(2));
}

TEST_CASE(
    "followed workers: a node that workers do not know keeps asking silent workers, which may have "
    "restarted") {
  Bench b{.joined_later = true};
  b.follow();
  b.tick(301);
  CHECK(b.asked.empty());
  b.tick(302);
  CHECK(b.asked == Requests{{5, 0}});
  b.tick(501);
  CHECK(b.asked.empty());
  b.tick(502);
  CHECK(b.asked == Requests{{5, 0}});
  b.tick(5'402);
  CHECK(!b.has(1));
  CHECK(b.asked == Requests{{5, 0}});  // also when it is forgotten
  b.changes(5'500, 6, 1, {entry(2, 1)});
  CHECK(b.asked == Requests{{6, 0}});
  b.part(5'501, 6, 0, 1, {entry(2, 1)}, true);
  b.tick(5'700);
  CHECK(b.asked.empty());
}

TEST_CASE("followed workers: a stall of the cache-meta itself does not count as silence") {
  Bench b;
  b.follow();
  b.workers.shift_silence({9'000});
  b.tick(9'301);
  CHECK(!holders(b.index, name(1), {}, 0, 1).empty());
  b.tick(9'302);
  CHECK(holders(b.index, name(1), {}, 0, 1).empty());
  CHECK(b.has(1));
}

// A KV-cache worker, and a network that loses, duplicates and delays messages.
class World {
 public:
  explicit World(unsigned seed) : bench_{.early_max = seed % 4}, random_(seed) {
    bench_.start();
    deliver();
  }

  void run(std::int64_t us, bool calm) {
    calm_ = calm;
    for (const std::int64_t end = now_ + us; now_ < end; ++now_) {
      arrive();
      if (!calm && random_() % 10 == 0) change();
      if (!calm && random_() % 3'000 == 0) restart();
      if (now_ % 100 == 0) {
        send_changes({}, {});
        bench_.tick(now_);
        deliver();
      }
      REQUIRE(bench_.index.check_bounds() == "");
      REQUIRE(bench_.workers.check_bounds() == "");
    }
  }
  void compare() const {
    CHECK(bench_.workers.syncing() <= 1);  // node 2 does not exist
    REQUIRE(bench_.index.holdings(1) == held_.size());
    for (const auto& [generation, n] : held_) CHECK(bench_.index.generation_of(name(n), 1) == generation);
  }

 private:
  using Letter = std::variant<CacheChanges, InventoryPart, InventoryRequest>;

  void send(const Letter& letter) {
    const auto delay = [&] { return 1 + static_cast<std::int64_t>(random_() % (calm_ ? 3 : 60)); };
    if (calm_ || random_() % 10 != 0) mail_.emplace(now_ + delay(), letter);
    if (!calm_ && random_() % 10 == 0) mail_.emplace(now_ + delay(), letter);
  }
  void deliver() {
    for (const InventoryRequest& request : bench_.asked) send(request);
    bench_.asked.clear();
  }
  void send_changes(std::vector<BlockEntry> added, std::vector<BlockVersion> removed) {
    send(CacheChanges{incarnation_, ++sequence_, std::move(added), std::move(removed), {{0, 0}, {1, 1}}});
  }
  void change() {
    const auto n = static_cast<std::uint8_t>(random_() % 12);
    std::vector<BlockVersion> removed;
    for (auto at = held_.begin(); at != held_.end(); ++at)
      if (at->second == n) {
        removed.push_back({name(n), at->first});
        held_.erase(at);
        break;
      }
    std::vector<BlockEntry> added;
    if (removed.empty() || random_() % 2 == 0) {
      added.push_back(entry(n, ++generation_));
      held_[generation_] = n;
    }
    send_changes(added, removed);
  }
  void restart() {
    incarnation_ += 10'000;
    generation_ = incarnation_;
    sequence_ = 0;
    held_.clear();
  }
  void answer(const InventoryRequest& request) {
    InventoryPart part{incarnation_, request.after, sequence_, {}, true};
    for (auto at = held_.upper_bound(request.after); at != held_.end() && part.last; ++at) {
      part.last = part.blocks.size() < 3;
      if (part.last) part.blocks.push_back(entry(at->second, at->first));
    }
    send(part);
  }
  void arrive() {
    while (!mail_.empty() && mail_.begin()->first <= now_) {
      Letter letter = std::move(mail_.begin()->second);
      mail_.erase(mail_.begin());
      if (const auto* request = std::get_if<InventoryRequest>(&letter)) answer(*request);
      bench_.call([&](Effects& effects) {
        if (auto* changes = std::get_if<CacheChanges>(&letter))
          bench_.workers.on_changes({now_}, 1, std::move(*changes), effects);
        if (auto* part = std::get_if<InventoryPart>(&letter))
          bench_.workers.on_part({now_}, 1, std::move(*part), effects);
      });
      deliver();
    }
  }

  Bench bench_;
  std::mt19937 random_;
  std::multimap<std::int64_t, Letter> mail_;
  std::map<std::uint64_t, std::uint8_t> held_;  // generation → block
  std::int64_t now_ = 0;
  bool calm_ = false;
  Incarnation incarnation_ = 10'000;
  std::uint64_t generation_ = 10'000, sequence_ = 0;
};

TEST_CASE(
    "followed workers: after losses, duplicates, reordering and restarts the index equals the worker's "
    "blocks") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    World world(seed);
    for (int round = 0; round < 3; ++round) {
      world.run(2'000, false);
      world.run(2'000, true);
      world.compare();
    }
  }
}

}  // namespace followed_workers_test
}  // namespace troupe::actors
