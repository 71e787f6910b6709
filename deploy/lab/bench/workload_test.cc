#include "deploy/lab/bench/workload.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::deploy;

TEST_SUITE("workload") {
  TEST_CASE("visits: every user has one first visit with its own candidates, the others are repeat visits") {
    std::vector<EvaluationRow> rows(10);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].history.resize(i);
    const std::vector<Visit> visits = make_visits(rows, 30, 3, 5);
    CHECK(visits.size() == 30);
    std::size_t firsts = 0;
    std::vector<bool> seen(rows.size());
    for (const Visit& v : visits) {
      CHECK(v.first == !seen[v.user]);
      if (v.first) CHECK(v.candidates == v.user);
      seen[v.user] = true;
      firsts += v.first;
    }
    CHECK(firsts == rows.size());
  }

  TEST_CASE("profile lengths: are parsed or refused") {
    CHECK(parse_profile_tokens("600").mean == 600);
    CHECK(parse_profile_tokens("600,0.5,900").max == 900);
    for (const char* bad : {"", "x", "600,", "600,0.5,900,1", "0", "600,-1", "600;1"})
      CHECK_THROWS_AS(parse_profile_tokens(bad), std::invalid_argument);
  }

  TEST_CASE("expanded histories: end with the user's own events") {
    std::vector<EvaluationRow> rows(2);
    rows[0].history = {"a", "b"};
    rows[1].history = {"c"};
    expand_histories(rows, {.mean = 400, .sigma = 0, .max = 0}, 4, 1);
    CHECK(rows[0].history.size() == 100);
    CHECK(rows[0].history[98] == "a");
    CHECK(rows[1].history.back() == "c");
  }
}
