#include "sim/host/sim_processors.h"

#include <doctest/doctest.h>

using namespace troupe;

TEST_SUITE("sim processors") {
  TEST_CASE("sim processors: jobs share equally, and the end of one speeds up the others") {
    SimProcessors two(2);
    const auto a = two.begin({0}, {100}, 0), b = two.begin({0}, {100}, 0);
    CHECK(two.end_of(a) == Instant{100});
    const auto c = two.begin({50}, {100}, 0);  // three jobs on two processors: two thirds each
    CHECK(two.end_of(a) == Instant{125});
    CHECK(two.end_of(c) == Instant{200});
    CHECK_FALSE(two.end({124}, a));
    CHECK(two.end({125}, a));
    CHECK(two.end({125}, b));
    CHECK(two.end_of(c) == Instant{175});
    CHECK(two.end({175}, c));
    CHECK(two.jobs() == 0);
  }

  TEST_CASE("sim processors: idle processors help with a job's parallel fraction") {
    SimProcessors two(2);
    const auto alone = two.begin({0}, {100}, 0.8);
    CHECK(two.end_of(alone) == Instant{60});
    const auto other = two.begin({30}, {100}, 0.8);  // no processor is idle any more
    CHECK(two.end_of(alone) == Instant{80});
    CHECK(two.end({80}, alone));
    CHECK(two.end_of(other) == Instant{110});
  }

  TEST_CASE("sim processors: a step waits only for steps and takes time from a job if none is idle") {
    SimProcessors two(2);
    const auto job = two.begin({0}, {100}, 0);
    CHECK(two.step({10}, {20}) == Instant{30});  // on the idle processor
    CHECK(two.end_of(job) == Instant{100});
    CHECK(two.step({10}, {20}) == Instant{30});  // both processors run steps now
    CHECK(two.end_of(job) == Instant{120});
    CHECK(two.step({10}, {5}) == Instant{35});  // after one step, again beside the job
    CHECK(two.end_of(job) == Instant{120});
    SimProcessors one(1);
    const auto a = one.begin({0}, {100}, 0), b = one.begin({0}, {100}, 0);
    one.step({50}, {10});
    one.step({60}, {10});
    CHECK(one.end_of(a) == Instant{220});
    CHECK(one.end_of(b) == Instant{220});
  }

  TEST_CASE("sim processors: the time taken by steps is spread over the jobs") {
    SimProcessors two(2);
    const auto a = two.begin({0}, {100}, 0), b = two.begin({0}, {100}, 0);
    two.step({10}, {20});
    two.step({40}, {20});
    CHECK(two.end_of(a) == Instant{120});
    CHECK(two.end_of(b) == Instant{120});
  }
}
