#include "actors/cache_meta/leadership.h"

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <random>

#include "runtime/coordination/coordination_state.h"

namespace troupe::actors {
namespace leadership_test {

constexpr std::int64_t beat = 200, lease = 1'000;

// Some cache-metas and one Coordination in virtual time. Requests are answered after `delay` us;
// while `away` they are refused.
struct Bench {
  CoordinationState state;
  std::vector<Leadership> metas;
  std::multimap<std::int64_t, std::pair<std::size_t, JobDone>> answers;
  std::int64_t now = 0, delay = 1;
  bool away = false;
  std::optional<std::size_t> stopped;  // this cache-meta does not run

  explicit Bench(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      metas.emplace_back(static_cast<NodeId>(i + 1), 7, Duration{lease}, 7);
  }
  JobResult ask(const Coordinate& question) {
    if (away) return Refusal{RefusalKind::unavailable, "away", "", "", ""};
    auto answer = state.ask(now, question);
    if (const auto* refusal = std::get_if<Refusal>(&answer)) return *refusal;
    return std::get<CoordinationReply>(answer);
  }
  void take(std::size_t meta, const Effects& effects) {
    for (const auto& effect : effects.list)
      if (const auto* start = std::get_if<Effects::Start>(&effect))
        answers.insert({now + delay, {meta, {start->job, ask(std::get<Coordinate>(start->work))}}});
  }
  void tick() {
    ++now;
    while (!answers.empty() && answers.begin()->first <= now) {
      const auto [meta, done] = answers.begin()->second;
      answers.erase(answers.begin());
      Effects effects;
      metas[meta].on_done({now}, done, effects);
      take(meta, effects);
    }
    for (std::size_t i = 0; i < metas.size(); ++i) {
      if (now % beat != static_cast<std::int64_t>(i + 1) || stopped == i) continue;
      Effects effects;
      metas[i].on_heartbeat({now}, effects);
      take(i, effects);
    }
  }
  void run(std::int64_t us) {
    for (const std::int64_t end = now + us; now < end;) tick();
  }
  void drain(std::size_t meta, bool on) {
    Effects effects;
    metas[meta].drain(on, {now}, effects);
    take(meta, effects);
  }
  std::vector<std::size_t> leaders() const {
    std::vector<std::size_t> leading;
    for (std::size_t i = 0; i < metas.size(); ++i)
      if (metas[i].leads({now})) leading.push_back(i);
    return leading;
  }
  CoordinationReply key() {
    return std::get<CoordinationReply>(state.ask(now, Coordinate{ReadKey{leader_key}}));
  }
};
using Leaders = std::vector<std::size_t>;

TEST_CASE("leadership: one cache-meta leads, its token is the key's revision, and it stays the leader") {
  Bench b(2);
  b.run(2 * beat);
  CHECK(b.leaders() == Leaders{0});
  CHECK(b.key().value == "1 7");
  const std::uint64_t token = b.metas[0].token();
  CHECK(token == b.key().revision);
  b.run(20 * lease);
  CHECK(b.leaders() == Leaders{0});
  CHECK(b.metas[0].token() == token);
  CHECK(b.metas[1].token() == 0);
}

TEST_CASE("leadership: when the leader stops, another leads after the lease, with a higher token") {
  Bench b(2);
  b.run(3 * beat);
  const std::uint64_t token = b.metas[0].token();
  b.stopped = 0;
  b.run(lease / 2);
  CHECK(b.leaders() == Leaders{0});
  b.run(lease);
  CHECK(b.leaders() == Leaders{1});
  CHECK(b.metas[1].token() > token);
  b.stopped.reset();
  b.run(3 * beat);
  CHECK(b.leaders() == Leaders{1});
  CHECK(b.metas[0].token() == 0);
}

TEST_CASE("leadership: an unreachable Coordination changes nothing until the lease may have ended") {
  Bench b(1);
  b.run(2 * beat);
  const std::uint64_t token = b.metas[0].token();
  b.away = true;
  b.run(lease / 2);
  CHECK(b.leaders() == Leaders{0});
  b.away = false;
  b.run(beat);
  b.away = true;
  b.run(lease / 2);
  CHECK(b.leaders() == Leaders{0});
  CHECK(b.metas[0].token() == token);
  b.run(lease / 2);
  CHECK(b.leaders().empty());
  b.away = false;
  b.run(3 * beat);
  CHECK(b.leaders() == Leaders{0});
  CHECK(b.metas[0].token() > token);
}

TEST_CASE("leadership: a lease counts from the request, not from the answer") {
  Bench b(1);
  b.run(2 * beat);
  b.delay = 3 * lease / 4;
  b.run(beat + 5);
  b.delay = 1;
  b.away = true;  // requested at 401, answered at 1151
  b.run(1'190 - b.now);
  CHECK(b.leaders() == Leaders{0});
  b.run(15);  // 401 + 800
  CHECK(b.leaders().empty());
}

TEST_CASE("leadership: a leader whose write lost its answer learns that it leads") {
  Bench b(1);
  b.tick();
  while (b.key().revision == 0) b.tick();
  auto& [meta, done] = b.answers.begin()->second;  // the answer to the write
  done.result = Refusal{RefusalKind::unavailable, "away", "", "", ""};
  b.tick();
  CHECK(b.leaders().empty());
  b.run(2 * beat);
  CHECK(b.leaders() == Leaders{0});
  CHECK(b.metas[0].token() == b.key().revision);
}

TEST_CASE("leadership: a key that another process erased or took over demotes the leader") {
  Bench b(1);
  b.run(2 * beat);
  const Revision mine = b.key().revision;
  b.state.ask(b.now, Coordinate{WriteKey{leader_key, "9 9", mine, 0}});
  b.run(2 * beat);
  CHECK(b.leaders().empty());
  b.state.ask(b.now, Coordinate{EraseKey{leader_key, b.key().revision}});
  b.run(2 * beat);
  CHECK(b.leaders() == Leaders{0});
}

TEST_CASE("leadership: draining gives leadership up at once and does not seek it") {
  Bench b(2);
  b.run(2 * beat);
  b.drain(0, true);
  CHECK(b.leaders().empty());
  CHECK(!b.metas[0].drained());
  b.run(2 * beat);
  CHECK(b.metas[0].drained());
  CHECK(b.leaders() == Leaders{1});  // does not wait for the lease
  b.drain(1, true);
  b.run(3 * lease);
  CHECK(b.leaders().empty());
  CHECK(b.key().revision == 0);
  b.drain(0, false);
  CHECK(!b.metas[0].drained());
  b.run(3 * beat);
  CHECK(b.leaders() == Leaders{0});
}

TEST_CASE("leadership: ending a drain does not revive the old token while its key is being erased") {
  Bench b(1);
  b.run(2 * beat);
  b.drain(0, true);
  b.drain(0, false);
  CHECK(b.leaders().empty());
  b.run(2 * beat);
  CHECK(b.leaders() == Leaders{0});
}

TEST_CASE("leadership: under refusals, delays and losses at most one leads at a time, and finally one does") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Bench b(3);
    std::uint64_t highest = 0;
    std::int64_t restarted = -lease;
    for (int i = 0; i < 30'000; ++i) {
      const auto chance = random() % 2'000;
      if (chance == 0) b.away = !b.away;
      if (chance == 1) b.stopped = random() % 4;  // 3 stops none
      if (chance == 2) b.drain(random() % 3, random() % 2 == 0);
      if (chance == 3) {  // the Coordination restarts
        CoordinationState::Keys saved = b.state.keys();
        std::erase_if(saved, [](const auto& entry) { return entry.second.lease != 0; });
        b.state = CoordinationState(std::move(saved), b.state.last());
        restarted = b.now;
      }
      if (chance < 20) b.delay = 1 + static_cast<std::int64_t>(random() % (random() % 4 == 0 ? 1'500 : 50));
      if (chance < 60 && !b.answers.empty())
        b.answers.begin()->second.second.result = Refusal{RefusalKind::unavailable, "away", "", "", ""};
      b.tick();
      const Leaders leaders = b.leaders();
      REQUIRE((leaders.size() <= 1 || b.now < restarted + lease));
      for (std::size_t k = 1; k < leaders.size(); ++k)
        REQUIRE(b.metas[leaders[k - 1]].token() != b.metas[leaders[k]].token());
      for (const std::size_t leader : leaders) highest = std::max(highest, b.metas[leader].token());
    }
    REQUIRE(highest > 0);
    b.away = false;
    b.delay = 1;
    b.stopped.reset();
    for (std::size_t i = 0; i < 3; ++i) b.drain(i, false);
    b.run(4 * lease);
    REQUIRE(b.leaders().size() == 1);
    CHECK(b.metas[b.leaders()[0]].token() == b.key().revision);
  }
}

TEST_CASE("leadership: a leader of an emptied store gets a token above those of leaders before the loss") {
  Bench b(2);
  b.run(2 * beat);
  REQUIRE(b.leaders() == Leaders{0});
  const std::uint64_t low = b.metas[0].token();
  b.state.ask(b.now, Coordinate{RaiseRevisions{70}});  // by a node that knows a larger revision
  b.run(2 * beat);
  CHECK(b.leaders() == Leaders{0});
  CHECK(low < 70);
  CHECK(b.metas[0].token() > 70);
  CHECK(b.metas[0].token() == b.key().revision);
  const std::uint64_t raised = b.metas[0].token();
  b.run(4 * beat);
  CHECK(b.metas[0].token() == raised);
}

}  // namespace leadership_test
}  // namespace troupe::actors
