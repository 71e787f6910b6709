#include "runtime/features/write_group.h"

#include <doctest/doctest.h>

#include <latch>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace troupe;

namespace write_group_test {

Write put(const std::string& user) { return {PutUser{.tenant = "t", .user = user}}; }

// A store whose first group is not stored before the test says so.
struct SlowStore {
  std::latch begun{1}, go_on{1};
  std::vector<std::vector<std::string>> groups;
  WriteGroup group{[this](std::span<WriteGroup::Member* const> members) {
    std::vector<std::string>& rows = groups.emplace_back();
    for (WriteGroup::Member* member : members) {
      rows.push_back(std::get<PutUser>(member->write.what).user);
      member->result = WriteResult{.version = groups.size()};
    }
    if (groups.size() > 1) return;
    begun.count_down();
    go_on.wait();
  }};
  std::vector<std::jthread> threads;
  std::map<std::string, std::uint64_t> versions;
  std::mutex mutex;

  // Begins a write on a thread of its own, and returns once it waits.
  void begin(const std::string& user, std::size_t waiting) {
    threads.emplace_back([this, user] {
      const JobResult result = group.run(put(user));
      const std::lock_guard lock(mutex);
      versions[user] += std::get<WriteResult>(result).version;
    });
    if (waiting == 0)
      begun.wait();
    else
      while (group.waiting() < waiting) std::this_thread::yield();
  }
  void end() {
    go_on.count_down();
    threads.clear();
  }
};

TEST_SUITE("write group") {
  TEST_CASE("write group: writes that come during a sync share the next one") {
    SlowStore store;
    store.begin("a", 0);
    for (std::size_t i = 1; i <= 15; ++i) store.begin("b" + std::to_string(i), i);
    store.end();
    REQUIRE(store.groups.size() == 2);
    CHECK(store.groups[0] == std::vector<std::string>{"a"});
    CHECK(store.groups[1].size() == 15);
    for (std::size_t i = 0; i < 15; ++i) CHECK(store.groups[1][i] == "b" + std::to_string(i + 1));
    CHECK(store.versions.at("a") == 1);
    CHECK(store.versions.at("b7") == 2);
  }

  TEST_CASE("write group: two writes of one row are never in one group, and keep their order") {
    SlowStore store;
    store.begin("a", 0);
    std::size_t waiting = 0;
    for (const char* user : {"x", "y", "x", "x", "z"}) store.begin(user, ++waiting);
    store.end();
    REQUIRE(store.groups.size() == 4);
    CHECK(store.groups[1] == std::vector<std::string>{"x", "y", "z"});
    CHECK(store.groups[2] == std::vector<std::string>{"x"});
    CHECK(store.groups[3] == std::vector<std::string>{"x"});
    CHECK(store.versions.at("x") == 2 + 3 + 4);
  }

  TEST_CASE("write group: rows of users, of other tenants and of items are told apart") {
    CHECK(row_of(put("a")) != row_of({PutUser{.tenant = "u", .user = "a"}}));
    CHECK(row_of(put("a")) == row_of({DeleteUser{.tenant = "t", .user = "a"}}));
    CHECK(row_of(put("a")) == row_of({AppendEvents{.tenant = "t", .user = "a"}}));
    CHECK(row_of({PutItem{.item = "a"}}) == row_of({DeleteItem{.item = "a"}}));
    CHECK(row_of({PutItem{.item = "a"}}) != row_of(put("a")));
  }
}

}  // namespace write_group_test
