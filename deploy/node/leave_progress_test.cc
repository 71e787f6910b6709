#include "deploy/node/leave_progress.h"

#include <doctest/doctest.h>

namespace troupe::deploy {
namespace leave_progress_test {

TEST_CASE("leave progress: it says who is waited for, and how many blocks remain") {
  LeaveProgress progress{.phase = LeaveProgress::Phase::migrates, .user_blocks = 40, .user_blocks_open = 3};
  progress.routers = {{"front-1", "", true, 37, 512, {"worker-3"}}, {"front-2", "games", false, 0, 0, {}}};
  CHECK(text_of(progress) ==
        "waits for 3 of 40 user blocks to copy; front-1: 37 item blocks to copy, 512 items looked up, awaits "
        "worker-3; front-2 (games): no answer yet");
  CHECK(text_of({.phase = LeaveProgress::Phase::migrates, .user_blocks = 40}) ==
        "others have its blocks; waits for node.leave_time_min");
  CHECK(text_of({}) == "finishes its requests");
  CHECK(text_of({.phase = LeaveProgress::Phase::left, .whole = true}) == "has left");
  CHECK(text_of({.phase = LeaveProgress::Phase::left}) ==
        "has left; blocks that were not copied are computed again");
}

TEST_CASE("leave progress: what was written is read, and nothing else is") {
  LeaveProgress progress{.phase = LeaveProgress::Phase::migrates, .user_blocks = 7, .user_blocks_open = 2};
  progress.routers = {{"front \"1\"", "games", true, 1, 2, {"a", "b"}}};
  CHECK(parse_leave_progress(json_of(progress).dump()) == progress);
  for (const char* text : {"", "{}", "[]", "null", R"({"phase":"flies"})", R"({"phase":3})", "\xff"})
    CHECK_FALSE(parse_leave_progress(text));
  nlohmann::json bad = json_of(progress);
  bad["routers"][0]["items"] = "many";
  CHECK_FALSE(parse_leave_progress(bad.dump()));
}

TEST_CASE("leave progress: each node has a key of its own") { CHECK(leave_key(12) == "leaving/12"); }

}  // namespace leave_progress_test
}  // namespace troupe::deploy
