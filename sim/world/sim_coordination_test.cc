#include "sim/world/sim_coordination.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::sim;

namespace {

const Coordinate write_once{WriteKey{"k", "v", 0, 0}};
const Coordinate ask_key{ReadKey{"k"}};

SimCoordination coordination() { return {1, Duration{100}, Duration{100}, Duration{5'000}}; }

}  // namespace

TEST_CASE("sim coordination: requests see the state at their end, and watches wait for a change") {
  SimCoordination all = coordination();
  CHECK(all.time_of({0}, 1, write_once) == Duration{100});
  const auto written = std::get<CoordinationReply>(all.ask({100}, 1, write_once));
  CHECK(written.ok);
  const Coordinate watch{WatchKey{"k", written.revision, 7'000}}, old{WatchKey{"k", 0, 7'000}};
  CHECK(all.time_of({0}, 1, watch) == Duration{7'100});
  CHECK(all.time_of({0}, 1, old) == Duration{100});
  all.faults().slowness = 4;
  CHECK(all.time_of({0}, 1, ask_key) == Duration{400});
}

TEST_CASE("sim coordination: after a loss, revisions are above all that a running process has seen") {
  for (const bool restored : {false, true}) {
    CAPTURE(restored);
    SimCoordination all = coordination();
    const auto ask = [&](NodeId node, const decltype(Coordinate::what)& what, std::int64_t us = 0) {
      return std::get<CoordinationReply>(all.ask({us}, node, Coordinate{what}));
    };
    const Revision copied = ask(1, WriteKey{"k", "copied", 0}).revision;
    all.keep_copy();
    const Revision seen = ask(1, WriteKey{"k", "lost", copied}).revision;
    restored ? all.go_back_to_copy({0}) : all.lose_data({0});
    CHECK(all.keys_before_loss().at("k").value == "lost");
    const CoordinationReply left = ask(2, ReadKey{"k"});
    CHECK(left.revision == (restored ? copied : 0));
    CHECK_FALSE(ask(1, WriteKey{"k", "stale", seen}).ok);
    CHECK(ask(1, WriteKey{"k", "again", left.revision}).revision > seen);
  }
}

TEST_CASE("sim coordination: if every process that asks was restarted, the others raise within a second") {
  SimCoordination all = coordination();
  for (Revision seen = 0, i = 0; i < 50; ++i)
    seen = std::get<CoordinationReply>(all.ask({0}, 1, {WriteKey{"k", "v", seen}})).revision;
  all.lose_data({0});
  all.forget(1);
  CHECK(std::get<CoordinationReply>(all.ask({500'000}, 1, {WriteKey{"l", "v", 0}})).revision < 50);
  CHECK(std::get<CoordinationReply>(all.ask({1'000'000}, 1, {WriteKey{"m", "v", 0}})).revision > 50);
}

TEST_CASE(
    "sim coordination: a node that is cut off is refused after the timeout, as are all nodes while it is "
    "away") {
  SimCoordination all = coordination();
  all.faults().cut_off = {2};
  CHECK(all.time_of({0}, 2, ask_key) == Duration{5'000});
  CHECK(std::get<Refusal>(all.ask({0}, 2, write_once)).kind == RefusalKind::unavailable);
  CHECK(std::get<CoordinationReply>(all.ask({0}, 1, ask_key)).revision == 0);
  all.faults() = {.away = true};
  CHECK(std::get<Refusal>(all.ask({0}, 1, ask_key)).code == "coordination_away");
}

TEST_CASE("sim coordination: an answer may be lost after the change took effect") {
  SimCoordination all = coordination();
  all.faults().answers_lost = 1;
  CHECK(std::holds_alternative<Refusal>(all.ask({0}, 1, write_once)));
  all.faults() = {};
  CHECK(std::get<CoordinationReply>(all.ask({0}, 1, ask_key)).value == "v");
}

TEST_CASE(
    "sim coordination: on_change is called for every change, even with a lost answer, and for nothing else") {
  SimCoordination all = coordination();
  std::vector<std::string> seen;
  all.on_change = [&] { seen.push_back(all.state().keys().at("k").value); };
  all.faults().answers_lost = 1;
  all.ask({0}, 1, write_once);
  all.faults() = {};
  all.ask({1}, 1, write_once);  // the key exists already
  all.ask({2}, 1, ask_key);
  all.ask({3}, 1, {WriteKey{"k", "w", all.state().last(), 0}});
  CHECK(seen == std::vector<std::string>{"v", "w"});
}
