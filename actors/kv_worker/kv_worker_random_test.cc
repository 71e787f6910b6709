#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "actors/kv_worker/kv_worker_core.h"
#include "runtime/core_probe.h"

namespace troupe::actors {
namespace {

constexpr std::uint8_t blocks = 12;

BlockName name(std::uint8_t n) {
  BlockName result;
  result.bytes[0] = n;
  return result;
}

// Inference workers on three nodes that ask for random blocks, hold what they get for a while and release it,
// sometimes without having written. Messages are doubled now and then; owners are forgotten, nodes are lost
// and the split moves.
class Clients {
 public:
  explicit Clients(unsigned seed) : random_(seed) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      now_ += 1 + random_() % 40;
      probe_.run_until(now_);
      take_answers();
      if (random_() % 10 == 0) disturb();
      if (random_() % 2 == 0 && asked_.size() < 8) {
        ask();
      } else if (!held_.empty()) {
        release();
      }
      REQUIRE(core_.pool().check_invariants() == "");
    }
  }
  // Everybody releases; then nobody may be left waiting.
  void finish() {
    for (int i = 0; i < 1'000 && !held_.empty(); ++i) release();
    CHECK(held_.empty());
    CHECK(asked_.empty());
    CHECK(answers_ + lost_ == asks_);
  }

 private:
  using Key = std::pair<Address, RequestId>;
  struct Grants {
    AcquireBlocks ask;
    std::vector<BlockGrant> grants;
  };

  void ask() {
    AcquireBlocks ask{++asks_, 1'000'000, {}, {}, random_() % 4 != 0};
    for (std::uint8_t n = 0; n < blocks; ++n) {
      const bool is_user = n % 3 == 0;
      if (random_() % 3 == 0)
        ask.wants.push_back({name(n), is_user ? SegmentKind::user : SegmentKind::item, "", 1U + n});
    }
    std::shuffle(ask.wants.begin(), ask.wants.end(), random_);
    if (random_() % 2 == 0) ask.evict_first = {name(0), name(6)};
    const Address from{1U + static_cast<NodeId>(random_() % 3), Role::inference_worker};
    asked_[{from, ask.id}] = ask;
    send(from, ask);
  }

  void disturb() {
    const std::uint64_t what = random_() % 3;
    if (what == 0) {
      const SegmentKind kind = random_() % 2 == 0 ? SegmentKind::user : SegmentKind::item;
      probe_.receive(now_, {1, Role::cache_meta}, Forget{kind, ""});
    } else if (what == 1) {
      const std::uint64_t item_pages = random_() % 21;
      probe_.receive(now_, {1, Role::allocator}, SetSplit{++split_, item_pages, 20 - item_pages});
    } else {
      const NodeId node = 1U + static_cast<NodeId>(random_() % 3);
      const auto theirs = [&](const auto& entry) { return entry.first.first.node == node; };
      std::erase_if(held_, theirs);
      lost_ += std::erase_if(asked_, theirs);
      probe_.lose(now_, node);
    }
    take_answers();
  }

  void release() {
    auto at = held_.begin();
    std::advance(at, random_() % held_.size());
    ReleaseBlocks release{at->second.ask.id, {}};
    for (std::size_t i = 0; i < at->second.grants.size(); ++i) {
      const BlockGrant& grant = at->second.grants[i];
      const BlockName& which = at->second.ask.wants[i].name;
      if (grant.grant == Grant::none) continue;
      Outcome outcome = random_() % 20 == 0 ? Outcome::corrupt : Outcome::done;
      if (grant.grant == Grant::write) outcome = random_() % 4 == 0 ? Outcome::abandoned : Outcome::written;
      release.outcomes.push_back({which, grant.generation, outcome, grant.generation});
    }
    const Address from = at->first.first;
    held_.erase(at);
    send(from, release);
  }

  void send(Address from, const Message& message) {
    probe_.receive(now_, from, message);
    take_answers();
    if (random_() % 5 != 0) return;
    probe_.receive(now_, from, message);  // doubled
    take_answers();
  }

  void take_answers() {
    for (const auto& effect : probe_.effects.list) {
      const auto* sent = std::get_if<Effects::Send>(&effect);
      const auto* answer = sent ? std::get_if<BlocksAcquired>(&sent->message) : nullptr;
      if (!answer) continue;
      const auto asked = asked_.find({sent->to, answer->id});
      if (asked == asked_.end()) continue;  // the answer to a doubled request
      ++answers_;
      REQUIRE(answer->grants.size() == asked->second.wants.size());
      held_[asked->first] = {asked->second, answer->grants};
      asked_.erase(asked);
    }
    probe_.effects = {};
    check_writers();
  }

  // One writer per reservation (a forgotten block may be written once more beside the old one), and no page
  // in two hands unless all of them read it as the same block.
  void check_writers() const {
    std::map<std::uint64_t, int> writers;
    std::map<std::uint32_t, std::uint64_t> page_generation;
    for (const auto& [key, held] : held_)
      for (std::size_t i = 0; i < held.grants.size(); ++i) {
        const BlockGrant& grant = held.grants[i];
        if (grant.grant == Grant::write) REQUIRE(++writers[grant.generation] == 1);
        for (const std::uint32_t page : grant.pages)
          REQUIRE(page_generation.emplace(page, grant.generation).first->second == grant.generation);
        if (grant.grant == Grant::read) REQUIRE(grant.checksum != 0);
      }
  }

  std::mt19937 random_;
  KvWorkerCore core_{{.pool = {20, 4, 13, 7}, .lease = {1'000'000'000}}};
  CoreProbe probe_{core_};
  std::int64_t now_ = 0;
  RequestId asks_ = 0, answers_ = 0, lost_ = 0;  // lost: asked, but their node was lost before the answer
  std::uint64_t split_ = 0;
  std::map<Key, AcquireBlocks> asked_;  // not answered yet
  std::map<Key, Grants> held_;
};

TEST_CASE("in any order of events no block has two writers, and when all release all are answered") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Clients clients(seed);
    clients.run(400);
    clients.finish();
  }
}

}  // namespace
}  // namespace troupe::actors
