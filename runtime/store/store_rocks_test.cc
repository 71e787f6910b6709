#include "runtime/store/store_rocks.h"

#include <doctest/doctest.h>

#include <set>

using namespace troupe;

TEST_CASE("store faults: each has its own text and its own expectation") {
  std::set<std::string> expected;
  for (auto fault = StoreFault::cannot_create; fault <= StoreFault::failed;
       fault = static_cast<StoreFault>(static_cast<int>(fault) + 1)) {
    try {
      fail(fault, "/data", "");
    } catch (const StoreError& error) {
      const std::string said = error.what();
      CHECK(error.fault == fault);
      CHECK(said.starts_with("/data: " + std::string(describe(fault)) + "; expected "));
      CHECK(expected.insert(said.substr(said.find("; expected "))).second);
    }
  }
  CHECK(expected.size() == 8);
}
