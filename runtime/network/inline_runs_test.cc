#include "runtime/network/inline_runs.h"

#include <doctest/doctest.h>

namespace troupe::inline_runs_test {

InlineRuns::Time at(int us) { return InlineRuns::Time(std::chrono::microseconds(us)); }

TEST_CASE("inline runs: after a run there is a pause of half its length") {
  InlineRuns runs;
  CHECK(runs.may_run(at(0)));
  runs.note_run(at(100), at(300));
  CHECK_FALSE(runs.may_run(at(300)));
  CHECK_FALSE(runs.may_run(at(399)));
  CHECK(runs.may_run(at(400)));
}

TEST_CASE("inline runs: a thread that always has messages gives two thirds of its time to actors") {
  InlineRuns runs;
  int inline_us = 0, elsewhere = 0;
  for (int now = 0; now < 300'000;) {
    if (!runs.may_run(at(now))) {
      ++elsewhere;
      now += 5;  // reads the next message
      continue;
    }
    runs.note_run(at(now), at(now + 100));
    inline_us += 100;
    now += 100;
  }
  CHECK(inline_us == 200'000);
  CHECK(elsewhere == 20'000);
}

}  // namespace troupe::inline_runs_test
