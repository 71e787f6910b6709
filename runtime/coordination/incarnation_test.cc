#include "runtime/coordination/incarnation.h"

#include <doctest/doctest.h>

#include "runtime/coordination/file_coordination.h"
#include "runtime/testing/store_test_folder.h"

namespace troupe {
namespace {

Incarnation start(const TestFolder& folder, NodeId node, std::int64_t clock_us) {
  FileCoordination coordination(folder.path() / "coordination");
  return std::get<Incarnation>(next_incarnation(coordination, node, clock_us));
}

TEST_CASE("incarnation: each start has a larger one, with a gap for the former's numbers") {
  const TestFolder folder;
  Incarnation last = 0;
  // Clock: forward, twice in the same microsecond, a day back, at the epoch and before it, forward
  // again.
  const std::int64_t day = 86'400'000'000, begin = 20'000 * day;
  for (const std::int64_t clock_us : {begin, begin, begin - day, std::int64_t{0}, -day, begin + day}) {
    CAPTURE(clock_us);
    const Incarnation next = start(folder, 1, clock_us);
    CHECK(next >= last + incarnation_gap);
    last = next;
  }
  CHECK(last == static_cast<Incarnation>(begin + day) << incarnation_shift);
}

TEST_CASE("incarnation: the node's own record counts if the coordination has lost it") {
  const TestFolder folder, other;
  const Incarnation first = start(folder, 1, 1'000'000), second = start(folder, 1, 1'000'000);
  CHECK(second == first + incarnation_gap);
  FileCoordination lost(other.path() / "coordination");
  CHECK(std::get<Incarnation>(next_incarnation(lost, 1, 1'000'001, second)) == second + incarnation_gap);
  CHECK(std::get<Incarnation>(next_incarnation(lost, 1, 1'000'001, first)) == second + 2 * incarnation_gap);
}

TEST_CASE("incarnation: nodes do not share their incarnations") {
  const TestFolder folder;
  const Incarnation first = start(folder, 1, 1'000);
  CHECK(start(folder, 2, 1'000) == first);
}

TEST_CASE("incarnation: without a coordination it is refused") {
  struct Away final : Coordination {
    std::variant<CoordinationReply, Refusal> ask(const Coordinate& question) override {
      if (std::holds_alternative<ReadKey>(question.what) && reads) return CoordinationReply{.ok = true};
      if (reads) return CoordinationReply{};  // another process was first
      return Refusal{RefusalKind::unavailable, "away"};
    }
    bool reads = false;
  } away;
  CHECK(std::get<Refusal>(next_incarnation(away, 1, 5)).code == "away");
  away.reads = true;
  CHECK(std::get<Refusal>(next_incarnation(away, 1, 5)).code == "incarnation_taken");
}

}  // namespace
}  // namespace troupe
