#include "actors/inference/batch_schedule.h"

#include <doctest/doctest.h>

#include "actors/testing/inference_bench.h"

namespace troupe::actors {
namespace batch_schedule_test {

using namespace inference_test;

// Batches of at most 10 tokens; one background plan begins at a time.
struct Schedule {
  InferenceConfig config = Bench::config(2);
  BatchTimes times{config};
  BatchSchedule schedule{config, times};
  TaskTable tasks{kv, 4};
  Serial last = 0;

  // Adds a plan that needs no blocks; a serving plan is ready at once.
  Task& add(std::size_t tokens, Priority priority = Priority::serving) {
    Execute execute = Bench::plan(++last, {segment(tokens)});
    execute.priority = priority;
    Task& task = tasks.accept({0}, last, router, std::move(execute));
    schedule.add(task);
    if (!task.is_background()) make_ready(task);
    return task;
  }
  void make_ready(Task& task) {
    task.blocks.collect_wants(task.execute);
    schedule.make_ready({1}, task);
  }
  std::vector<Serial> next(std::size_t slots_used = 1) {
    std::vector<Serial> serials;
    for (const Task* task : schedule.next_batch({2}, slots_used)) serials.push_back(task->serial);
    return serials;
  }
};
using Order = std::vector<Serial>;

TEST_CASE("batch schedule: ready plans are batched in order, and free slots share them") {
  Schedule s;
  for (int i = 0; i < 4; ++i) s.add(4);
  CHECK(s.next(0) == Order{1, 2});
  CHECK(s.next() == Order{3, 4});
  CHECK(s.next().empty());
  CHECK(s.tasks.find(1)->state == Task::State::running);
  CHECK(s.schedule.waiting(false).plans == 0);
}

TEST_CASE("batch schedule: a batch waits for its quota, unless it is full or a plan would be late") {
  Schedule s;
  s.config.batch_wait = {100};  // plans are ready at 1
  s.add(4);
  CHECK(s.next().empty());
  CHECK(s.schedule.waits_for_more({100}, 1));
  CHECK(s.schedule.begins_at({2}, 1) == Instant{101});
  CHECK(s.schedule.next_batch({101}, 1).size() == 1);

  s.add(4), s.add(4);
  CHECK(s.next().empty());
  CHECK(s.next(0).empty());  // two free slots take two batches
  s.add(4);
  CHECK(s.next() == Order{2, 3});  // full

  Schedule narrow;  // a third plan would be refused
  narrow.config.batch_wait = {100};
  narrow.config.queue_max = 2;
  narrow.add(1);
  CHECK(narrow.next().empty());
  narrow.add(1);
  CHECK(narrow.next() == Order{1, 2});

  Schedule hurried;
  hurried.config.batch_wait = {100'000};
  hurried.times.measure(placement::Pass{.new_tokens = 10}, 500);
  hurried.add(4);  // its budget is 1,000
  const Instant begins = hurried.schedule.begins_at({2}, 1);
  CHECK(begins < Instant{1'000});
  CHECK(hurried.times.ends_in_time(begins, hurried.tasks.find(1)->pass, hurried.tasks.find(1)->deadline));
  CHECK(hurried.schedule.next_batch({begins.us - 1}, 1).empty());
  CHECK(hurried.schedule.next_batch(begins, 1).size() == 1);
}

TEST_CASE("batch schedule: a plan that runs alone, and blocks of background plans, wait for nothing") {
  Schedule s;
  s.config.batch_wait = {100};
  Task& failed = s.add(4);
  CHECK(s.schedule.next_batch({101}, 1).size() == 1);
  s.schedule.run_again(failed);
  CHECK(s.next() == Order{1});
  Task& background = s.add(1, Priority::background);
  REQUIRE(s.schedule.next_background() == &background);
  s.make_ready(background);
  s.add(1);
  CHECK_FALSE(s.schedule.waits_for_more({2}, 1));
  CHECK(s.next() == Order{2});
  CHECK(s.schedule.waits_for_more({2}, 1));
}

TEST_CASE("batch schedule: background plans begin after serving plans, one at a time, and then run next") {
  Schedule s;
  Task& first = s.add(1, Priority::background);
  s.add(1, Priority::background);
  s.add(1);
  CHECK(s.next() == Order{3});
  CHECK(s.next().empty());
  REQUIRE(s.schedule.next_background() == &first);
  CHECK(s.schedule.next_background() == nullptr);
  s.make_ready(first);
  s.add(1);
  CHECK(s.next() == Order{1});
  s.schedule.forget(first);
  CHECK(s.schedule.next_background() == s.tasks.find(2));
  CHECK(s.schedule.check_bounds(0, 9) == "");
}

TEST_CASE("batch schedule: a plan of a failed batch runs next, alone") {
  Schedule s;
  Task& failed = s.add(1);
  CHECK(s.next() == Order{1});
  s.add(1);
  s.add(1);
  s.schedule.run_again(failed);
  CHECK(s.schedule.waiting(false).plans == 3);
  CHECK(s.next() == Order{1});
  CHECK(s.next() == Order{2, 3});
}

TEST_CASE("batch schedule: a plan is late by its deadline, or by the estimate if it is not the only one") {
  Schedule s;
  Task& task = s.add(10);
  s.times.measure({.new_tokens = 1}, 99);
  CHECK(s.schedule.find_late({0}, 2) == nullptr);
  CHECK(s.schedule.find_late({10}, 2) == &task);
  CHECK(s.schedule.find_late({10}, 1) == nullptr);
  CHECK(s.schedule.find_late({1'000}, 1) == &task);
  s.schedule.forget(task);
  CHECK(s.schedule.find_late({1'000}, 2) == nullptr);
}

TEST_CASE("batch schedule: small plans run beside long batches, from behind larger ones") {
  Schedule s;
  ShardRequests shards(s.config);
  Serials serials(1);
  RunningBatches running(s.config, shards, serials);
  Effects effects;
  s.add(11);
  s.add(3);
  CHECK_FALSE(s.schedule.may_run_beside(running));
  running.start({0}, {}, {.operations = 31}, effects);
  running.start({0}, {}, {.operations = 30}, effects);
  CHECK_FALSE(s.schedule.may_run_beside(running));
  JobDone done{2, BatchDone{}};
  running.end({1}, done, effects);
  running.start({1}, {}, {.operations = 31}, effects);
  CHECK(s.schedule.may_run_beside(running));
  CHECK(s.schedule.waits_small());
  const auto batch = s.schedule.next_batch_beside({2});
  REQUIRE(batch.size() == 1);
  CHECK(batch[0]->serial == 2);
  CHECK_FALSE(s.schedule.waits_small());
}

}  // namespace batch_schedule_test
}  // namespace troupe::actors
