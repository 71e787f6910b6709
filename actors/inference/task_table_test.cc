#include "actors/inference/task_table.h"

#include <doctest/doctest.h>

#include "actors/testing/effects_of.h"
#include "actors/testing/inference_bench.h"

namespace troupe::actors {
namespace task_table_test {

using namespace inference_test;

struct Table {
  TaskTable tasks{kv, 4};
  Effects effects;

  Task& accept(Serial serial, RequestId id) {
    return tasks.accept({5}, serial, router, Bench::plan(id, {block(1)}));
  }
};

TEST_CASE("task table: a plan is known while it is here and after its outcome") {
  Table t;
  Task& task = t.accept(10, 1);
  CHECK(task.deadline == Instant{1'005});
  CHECK(t.tasks.find(10) == &task);
  CHECK(t.tasks.knows(router, 1));
  CHECK_FALSE(t.tasks.knows(server, 1));
  t.tasks.answer(task, {.id = 1}, {}, t.effects);
  CHECK(t.tasks.find(10) == nullptr);
  CHECK(t.tasks.knows(router, 1));
  CHECK(t.tasks.executed() == 1);
  CHECK(sent<Executed>(t.effects).size() == 1);
  CHECK(t.tasks.check_outcomes() == "");
}

TEST_CASE("task table: a plan's blocks are released with its outcome, if it asked for any") {
  Table t;
  t.tasks.refuse(t.accept(10, 1), {RefusalKind::deadline_exceeded}, t.effects);
  CHECK(sent<ReleaseBlocks>(t.effects).empty());
  Task& asking = t.accept(11, 2);
  asking.state = Task::State::acquiring;
  t.tasks.refuse(asking, {RefusalKind::deadline_exceeded}, t.effects);
  CHECK(sent<Refused>(t.effects).size() == 2);
  CHECK(sent<ReleaseBlocks>(t.effects) == std::vector<ReleaseBlocks>{{11, {}}});
  Task& holding = t.accept(12, 3);
  holding.blocks.collect_wants(holding.execute);
  holding.blocks.take_grants({{Grant::write, 4, 0, {9}}});
  const BlockOutcome written{name(1), 4, Outcome::written, 88};
  t.tasks.answer(holding, {.id = 3}, {written}, t.effects);
  CHECK(sent<ReleaseBlocks>(t.effects).at(1) == ReleaseBlocks{12, {written}});
}

TEST_CASE("task table: dropped plans count as unanswered, and a plan without an outcome is noticed") {
  Table t;
  Task& running = t.accept(10, 1);
  running.state = Task::State::running;
  t.accept(11, 2);
  const auto waiting = t.tasks.waiting([](const Task& task) { return task.from == router; });
  REQUIRE(waiting.size() == 1);
  CHECK(waiting[0]->serial == 11);
  t.tasks.drop(*waiting[0], t.effects);
  CHECK(t.effects.list.empty());
  CHECK(t.tasks.check_outcomes() != "");
  t.tasks.note_unanswered(1);
  CHECK(t.tasks.check_outcomes() == "");
  CHECK(t.tasks.uses_model("") == true);
  CHECK(t.tasks.uses_model("m2") == false);
}

TEST_CASE("task table: a traced plan's outcome is logged") {
  Table t;
  Task& task = t.accept(10, 1);
  task.execute.trace.sampled = true;
  t.tasks.refuse(task, {RefusalKind::deadline_exceeded, "deadline_exceeded"}, t.effects);
  CHECK(std::ranges::count_if(t.effects.list, [](const auto& effect) {
          return std::holds_alternative<Effects::Log>(effect);
        }) == 1);
}

}  // namespace task_table_test
}  // namespace troupe::actors
