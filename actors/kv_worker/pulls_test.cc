#include "actors/kv_worker/pulls.h"

#include <doctest/doctest.h>

namespace troupe::actors {
namespace {

using Stage = Pull::Stage;

// Three jobs at once, two per owner; four pulls; a back-off of 10 us.
struct Bench {
  Pulls pulls{{3, 2, 4, {10}}};
  void ask(Serial serial, NodeId node, Stage stage = Stage::granted) {
    pulls.ask(serial, {.node = node, .stage = stage});
  }
  std::vector<Serial> run() {  // starts all that may run
    std::vector<Serial> started;
    for (auto next = pulls.next_to_run(0); next; next = pulls.next_to_run(*next)) {
      pulls.find(*next)->stage = Stage::running;
      started.push_back(*next);
    }
    CHECK(pulls.check_bounds() == "");
    return started;
  }
};

TEST_CASE("pulls: granted pulls run in order of their requests, bounded in total and per owner") {
  Bench b;
  b.ask(1, 7, Stage::asked), b.ask(2, 7), b.ask(3, 7), b.ask(4, 7), b.ask(5, 8), b.ask(6, 9);
  CHECK(b.pulls.check_bounds() == "pulls: 6 of 4");
  b.pulls.take(6), b.pulls.take(1);
  CHECK(b.run() == std::vector<Serial>{2, 3, 5});
  CHECK(b.pulls.running() == 3);
  CHECK(b.run().empty());
  CHECK(b.pulls.take(2).node == 7);
  CHECK(b.run() == std::vector<Serial>{4});
  CHECK(b.pulls.find(2) == nullptr);
}

TEST_CASE("pulls: pulls of a node that do not run yet can be given up") {
  Bench b;
  b.ask(1, 7, Stage::asked), b.ask(2, 7, Stage::running), b.ask(3, 7), b.ask(4, 8);
  CHECK(b.pulls.not_running(7) == std::vector<Serial>{1, 3});
}

TEST_CASE("pulls: a node is in back-off for a time, and of too many the one nearest to its end is released") {
  Bench b;
  CHECK(b.pulls.may_ask({0}, 7, 4));
  CHECK_FALSE(b.pulls.may_ask({0}, 7, 5));
  for (NodeId node = 1; node <= 5; ++node) b.pulls.back_off({node}, node);
  CHECK(b.pulls.check_bounds() == "");
  CHECK(b.pulls.may_ask({5}, 1, 1));
  CHECK_FALSE(b.pulls.may_ask({11}, 2, 1));
  CHECK(b.pulls.may_ask({12}, 2, 1));
}

}  // namespace
}  // namespace troupe::actors
