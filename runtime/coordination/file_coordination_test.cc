#include "runtime/coordination/file_coordination.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <sstream>
#include <thread>
#include <vector>

#include "runtime/testing/store_test_folder.h"

namespace troupe {
namespace file_coordination_test {

struct Bench {
  TestFolder folder;
  std::filesystem::path path = folder.path() / "coordination";

  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path, std::ios::binary).rdbuf();
    return all.str();
  }
  std::string fault_of(std::string_view text) const {
    folder.write("coordination", text);
    try {
      FileCoordination opened(path);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }
};

CoordinationReply ask(FileCoordination& at, const decltype(Coordinate::what)& what) {
  return std::get<CoordinationReply>(at.ask(Coordinate{what}));
}

TEST_CASE("file coordination: keys and numbers outlive a restart, leases and their keys do not") {
  Bench b;
  LeaseId lease = 0;
  Revision bound = 0;
  {
    FileCoordination first(b.path);
    ask(first, WriteKey{"versions", std::string("a\nb\0c\n", 6), 0});
    lease = ask(first, OpenLease{1'000'000'000}).lease;
    bound = ask(first, WriteKey{"leader", "1", 0, lease}).revision;
  }
  FileCoordination second(b.path);
  CHECK(ask(second, ReadKey{"versions"}).value == std::string("a\nb\0c\n", 6));
  CHECK(ask(second, ReadKey{"leader"}).revision == 0);
  CHECK(!ask(second, KeepLease{lease}).ok);
  CHECK(ask(second, OpenLease{1'000}).lease > bound);
  CHECK(ask(second, WriteKey{"leader", "2", 0}).revision > bound);
}

TEST_CASE("file coordination: an erased key stays erased, and its number is not reused") {
  Bench b;
  Revision seen = 0;
  {
    FileCoordination first(b.path);
    seen = ask(first, WriteKey{"k", "v", 0}).revision;
    CHECK(ask(first, EraseKey{"k", seen}).ok);
  }
  FileCoordination second(b.path);
  CHECK(ask(second, ReadKey{"k"}).revision == 0);
  CHECK(ask(second, WriteKey{"k", "v", 0}).revision > seen);
}

TEST_CASE("file coordination: every flipped byte and every cut is detected with its position") {
  Bench b;
  {
    FileCoordination first(b.path);
    ask(first, WriteKey{"key", "value", 0});
  }
  const std::string good = b.text();
  CHECK(b.fault_of(good) == "");
  for (std::size_t at = 0; at < good.size(); ++at) {
    CAPTURE(at);
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    CHECK(b.fault_of(bad).find(b.path.string()) == 0);
    CHECK(b.fault_of(good.substr(0, at)).find("expected") != std::string::npos);
    CHECK(b.fault_of(bad).find("expected \"\"") == std::string::npos);
    CHECK(b.fault_of(good.substr(0, at)).find("expected \"\"") == std::string::npos);
  }
  CHECK(b.fault_of(good + "x") != "");
  CHECK(b.fault_of("troupe coordination 1\nlast 1 2\n").find("expected a line break") != std::string::npos);
  CHECK(b.fault_of("{\"some\": \"json\"}").find("not a coordination file") != std::string::npos);
  CHECK(b.fault_of("troupe coordination 1\nlast 1\nkey 1 99999999999999999999 1\n").find("a number") !=
        std::string::npos);
  CHECK(b.fault_of("troupe coordination 1\nlast 1\nkey 1 9999999 1\n").find("more bytes") !=
        std::string::npos);
}

TEST_CASE("file coordination: a vanished file is damage; after set-aside an empty one is created") {
  Bench b;
  { FileCoordination first(b.path); }
  check_coordination(b.path);
  std::filesystem::remove(b.path);
  CHECK_THROWS_AS(check_coordination(b.path), CoordinationDamage);
  CHECK_THROWS_WITH_AS(FileCoordination{b.path}, doctest::Contains("existed and is missing"),
                       CoordinationDamage);
  b.folder.write("coordination", "nonsense");
  CHECK_THROWS_AS(FileCoordination{b.path}, CoordinationDamage);
  set_coordination_aside(b.path);
  CHECK(std::filesystem::exists(b.path.string() + ".damaged"));
  { FileCoordination second(b.path); }
  FileCoordination third(b.path);
}

TEST_CASE("file coordination: a second opener is refused, in this process and in another") {
  Bench b;
  {
    FileCoordination first(b.path);
    CHECK_THROWS_AS(FileCoordination{b.path}, std::runtime_error);
    const pid_t child = fork();
    if (child == 0) {
      try {
        FileCoordination second(b.path);
      } catch (const std::runtime_error&) {
        _exit(7);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WEXITSTATUS(status) == 7);
  }
  FileCoordination again(b.path);
}

TEST_CASE("file coordination: a missing folder is reported") {
  Bench b;
  CHECK_THROWS_AS(FileCoordination{b.folder.path() / "none" / "coordination"}, std::runtime_error);
}

TEST_CASE("file coordination: a failed replacement changes nothing, and the next change works") {
  Bench b;
  FileCoordination at(b.path);
  const Revision seen = ask(at, WriteKey{"k", "old", 0}).revision;
  std::filesystem::create_directory(b.path.string() + ".new");
  const auto answer = at.ask(Coordinate{WriteKey{"k", "new", seen}});
  REQUIRE(std::holds_alternative<Refusal>(answer));
  CHECK(std::get<Refusal>(answer).code == "coordination_unavailable");
  CHECK(ask(at, ReadKey{"k"}).value == "old");
  std::filesystem::remove(b.path.string() + ".new");
  CHECK(ask(at, WriteKey{"k", "new", seen}).revision > seen + 1);
}

// A disk that the test controls.
struct Disk {
  ReplaceOutcome::What what = ReplaceOutcome::What::done;
  bool replaces = true;  // used if the outcome is unknown
  int writes = 0;
  std::function<void()> before = [] {};

  FileCoordination::Replace replace() {
    return [this](const std::filesystem::path& path, std::string_view text) {
      ++writes;
      before();
      if (what == ReplaceOutcome::What::not_done) return ReplaceOutcome{what, "full"};
      if (what == ReplaceOutcome::What::unknown && !replaces) return ReplaceOutcome{what, "fsync"};
      const ReplaceOutcome done = replace_file(path, text);
      return what == ReplaceOutcome::What::done ? done : ReplaceOutcome{what, "fsync"};
    };
  }
};

std::string code_of(FileCoordination& at, const decltype(Coordinate::what)& what) {
  const auto answer = at.ask(Coordinate{what});
  const auto* refusal = std::get_if<Refusal>(&answer);
  return refusal ? refusal->code : "";
}

TEST_CASE("file coordination: a change in doubt is not readable until it is surely on disk") {
  Bench b;
  Disk disk;
  FileCoordination at(b.path, disk.replace());
  const Revision seen = ask(at, WriteKey{"k", "old", 0}).revision;
  const LeaseId lease = ask(at, OpenLease{1'000'000'000}).lease;
  disk.what = ReplaceOutcome::What::unknown;
  CHECK(code_of(at, WriteKey{"k", "new", seen}) == "coordination_unavailable");
  for (const ReplaceOutcome::What what : {ReplaceOutcome::What::unknown, ReplaceOutcome::What::not_done}) {
    disk.what = what;
    CHECK(code_of(at, ReadKey{"k"}) == "coordination_unavailable");
    CHECK(code_of(at, WatchKey{"k", seen, 1}) == "coordination_unavailable");
    CHECK(code_of(at, WriteKey{"k", "newer", seen}) == "coordination_unavailable");
    CHECK(ask(at, KeepLease{lease}).ok);
  }
  disk.what = ReplaceOutcome::What::done;
  const CoordinationReply now = ask(at, ReadKey{"k"});
  CHECK(now.value == "new");
  CHECK(now.revision > seen);
  CHECK(ask(at, WriteKey{"k", "newer", now.revision}).ok);
}

TEST_CASE("file coordination: after a crash in doubt either state is possible, and numbers continue") {
  for (const bool replaces : {false, true}) {
    Bench b;
    Disk disk{.replaces = replaces};
    Revision seen = 0;
    {
      FileCoordination first(b.path, disk.replace());
      seen = ask(first, WriteKey{"k", "old", 0}).revision;
      disk.what = ReplaceOutcome::What::unknown;
      CHECK(code_of(first, WriteKey{"k", "new", seen}) != "");
    }
    FileCoordination second(b.path);
    const CoordinationReply now = ask(second, ReadKey{"k"});
    CHECK(now.value == (replaces ? "new" : "old"));
    CHECK(ask(second, WriteKey{"k", "v", now.revision}).revision > seen + 1);
  }
}

TEST_CASE("file coordination: leases are kept and old values read while a change is written") {
  Bench b;
  Disk disk;
  FileCoordination at(b.path, disk.replace());
  const LeaseId lease = ask(at, OpenLease{1'000'000'000}).lease;
  std::promise<void> began, may_end;
  disk.before = [&] {
    began.set_value();
    may_end.get_future().wait();
  };
  std::thread writer([&] { ask(at, WriteKey{"k", "v", 0}); });
  began.get_future().wait();
  CHECK(ask(at, KeepLease{lease}).ok);
  CHECK(ask(at, ReadKey{"k"}).revision == 0);
  may_end.set_value();
  writer.join();
  CHECK(ask(at, ReadKey{"k"}).value == "v");
  CHECK(ask(at, KeepLease{lease}).ok);
}

TEST_CASE("file coordination: leases and their keys are not written, but their numbers are reserved") {
  Bench b;
  Disk disk;
  Revision last = 0;
  {
    FileCoordination first(b.path, disk.replace());
    disk.writes = 0;
    const LeaseId lease = ask(first, OpenLease{1'000'000'000}).lease;
    const auto lead = [&] {
      const CoordinationReply bound = ask(first, WriteKey{"leader", "1", 0, lease});
      CHECK(bound.ok);
      CHECK(ask(first, EraseKey{"leader", bound.revision}).ok);
      last = bound.revision + 1;  // number of the erasure
    };
    lead();
    CHECK(disk.writes == 0);
    for (int i = 0; i < 1'500; ++i) lead();
    CHECK(disk.writes >= 2);
    CHECK(disk.writes < 10);
  }
  FileCoordination second(b.path);
  CHECK(ask(second, OpenLease{1'000}).lease > last);
}

TEST_CASE("file coordination: a leased key that replaces a durable one is written") {
  Bench b;
  {
    FileCoordination first(b.path);
    const Revision kept = ask(first, WriteKey{"k", "kept", 0}).revision;
    const LeaseId lease = ask(first, OpenLease{1'000'000'000}).lease;
    CHECK(ask(first, WriteKey{"k", "bound", kept, lease}).ok);
  }
  FileCoordination second(b.path);
  CHECK(ask(second, ReadKey{"k"}).revision == 0);
}

TEST_CASE("file coordination: a watch ends with a change, a lease's end, or its wait") {
  Bench b;
  FileCoordination at(b.path);
  CHECK(ask(at, WatchKey{"k", 0, 1}).revision == 0);
  CHECK(ask(at, WatchKey{"k", 0, -5}).ok);
  std::thread writer([&] { ask(at, WriteKey{"k", "v", 0}); });
  CHECK(ask(at, WatchKey{"k", 0, 60'000'000}).value == "v");
  writer.join();
  const LeaseId lease = ask(at, OpenLease{20'000}).lease;
  const CoordinationReply bound = ask(at, WriteKey{"l", "v", 0, lease});
  if (bound.ok) CHECK(ask(at, WatchKey{"l", bound.revision, 60'000'000}).revision == 0);
}

TEST_CASE("file coordination: of many writing threads each revision has one winner") {
  Bench b;
  FileCoordination at(b.path);
  std::atomic<int> wins = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const Revision seen = ask(at, ReadKey{"k"}).revision;
        if (ask(at, WriteKey{"k", "v", seen}).ok) ++wins;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(ask(at, ReadKey{"k"}).revision == static_cast<Revision>(wins.load()));
}

}  // namespace file_coordination_test
}  // namespace troupe
