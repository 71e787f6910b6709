#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "actors/testing/kv_worker_test.h"

namespace troupe::actors {
namespace {

using namespace kv_worker_test;

constexpr std::uint8_t blocks = 12;
constexpr std::uint32_t pages = 20;
constexpr int garbage = -1;
constexpr Incarnation incarnation = 5'000;

// In a build that cuts names to their first byte, these are five names for twelve blocks.
BlockName block_of(std::uint8_t n) {
  BlockName result;
  result.bytes[0] = n % 5;
  result.bytes[31] = n;
  return result;
}

// A worker and all its peers: its own inference worker, two nodes that read from it and from which
// it pulls, an allocator and a cache-meta. Messages are delayed, duplicated and lost as far as the
// protocol allows. Pages hold the number of the block whose bytes they would hold. An index follows
// the changes sent to the cache-meta.
class World {
 public:
  explicit World(unsigned seed) : random_(seed) {
    probe_.start();
    follow_effects();
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      move_on(1 + random_() % 40);
      switch (random_() % 8) {
        case 0:
          disturb();
          break;
        case 1:
          ask({2 + static_cast<NodeId>(random_() % 2), Role::kv_worker});
          break;
        case 2:
        case 3:
          if (!held_.empty()) release();
          break;
        default:
          if (asked_.size() < 8) ask(worker);
      }
      check();
    }
  }

  // All peers release, and leases of lost releases end; then no request waits and nothing is
  // pinned.
  void finish() {
    while (!held_.empty()) release();
    for (int i = 0; i < 200; ++i) {
      move_on(100);
      while (!held_.empty()) release();
    }
    check();
    CHECK(asked_.empty());
    CHECK(core_.waiting() + core_.pending() + core_.remote_reads() + core_.pulls_running() == 0);
    std::size_t ready = 0;
    for (const PoolBlock* block : core_.pool().ready_after(0, pages)) {
      CHECK(block->pins == 0);
      ready += block->pages.size();
    }
    CHECK(core_.pool().used(PoolArea::item) + core_.pool().used(PoolArea::user) == ready);
  }

  // Counts that show that each case happened.
  std::uint64_t pulled = 0, read_elsewhere = 0, checked = 0, in_flight = 0;

 private:
  using Key = std::pair<Address, RequestId>;
  struct HeldGrants {
    AcquireBlocks ask;
    std::vector<BlockGrant> grants;
    std::int64_t until = 0;  // on the reader's clock
  };

  bool chance(unsigned one_in) { return random_() % one_in == 0; }
  void later(std::int64_t us_max, std::function<void()> action) {
    agenda_.emplace(now_ + 1 + static_cast<std::int64_t>(random_() % us_max), std::move(action));
  }
  void move_on(std::int64_t us) {
    const std::int64_t until = now_ + us;
    while (!agenda_.empty() && agenda_.begin()->first <= until) {
      now_ = std::max(now_, agenda_.begin()->first);
      const auto action = agenda_.extract(agenda_.begin());
      fire_timers();
      action.mapped()();
    }
    now_ = until;
    fire_timers();
  }
  void fire_timers() {
    probe_.run_until(now_);
    follow_effects();
  }
  void send(Address from, const Message& message) {
    fire_timers();
    probe_.receive(now_, from, message);
    follow_effects();
    if (chance(5)) later(300, [=, this] { probe_.receive(now_, from, message), follow_effects(); });
  }

  void ask(Address from) {
    AcquireBlocks ask{++asks_, static_cast<std::int64_t>(50 + random_() % 400)};
    ask.may_evict = !chance(4);
    ask.read_only = from != worker;
    ask.early = from == worker && !chance(4);
    for (std::uint8_t n = 0; n < blocks; ++n)
      if (chance(3))
        ask.wants.push_back({block_of(n), n % 3 == 0 ? SegmentKind::user : SegmentKind::item, "", 1U + n,
                             static_cast<NodeId>(random_() % 4)});
    std::shuffle(ask.wants.begin(), ask.wants.end(), random_);
    if (chance(2)) ask.retention.evict_first = {block_of(0), block_of(6)};
    asked_[{from, ask.id}] = {ask, {}, now_ + 2'000};
    if (from == worker) return send(from, ask);
    const Key key{from, ask.id};
    later(100, [=, this] { send(from, ask); });
    later(1'000, [=, this] { asked_.erase(key); });  // its wait deadline
  }

  void disturb() {
    const SegmentKind kind = chance(2) ? SegmentKind::user : SegmentKind::item;
    const std::uint64_t item_pages = random_() % (pages + 1);
    switch (random_() % 4) {
      case 0:
        send(meta, LeaderBeat{++token_});
        return send(meta, Forget{kind, "", token_});
      case 1:
        return send(allocator, SetSplit{incarnation, ++split_, {{item_pages}, {pages - item_pages}}});
      case 2:
        probe_.lose(now_, 2 + static_cast<NodeId>(random_() % 2));
        return follow_effects();
      default:
        check_inventory();
    }
  }

  void release() {
    auto at = held_.begin();
    std::advance(at, random_() % held_.size());
    const auto [key, held] = *at;
    held_.erase(at);
    in_flight_.erase(key);
    ReleaseBlocks release{held.ask.id, {}};
    for (std::size_t i = 0; i < held.grants.size(); ++i) {
      const BlockGrant& grant = held.grants[i];
      if (grant.grant == Grant::none) continue;
      Outcome outcome = chance(20) ? Outcome::corrupt : Outcome::done;
      if (grant.grant == Grant::write) {
        outcome = chance(4) ? Outcome::abandoned : Outcome::written;
        fill(grant.pages, outcome == Outcome::written ? number(held.ask.wants[i].name) : garbage);
      }
      release.outcomes.push_back({held.ask.wants[i].name, grant.generation, outcome, grant.generation});
    }
    // A remote release may be lost.
    if (key.first == worker || !chance(4)) send(key.first, release);
  }

  // ---- effects of the worker ----

  void follow_effects() {
    const Effects effects = std::exchange(probe_.effects, {});
    for (const auto& effect : effects.list) {
      if (const auto* start = std::get_if<Effects::Start>(&effect)) {
        if (const auto* work = std::get_if<PullBlocks>(&start->work)) on_pull(start->job, *work);
        if (const auto* work = std::get_if<CheckBlocks>(&start->work)) on_check(start->job, *work);
      }
      const auto* sent = std::get_if<Effects::Send>(&effect);
      if (!sent) continue;
      if (const auto* answer = std::get_if<BlocksAcquired>(&sent->message)) on_answer(sent->to, *answer);
      if (const auto* question = std::get_if<AcquireBlocks>(&sent->message)) on_question(sent->to, *question);
      if (const auto* changes = std::get_if<CacheChanges>(&sent->message)) on_changes(*changes);
    }
  }

  // Pages in flight belong to their reader until it releases them, however the copy ends. The
  // plan may end before the copy does.
  bool on_in_flight_answer(Address to, const BlocksAcquired& answer) {
    if (std::ranges::none_of(answer.grants, &BlockGrant::in_flight)) return false;
    REQUIRE(to == worker);
    for (const BlockGrant& grant : answer.grants)
      if (grant.in_flight) in_flight_[{to, answer.id}].push_back({grant.generation, grant.pages});
    ++in_flight;
    if (chance(3))
      later(300, [=, this] {
        if (asked_.erase({to, answer.id}) == 0) return;
        in_flight_.erase({to, answer.id});
        send(to, ReleaseBlocks{answer.id, {}});
      });
    return true;
  }

  void on_answer(Address to, const BlocksAcquired& answer) {
    if (on_in_flight_answer(to, answer)) return;
    const auto asked = asked_.extract({to, answer.id});
    if (asked.empty()) {  // answers a duplicate request, or is too late
      if (held_.count({to, answer.id}) == 0) later(50, [=, this] { send(to, ReleaseBlocks{answer.id, {}}); });
      return;
    }
    HeldGrants held = asked.mapped();
    held.grants = answer.grants;
    REQUIRE(held.grants.size() == held.ask.wants.size());
    REQUIRE((answer.lease_us == 0) == (to == worker));
    for (const BlockGrant& grant : held.grants) {
      if (grant.grant == Grant::write) fill(grant.pages, garbage);
      read_elsewhere += to != worker && grant.grant == Grant::read;
    }
    held_[asked.key()] = held;
  }

  // Handles a request to another node to pin blocks. The node may not answer, have some of them, be
  // late, or answer twice.
  void on_question(Address to, const AcquireBlocks& question) {
    REQUIRE(question.read_only);
    if (chance(6)) return;
    BlocksAcquired answer{question.id, 9, 2'000, {}};
    for (const BlockWant& want : question.wants)
      answer.grants.push_back(
          chance(4) ? BlockGrant{}
                    : BlockGrant{Grant::read, 1, 8, std::vector<std::uint32_t>((want.tokens + 3) / 4)});
    later(150, [=, this] { send(to, answer); });
  }

  // Copies that end after the lease have read pages that may hold another block by then.
  void on_pull(std::uint64_t job, const PullBlocks& work) {
    const std::int64_t lease_ends = now_ + work.budget_us;
    for (const auto& one : work.blocks) fill(one.to, garbage);
    later(chance(4) ? 4'000 : 200, [=, this] {
      PullResult result;
      for (const auto& one : work.blocks) {
        result.ok.push_back(!chance(6));
        if (result.ok.back() && now_ < lease_ends) fill(one.to, number(one.name));
      }
      pulled += now_ < lease_ends;
      probe_.done(now_, job,
                  chance(5) ? JobResult{Refusal{RefusalKind::unavailable, "away"}} : JobResult{result});
      follow_effects();
    });
  }

  // A block being checked is not overwritten meanwhile, even if it is removed.
  void on_check(std::uint64_t job, const CheckBlocks& work) {
    const auto contents = [=, this] {
      std::vector<int> all;
      for (const auto& one : work.blocks)
        for (const std::uint32_t page : one.pages) all.push_back(content_[page]);
      return all;
    };
    later(150, [=, this, before = contents()] {
      REQUIRE(contents() == before);
      BlockCheckResult result;
      for (std::size_t i = 0; i < work.blocks.size(); ++i) result.ok.push_back(!chance(30));
      ++checked;
      probe_.done(now_, job,
                  chance(9) ? JobResult{Refusal{RefusalKind::unavailable, "no time"}} : JobResult{result});
      follow_effects();
    });
  }

  void on_changes(const CacheChanges& changes) {
    REQUIRE(changes.sequence == ++sequence_);
    for (const BlockEntry& block : changes.added)
      REQUIRE(index_.emplace(block.generation, block.name).second);
    for (const BlockVersion& block : changes.removed) REQUIRE(index_.erase(block.generation) == 1);
  }

  // ---- checks ----

  static int number(const BlockName& which) { return which.bytes[31]; }
  void fill(const std::vector<std::uint32_t>& which, int content) {
    for (const std::uint32_t page : which) content_[page] = content;
  }

  // Each reader reads the block that it asked for, each block has one writer, and the index is
  // right.
  void check() {
    REQUIRE(core_.pool().check_invariants() == "");
    REQUIRE(core_.check_bounds() == "");
    std::map<std::uint32_t, std::uint64_t> page_generation;
    std::map<std::uint64_t, int> writers;
    for (const auto& [key, held] : held_)
      for (std::size_t i = 0; i < held.grants.size(); ++i) {
        const BlockGrant& grant = held.grants[i];
        if (key.first != worker && now_ >= held.until) continue;
        if (grant.grant == Grant::write) REQUIRE(++writers[grant.generation] == 1);
        for (const std::uint32_t page : grant.pages) {
          REQUIRE(page_generation.emplace(page, grant.generation).first->second == grant.generation);
          if (grant.grant == Grant::read) REQUIRE(content_[page] == number(held.ask.wants[i].name));
        }
      }
    for (const auto& [key, blocks] : in_flight_)
      for (const auto& [generation, block_pages] : blocks)
        for (const std::uint32_t page : block_pages)
          REQUIRE(page_generation.emplace(page, generation).first->second == generation);
    const auto ready = core_.pool().ready_after(0, pages);
    REQUIRE(ready.size() == index_.size());
    for (const PoolBlock* block : ready) REQUIRE(identical(index_.at(block->generation), block->name));
  }

  void check_inventory() {
    std::size_t found = 0;
    InventoryPart part;
    while (!part.last) {
      const std::uint64_t after = part.blocks.empty() ? 0 : part.blocks.back().generation;
      probe_.receive(now_, meta, InventoryRequest{incarnation, after});
      part = probe_.sent<InventoryPart>().at(0);
      follow_effects();
      REQUIRE(part.sequence == sequence_);
      REQUIRE((part.last || part.blocks.size() == 3));
      for (const BlockEntry& block : part.blocks) REQUIRE(index_.count(block.generation) == 1);
      found += part.blocks.size();
    }
    REQUIRE(found == index_.size());
  }

  std::mt19937 random_;
  KvWorkerCore core_{{.incarnation = incarnation,
                      .pool = pool_sizes(pages, 4, {13, 7}),
                      .requests_max = 12,
                      .remote_reads_max = 4,
                      .read_lease = {2'000},
                      .heartbeat = {500},
                      .inventory_part = 3,
                      .pulls = true,
                      .pull_parts = 2,
                      .scrub = {.interval = {400}},
                      .pulling = {.running_max = 2, .pulls_max = 3}}};
  CoreProbe probe_{core_};
  std::int64_t now_ = 0;
  std::multimap<std::int64_t, std::function<void()>> agenda_;
  RequestId asks_ = 0;
  std::uint64_t split_ = 0, token_ = 0, sequence_ = 0;
  std::map<Key, HeldGrants> asked_;  // not answered yet
  std::map<Key, HeldGrants> held_;
  // Announced as in flight: may be read.
  std::map<Key, std::vector<std::pair<std::uint64_t, std::vector<std::uint32_t>>>> in_flight_;
  std::vector<int> content_ = std::vector<int>(pages, garbage);
  std::map<std::uint64_t, BlockName> index_;  // by generation
};

void run_seeds(unsigned seeds) {
  std::uint64_t pulled = 0, read_elsewhere = 0, checked = 0, in_flight = 0;
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    World world(seed);
    world.run(400);
    world.finish();
    pulled += world.pulled;
    read_elsewhere += world.read_elsewhere;
    checked += world.checked;
    in_flight += world.in_flight;
  }
  CHECK(pulled > seeds);
  CHECK(read_elsewhere > seeds);
  CHECK(checked > seeds);
  CHECK(in_flight > seeds / 2);
}

TEST_CASE(
    "kv worker: in any order of events readers read their block, and after all releases nothing is held") {
  run_seeds(60);
}

}  // namespace
}  // namespace troupe::actors
