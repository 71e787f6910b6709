#include "sim/ports/sim_rows.h"

#include <doctest/doctest.h>

namespace troupe::sim::sim_rows_test {  // keeps names apart from the other fixtures of this executable
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

TEST_CASE_FIXTURE(Bench, "sim rows: right rows change no result, missed or not") {
  CHECK(read("a", {1, 2, 3, 1}).wrong == 0);
  CHECK(read("a", {1, 2, 3, 4, 5}).wrong == 0);
  CHECK(read("b", {1, 2}).wrong == 0);
  rows.drop("a");
  CHECK(read("a", {1, 2}).wrong == 0);
  CHECK(rows.slab().check_invariants() == "");
}

TEST_CASE_FIXTURE(Bench, "sim rows: a row whose page was overwritten is wrong and is reported") {
  read("a", {1, 2, 3});
  pages.write(3, {}, {});
  const auto reading = read("a", {1, 2, 3});
  CHECK(reading.wrong != 0);
  CHECK(reading.overwritten);
}

TEST_CASE_FIXTURE(Bench, "sim rows: a page overwritten during a pass is reported at its end") {
  read("a", {1});
  const auto reading = rows.begin("a", std::vector<Token>{1});
  pages.write(3, {}, {});
  CHECK_FALSE(rows.end(reading, true));
}

TEST_CASE_FIXTURE(Bench, "sim rows: pages in use stay, and evicted rows are refilled when there is space") {
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
