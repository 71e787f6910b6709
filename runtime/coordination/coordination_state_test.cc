#include "runtime/coordination/coordination_state.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace troupe {
namespace {

struct Bench {
  CoordinationState state;

  CoordinationReply ask(std::int64_t us, const decltype(Coordinate::what)& what) {
    return std::get<CoordinationReply>(state.ask(us, Coordinate{what}));
  }
  Refusal refused(std::int64_t us, const decltype(Coordinate::what)& what) {
    return std::get<Refusal>(state.ask(us, Coordinate{what}));
  }
};

TEST_CASE("coordination state: a key changes only with its current revision, else it is returned") {
  Bench b;
  CHECK(b.ask(0, ReadKey{"k"}).ok);
  CHECK(b.ask(0, ReadKey{"k"}).revision == 0);
  const CoordinationReply first = b.ask(0, WriteKey{"k", "a", 0});
  CHECK(first.ok);
  const CoordinationReply late = b.ask(0, WriteKey{"k", "b", 0});
  CHECK(!late.ok);
  CHECK(late.value == "a");
  CHECK(late.revision == first.revision);
  CHECK(b.ask(0, WriteKey{"k", "b", first.revision}).revision > first.revision);
  CHECK(!b.ask(0, EraseKey{"k", first.revision}).ok);
  CHECK(b.ask(0, EraseKey{"k", b.ask(0, ReadKey{"k"}).revision}).ok);
  CHECK(b.ask(0, ReadKey{"k"}).revision == 0);
}

TEST_CASE("coordination state: a key ends with its lease, at the exact microsecond") {
  Bench b;
  const LeaseId lease = b.ask(0, OpenLease{100}).lease;
  CHECK(b.ask(1, WriteKey{"k", "a", 0, lease}).ok);
  CHECK(b.ask(2, WriteKey{"stays", "a", 0}).ok);
  CHECK(b.ask(90, KeepLease{lease}).ok);
  CHECK(*b.state.next_end() == 190);
  CHECK(b.ask(189, ReadKey{"k"}).revision != 0);
  CHECK(b.ask(190, ReadKey{"k"}).revision == 0);
  CHECK(b.ask(190, ReadKey{"stays"}).revision != 0);
  CHECK(!b.ask(190, KeepLease{lease}).ok);
  CHECK(!b.ask(190, WriteKey{"k", "a", 0, lease}).ok);
  CHECK(!b.state.next_end());
}

TEST_CASE("coordination state: a key rewritten without its lease outlives the lease") {
  Bench b;
  const LeaseId lease = b.ask(0, OpenLease{100}).lease;
  const Revision bound = b.ask(0, WriteKey{"k", "a", 0, lease}).revision;
  CHECK(b.ask(1, WriteKey{"k", "b", bound}).ok);
  CHECK(b.ask(500, ReadKey{"k"}).value == "b");
}

TEST_CASE("coordination state: time that goes back does not revive a lease") {
  Bench b;
  const LeaseId lease = b.ask(0, OpenLease{100}).lease;
  b.ask(1'000, ReadKey{"k"});
  CHECK(!b.ask(50, KeepLease{lease}).ok);
}

TEST_CASE("coordination state: a watch ends when the revision changes, also by a lease's end") {
  Bench b;
  CHECK(!b.state.watched(0, WatchKey{"k", 0, 10}));
  const LeaseId lease = b.ask(0, OpenLease{100}).lease;
  const Revision seen = b.ask(0, WriteKey{"k", "a", 0, lease}).revision;
  CHECK(b.state.watched(0, WatchKey{"k", 0, 10}));
  CHECK(!b.state.watched(99, WatchKey{"k", seen, 10}));
  CHECK(b.state.watched(100, WatchKey{"k", seen, 10}));
}

TEST_CASE("coordination state: a full store refuses what does not fit and accepts what does") {
  Bench b;
  const std::size_t capacity = CoordinationState::bytes_max - CoordinationState::key_bytes - 1;
  CHECK(b.refused(0, WriteKey{"k", std::string(capacity + 1, 'x'), 0}).code == "coordination_full");
  const Refusal reported = b.refused(0, WriteKey{std::string(150, 'k'), std::string(capacity, 'x'), 0});
  CHECK(reported.where == "coordination key " + std::string(100, 'k'));
  CHECK(reported.what == "no room for " + std::to_string(capacity) + " bytes");
  CHECK(b.ask(0, ReadKey{"k"}).revision == 0);
  const Revision big = b.ask(0, WriteKey{"k", std::string(capacity, 'x'), 0}).revision;
  CHECK(b.refused(0, WriteKey{"l", "", 0}).kind == RefusalKind::too_large);
  CHECK(b.ask(0, WriteKey{"k", "small", big}).ok);
  CHECK(b.ask(0, WriteKey{"l", "", 0}).ok);
}

TEST_CASE("coordination state: leases are bounded in number and length") {
  Bench b;
  CHECK(b.refused(0, OpenLease{0}).code == "bad_lease");
  CHECK(b.refused(0, OpenLease{CoordinationState::ttl_us_max + 1}).code == "bad_lease");
  for (std::size_t i = 0; i < CoordinationState::leases_max; ++i) CHECK(b.ask(0, OpenLease{100}).ok);
  CHECK(b.refused(99, OpenLease{100}).code == "coordination_full");
  CHECK(b.ask(100, OpenLease{100}).ok);
}

TEST_CASE("coordination state: a restored state continues with higher numbers, without leased keys") {
  Bench b;
  const LeaseId lease = b.ask(0, OpenLease{100}).lease;
  b.ask(0, WriteKey{"bound", "a", 0, lease});
  b.ask(0, WriteKey{"free", "a", 0});
  CoordinationState::Keys saved = b.state.keys();
  CHECK(std::erase_if(saved, [](const auto& entry) { return entry.second.lease != 0; }) == 1);
  Bench next{CoordinationState(saved, b.state.last())};
  CHECK(next.ask(0, ReadKey{"free"}).value == "a");
  CHECK(!next.ask(0, KeepLease{lease}).ok);
  CHECK(next.ask(0, WriteKey{"bound", "b", 0}).revision > b.state.last());
}

TEST_CASE("coordination state: random questions never reuse numbers, and key revisions rise") {
  const unsigned seed = 11;
  CAPTURE(seed);
  std::mt19937 random(seed);
  Bench b;
  Revision highest = 0;
  std::vector<LeaseId> leases{0};
  for (std::int64_t us = 0; us < 20'000; us += random() % 20) {
    const std::string key(1, static_cast<char>('a' + random() % 4));
    const Revision seen = random() % 4 == 0 ? random() % 50 : b.ask(us, ReadKey{key}).revision;
    CoordinationReply got;
    const auto what = random() % 4;
    if (what == 0) got = b.ask(us, EraseKey{key, seen});
    if (what == 1) got = b.ask(us, OpenLease{1 + static_cast<std::int64_t>(random() % 200)});
    if (what >= 2) got = b.ask(us, WriteKey{key, "v", seen, leases[random() % leases.size()]});
    if (what == 1) leases.push_back(got.lease);
    if (got.ok && what != 0) REQUIRE((what == 1 ? got.lease : got.revision) > highest);
    highest = std::max({highest, got.revision, got.lease});
    REQUIRE(b.state.last() >= highest);
  }
}

}  // namespace
}  // namespace troupe
