#include "deploy/lab/traces/trace_users.h"

#include <doctest/doctest.h>

#include "runtime/testing/store_test_folder.h"

namespace troupe::deploy {
namespace trace_users_test {

const std::string header = R"({"format":"troupe-trace","version":1,"source":"a test"})"
                           "\n";

TEST_SUITE("trace users") {
  TEST_CASE("trace users: a profile version must not fall, rise without events, or stay despite events") {
    const TestFolder folder;
    const auto follow = [&](const std::string& lines) -> std::string {
      folder.write("t.jsonl", header + lines);
      TraceReader reader(folder.path() / "t.jsonl");
      TraceUsers users;
      try {
        for (TracedRequest request; reader.next(request);) users.visit(reader, request);
      } catch (const ImportError& error) {
        return error.what();
      }
      return "";
    };
    const auto line = [](const char* user, int profile, const char* events) {
      return std::string(R"({"at_us":1,"user":")") + user + R"(","profile":)" + std::to_string(profile) +
             R"(,"events":[)" + events + R"(],"candidates":["a"]})" + "\n";
    };
    CHECK(follow(line("u", 3, "\"x\"") + line("v", 1, "") + line("u", 3, "") + line("u", 5, "\"y\"")) == "");
    CHECK(follow(line("u", 3, "") + line("u", 2, "")).find("t.jsonl:3: profile is 2; expected at least 3") ==
          0);
    CHECK(follow(line("u", 3, "") + line("u", 4, "")).find("there are no events") != std::string::npos);
    CHECK(follow(line("u", 3, "") + line("u", 3, "\"x\"")).find("but there are events") != std::string::npos);
  }
}

}  // namespace trace_users_test
}  // namespace troupe::deploy
