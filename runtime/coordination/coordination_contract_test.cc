// Contract of every Coordination: the same cases run over the rules alone (under virtual time),
// over a single node's file, and over etcd, through two adapters at once.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <type_traits>
#include <vector>

#include "runtime/coordination/file_coordination.h"
#include "runtime/coordination/incarnation.h"
#include "runtime/testing/etcd_test_server.h"

namespace troupe {
namespace {

// Advances time with each question and with the waits of watches.
class VirtualCoordination final : public Coordination {
 public:
  std::variant<CoordinationReply, Refusal> ask(const Coordinate& question) override {
    const std::lock_guard held(mutex_);
    ++now_us_;
    if (const auto* watch = std::get_if<WatchKey>(&question.what)) wait(*watch);
    return state_.ask(now_us_, question);
  }

 private:
  void wait(const WatchKey& watch) {
    const std::int64_t end_us = now_us_ + watch.wait_us;
    while (now_us_ < end_us && !state_.watched(now_us_, watch))
      now_us_ = std::min(end_us, state_.next_end().value_or(end_us));
  }
  std::mutex mutex_;
  CoordinationState state_;
  std::int64_t now_us_ = 0;
};

// Two adapters of one store.
struct Rules {
  VirtualCoordination only;
  Coordination& a = only;
  Coordination& b = only;
  bool here = true;
};
struct File {
  TestFolder folder;
  FileCoordination only{folder.path() / "coordination"};
  Coordination& a = only;
  Coordination& b = only;
  bool here = true;
};
EtcdOptions own_part() {
  static int cases = 0;
  return {.endpoints = shared_etcd().endpoint(),
          .prefix = "/troupe/contract" + std::to_string(++cases) + "/",
          .limit_us = 20'000'000};
}
struct Etcd {
  EtcdOptions options = shared_etcd().here() ? own_part() : EtcdOptions{};
  EtcdCoordination first{options}, second{options};
  Coordination& a = first;
  Coordination& b = second;
  bool here = shared_etcd().here();
  Etcd() {
    if (!here) MESSAGE("skipped: no etcd on this machine");
  }
};

CoordinationReply ask(Coordination& at, const decltype(Coordinate::what)& what) {
  const auto answer = at.ask(Coordinate{what});
  if (const auto* refusal = std::get_if<Refusal>(&answer)) FAIL(refusal->where << ": " << refusal->what);
  return std::get<CoordinationReply>(answer);
}

std::string code_of(Coordination& at, const decltype(Coordinate::what)& what) {
  const auto answer = at.ask(Coordinate{what});
  const auto* refusal = std::get_if<Refusal>(&answer);
  return refusal ? refusal->code : "";
}

constexpr std::uint64_t number_max = std::numeric_limits<std::uint64_t>::max();
constexpr std::int64_t timeout_us = 60'000'000;

}  // namespace

TEST_SUITE("coordination contract") {
  TEST_CASE_TEMPLATE(
      "coordination: a key changes only with its current revision, otherwise the key is returned", World,
      Rules, File, Etcd) {
    World w;
    if (!w.here) return;
    CHECK(ask(w.a, ReadKey{"k"}).ok);
    CHECK(ask(w.a, ReadKey{"k"}).revision == 0);
    const CoordinationReply first = ask(w.a, WriteKey{"k", "a", 0});
    CHECK(first.ok);
    CHECK(first.revision > 0);
    CHECK(first.value == "a");
    for (const Revision wrong : {Revision{0}, first.revision + 1, number_max}) {
      const CoordinationReply late = ask(w.b, WriteKey{"k", "b", wrong});
      CHECK(!late.ok);
      CHECK(late.revision == first.revision);
      CHECK(late.value == "a");
      CHECK(!ask(w.b, EraseKey{"k", wrong}).ok);
    }
    const CoordinationReply second = ask(w.b, WriteKey{"k", "b", first.revision});
    CHECK(second.ok);
    CHECK(second.revision > first.revision);
    CHECK(ask(w.a, ReadKey{"k"}).revision == second.revision);
    CHECK(ask(w.a, ReadKey{"k"}).value == "b");
    const CoordinationReply kept = ask(w.a, EraseKey{"k", first.revision});
    CHECK(!kept.ok);
    CHECK(kept.value == "b");
    CHECK(ask(w.a, EraseKey{"k", second.revision}).ok);
    CHECK(ask(w.b, ReadKey{"k"}).revision == 0);
    CHECK(ask(w.b, ReadKey{"k"}).value.empty());
  }

  TEST_CASE_TEMPLATE(
      "coordination: erasing an absent key succeeds if 0 is expected, and else shows it absent", World, Rules,
      File, Etcd) {
    World w;
    if (!w.here) return;
    CHECK(ask(w.a, EraseKey{"k", 0}).ok);
    const CoordinationReply none = ask(w.a, EraseKey{"k", 7});
    CHECK(!none.ok);
    CHECK(none.revision == 0);
    CHECK(!ask(w.a, WriteKey{"k", "v", 7}).ok);
    CHECK(ask(w.a, ReadKey{"k"}).revision == 0);
  }

  TEST_CASE_TEMPLATE("coordination: revisions rise over all keys and are never used twice", World, Rules,
                     File, Etcd) {
    World w;
    if (!w.here) return;
    Revision last = 0;
    for (int round = 0; round < 3; ++round)
      for (const char* key : {"k", "l"}) {
        const CoordinationReply written = ask(w.a, WriteKey{key, "v", 0});
        CHECK(written.revision > last);
        const CoordinationReply again = ask(w.b, WriteKey{key, "v", written.revision});
        CHECK(again.revision > written.revision);
        last = again.revision;
        CHECK(ask(w.a, EraseKey{key, last}).ok);
      }
  }

  TEST_CASE_TEMPLATE("coordination: raised revisions are above the given one, and unchanged keys keep theirs",
                     World, Rules, File, Etcd) {
    World w;
    if (!w.here) return;
    const Revision seen = ask(w.a, WriteKey{"k", "v", 0}).revision;
    const Revision above = seen + 100'000;
    CHECK(ask(w.a, RaiseRevisions{above}).ok);
    CHECK(ask(w.b, RaiseRevisions{above - 1}).ok);  // changes nothing
    CHECK(ask(w.b, ReadKey{"k"}).revision == seen);
    CHECK(ask(w.b, ReadKey{"k"}).outdated);
    CHECK(ask(w.b, WriteKey{"l", "v", 0}).revision > above);
    CHECK_FALSE(ask(w.b, ReadKey{"l"}).outdated);
    CHECK_FALSE(ask(w.b, WriteKey{"k", "w", above}).ok);
    const Revision next = ask(w.b, WriteKey{"k", "w", seen}).revision;
    CHECK(next > above);
    CHECK(ask(w.a, EraseKey{"k", next}).ok);
    CHECK(code_of(w.a, RaiseRevisions{RaiseRevisions::above_max + 1}) == "bad_revision");
  }

  TEST_CASE_TEMPLATE("coordination: keys and values are any bytes, also empty or long", World, Rules, File,
                     Etcd) {
    World w;
    if (!w.here) return;
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
    std::vector<std::string> values{
        "", "a", "ab", "abc", std::string(3, '\0'), all, std::string(900'000, '\xff')};
    Revision seen = 0;
    for (const std::string& value : values) {
      seen = ask(w.a, WriteKey{all, value, seen}).revision;
      CHECK(ask(w.b, ReadKey{all}).value == value);
      CHECK(ask(w.b, WriteKey{all, "other", 0}).value == value);
    }
    CHECK(ask(w.a, WriteKey{"", "no name", 0}).ok);
    CHECK(ask(w.b, ReadKey{""}).value == "no name");
    CHECK(ask(w.b, ReadKey{all.substr(0, 255)}).revision == 0);
  }

  TEST_CASE_TEMPLATE("coordination: an oversized value or a lease without length is refused, unchanged",
                     World, Rules, File, Etcd) {
    World w;
    if (!w.here) return;
    const Revision seen = ask(w.a, WriteKey{"k", "v", 0}).revision;
    const std::string large(CoordinationState::bytes_max, 'x');
    CHECK(code_of(w.a, WriteKey{"k", large, seen}) == "coordination_full");
    CHECK(code_of(w.a, OpenLease{0}) == "bad_lease");
    CHECK(code_of(w.a, OpenLease{-1}) == "bad_lease");
    CHECK(code_of(w.a, OpenLease{CoordinationState::ttl_us_max + 1}) == "bad_lease");
    CHECK(ask(w.a, ReadKey{"k"}).revision == seen);
  }

  TEST_CASE_TEMPLATE("coordination: a write with an unknown lease fails and returns the key", World, Rules,
                     File, Etcd) {
    World w;
    if (!w.here) return;
    const Revision seen = ask(w.a, WriteKey{"k", "v", 0}).revision;
    for (const LeaseId lease : {LeaseId{99'999}, number_max}) {
      CHECK(!ask(w.a, KeepLease{lease}).ok);
      const CoordinationReply shown = ask(w.a, WriteKey{"k", "new", seen, lease});
      CHECK(!shown.ok);
      CHECK(shown.value == "v");
      CHECK(shown.revision == seen);
    }
    CHECK(!ask(w.a, KeepLease{0}).ok);
    CHECK(ask(w.a, ReadKey{"k"}).value == "v");
  }

  // Waits for the end of a lease that nobody keeps, in steps shorter than it, and keeps another
  // one.
  TEST_CASE_TEMPLATE("coordination: an ended lease erases its keys, but not those rewritten without it",
                     World, Rules, File, Etcd) {
    World w;
    if (!w.here) return;
    const LeaseId kept = ask(w.a, OpenLease{1'500'000}).lease, left = ask(w.b, OpenLease{1'500'000}).lease;
    CHECK(ask(w.b, KeepLease{left}).lease == left);
    const Revision stays = ask(w.a, WriteKey{"kept", "v", 0, kept}).revision;
    const Revision bound = ask(w.a, WriteKey{"bound", "v", 0, left}).revision;
    const Revision also = ask(w.b, WriteKey{"also bound", "v", 0, left}).revision;
    const Revision freed = ask(w.b, WriteKey{"freed", "v", 0, left}).revision;
    CHECK(ask(w.a, WriteKey{"freed", "w", freed}).ok);
    int steps = 0;
    while (ask(w.b, WatchKey{"bound", bound, 100'000}).revision != 0 && ++steps < 600)
      CHECK(ask(w.a, KeepLease{kept}).ok);
    CHECK(steps > 0);
    CHECK(ask(w.b, WatchKey{"also bound", also, timeout_us}).revision == 0);
    CHECK(ask(w.a, ReadKey{"freed"}).value == "w");
    CHECK(ask(w.b, ReadKey{"kept"}).revision == stays);
    CHECK(!ask(w.a, KeepLease{left}).ok);
    CHECK(!ask(w.a, WriteKey{"bound", "v", 0, left}).ok);
    CHECK(ask(w.a, WriteKey{"bound", "v", 0}).revision > freed);
  }

  TEST_CASE_TEMPLATE("coordination: a watch ends with an earlier or concurrent change, or with its wait",
                     World, Rules, File, Etcd) {
    World w;
    if (!w.here) return;
    CHECK(ask(w.a, WatchKey{"k", 0, 1'000}).revision == 0);
    CHECK(ask(w.a, WatchKey{"k", 0, -5}).ok);
    const Revision first = ask(w.a, WriteKey{"k", "v", 0}).revision;
    CHECK(ask(w.b, WatchKey{"k", 0, timeout_us}).revision == first);
    CHECK(ask(w.b, WatchKey{"k", first, 1'000}).revision == first);
    // Waits of this world take no real time in which a writer could run.
    if (std::is_same_v<World, Rules>) return;
    std::thread writer([&] { w.a.ask(Coordinate{WriteKey{"k", "w", first}}); });
    CHECK(ask(w.b, WatchKey{"k", first, timeout_us}).value == "w");
    writer.join();
  }

  TEST_CASE_TEMPLATE("coordination: of concurrent writers each revision has one winner", World, Rules, File,
                     Etcd) {
    World w;
    if (!w.here) return;
    std::atomic<int> faults = 0;
    std::mutex mutex;
    std::multiset<Revision> replaced;  // numbers that successful writers replaced
    const auto race = [&](Coordination& at) {
      for (int i = 0; i < 25; ++i) {
        const auto read = at.ask(Coordinate{ReadKey{"k"}});
        const auto* seen = std::get_if<CoordinationReply>(&read);
        const auto answer = at.ask(Coordinate{WriteKey{"k", "v", seen ? seen->revision : 0}});
        const auto* written = std::get_if<CoordinationReply>(&answer);
        if (!seen || !written) ++faults;
        const std::lock_guard held(mutex);
        if (seen && written && written->ok) replaced.insert(seen->revision);
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; ++i) threads.emplace_back([&, i] { race(i % 2 == 0 ? w.a : w.b); });
    for (std::thread& thread : threads) thread.join();
    CHECK(faults == 0);
    CHECK(!replaced.empty());
    CHECK(std::set<Revision>(replaced.begin(), replaced.end()).size() == replaced.size());
    CHECK(ask(w.a, ReadKey{"k"}).revision > *replaced.rbegin());
  }

  TEST_CASE_TEMPLATE("coordination: each start of a node has a larger incarnation", World, Rules, File,
                     Etcd) {
    World w;
    if (!w.here) return;
    const auto first = std::get<Incarnation>(next_incarnation(w.a, 1, 1'000));
    const auto second = std::get<Incarnation>(next_incarnation(w.b, 1, 500));
    CHECK(second >= first + incarnation_gap);
    CHECK(std::get<Incarnation>(next_incarnation(w.b, 2, 1'000)) == first);
  }
}

}  // namespace troupe
