#include "sim/ports/sim_rows.h"

#include <doctest/doctest.h>

namespace troupe::sim::sim_rows_test {  // beside the other test benches of this executable
namespace {

struct Bench {
  Pages pages{8, 4};
  SimRows rows{pages, 2};
  Bench() { rows.change({{3, 4}, 0}); }
  SimRows::Reading read(const std::string& model, std::vector<Token> tokens) {
    const SimRows::Reading reading = rows.begin(model, tokens);
    CHECK(rows.end(reading, true));
    return reading;
  }
};

TEST_CASE_FIXTURE(Bench, "rows that are right change nothing, missed or not") {
  CHECK(read("a", {1, 2, 3, 1}).wrong == 0);
  CHECK(read("a", {1, 2, 3, 4, 5}).wrong == 0);
  CHECK(read("b", {1, 2}).wrong == 0);
  rows.drop("a");
  CHECK(read("a", {1, 2}).wrong == 0);
  CHECK(rows.slab().check_invariants() == "");
}

TEST_CASE_FIXTURE(Bench, "a row in whose page somebody else has written is wrong, and is told") {
  read("a", {1, 2, 3});
  pages.write(3, {}, {});
  const auto reading = read("a", {1, 2, 3});
  CHECK(reading.wrong != 0);
  CHECK(reading.overwritten);
}

TEST_CASE_FIXTURE(Bench, "a page that is written under a pass that reads it is told at its end") {
  read("a", {1});
  const auto reading = rows.begin("a", std::vector<Token>{1});
  pages.write(3, {}, {});
  CHECK_FALSE(rows.end(reading, true));
}

TEST_CASE_FIXTURE(Bench, "pages that a pass reads stay, and rows that went come back when there is room") {
  read("a", {1, 2, 3, 4});
  const auto held = rows.begin("a", std::vector<Token>{1});
  CHECK(rows.change({{}, 2}).given_back == std::vector<std::uint32_t>{4});
  rows.end(held, true);
  rows.change({{5}, 0});
  rows.refill({1'000});
  CHECK(read("a", {1, 2, 3, 4}).wrong == 0);
  CHECK(rows.slab().counts().misses == 4);
}

}  // namespace
}  // namespace troupe::sim::sim_rows_test
