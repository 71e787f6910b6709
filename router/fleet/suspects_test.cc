#include "router/fleet/suspects.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace {

TEST_CASE("suspects: strikes add up and are forgotten after a while") {
  Suspects suspects(4, {100});
  CHECK(suspects.strikes({0}, 7) == 0);
  CHECK(suspects.strike({0}, 7, true) == 1);
  CHECK(suspects.strike({50}, 7, true) == 2);
  CHECK(suspects.strikes({149}, 7) == 2);
  CHECK(suspects.strikes({150}, 7) == 0);
  CHECK(suspects.strike({151}, 7, true) == 1);
}

TEST_CASE("suspects: another router's count is adopted once and never lowers the own count") {
  Suspects suspects(4);
  suspects.hear({0}, {7, 1});
  suspects.hear({1}, {7, 1});
  CHECK(suspects.strikes({2}, 7) == 1);
  suspects.strike({3}, 7, true);
  suspects.hear({4}, {7, 1});
  CHECK(suspects.strikes({5}, 7) == 2);
}

TEST_CASE("suspects: a router that hears of a strike leaves the trial to the reporter for a while") {
  Suspects suspects(4, {1'000}, {50});
  suspects.strike({0}, 7, true);
  CHECK_FALSE(suspects.on_trial({0}, 7));  // this router's own strike
  suspects.hear({10}, {8, 1});
  CHECK(suspects.on_trial({59}, 8));
  CHECK_FALSE(suspects.on_trial({60}, 8));
  suspects.hear({61}, {8, 1});
  CHECK_FALSE(suspects.on_trial({61}, 8));  // nothing new
  suspects.hear({70}, {9, 1});
  suspects.hear({71}, {9, 0});
  CHECK_FALSE(suspects.on_trial({71}, 9));
}

TEST_CASE("suspects: losses beside others are one strike in all, and another router's report can clear") {
  Suspects suspects(4);
  CHECK(suspects.strike({0}, 7, false) == 1);
  CHECK(suspects.strike({1}, 7, false) == 1);
  CHECK(suspects.strike({2}, 7, true) == 2);
  suspects.hear({3}, {7, 0});
  CHECK(suspects.strikes({4}, 7) == 0);
}

TEST_CASE("suspects: the oldest entry is dropped at the limit, and a request that ran well is cleared") {
  Suspects suspects(2);
  suspects.strike({0}, 1, true);
  suspects.strike({1}, 2, true);
  suspects.strike({2}, 1, true);  // now the younger entry
  suspects.strike({3}, 3, true);
  CHECK(suspects.size() == 2);
  CHECK(suspects.strikes({4}, 2) == 0);
  CHECK(suspects.strikes({4}, 1) == 2);
  suspects.clear(1);
  CHECK(suspects.strikes({4}, 1) == 0);
  CHECK(suspects.size() == 1);
}

TEST_CASE("suspects: a strike for a lost process is taken back when that process proves it lives") {
  Suspects suspects(4);
  suspects.strike({0}, 7, true, {{3, 50, 12}});
  suspects.strike({1}, 7, true, {{4, 60, 9}});
  CHECK_FALSE(suspects.clear_disproved({10}, 3, 50, 11));  // it may have sent that before the loss
  CHECK_FALSE(suspects.clear_disproved({10}, 5, 50, 99));
  CHECK(suspects.clear_disproved({10}, 3, 50, 12));
  CHECK(suspects.strikes({10}, 7) == 1);
  CHECK_FALSE(suspects.clear_disproved({10}, 3, 50, 13));  // taken back only once
  CHECK_FALSE(suspects.clear_disproved({10}, 4, 61, 1));   // a later process, so the earlier one is gone
  CHECK_FALSE(suspects.clear_disproved({10}, 4, 60, 99));
  CHECK(suspects.strikes({10}, 7) == 1);
}

TEST_CASE("suspects: a strike for several losses stays while one of them may be true") {
  Suspects suspects(4);
  suspects.strike({0}, 7, false, {{3, 50, 12}});
  CHECK(suspects.strike({1}, 7, false, {{4, 60, 9}}) == 1);
  CHECK_FALSE(suspects.clear_disproved({10}, 3, 50, 12));
  CHECK(suspects.strikes({10}, 7) == 1);
  CHECK(suspects.clear_disproved({10}, 4, 60, 9));
  CHECK(suspects.size() == 0);
  suspects.strike({20}, 8, false, {{3, 50, 12}, {4, 60, 9}});
  CHECK_FALSE(suspects.clear_disproved({30}, 4, 61, 1));  // it died
  CHECK_FALSE(suspects.clear_disproved({30}, 3, 50, 12));
  CHECK(suspects.strikes({30}, 8) == 1);
}

TEST_CASE("suspects: two strikes for one live process are both taken back at once") {
  Suspects suspects(4);
  suspects.strike({0}, 7, true, {{3, 50, 12}});
  suspects.strike({1}, 7, true, {{3, 50, 14}});
  CHECK(suspects.clear_disproved({10}, 3, 50, 14));
  CHECK(suspects.size() == 0);
}

TEST_CASE("suspects: strikes reported as certain stay, and cleared ones are gone") {
  Suspects suspects(1);
  suspects.strike({0}, 7, true, {{3, 50, 12}});
  suspects.hear({1}, {7, 2});
  CHECK(suspects.clear_disproved({2}, 3, 50, 12));
  CHECK(suspects.strikes({2}, 7) == 1);
  suspects.strike({3}, 7, true, {{3, 50, 12}});
  suspects.clear(7);
  suspects.strike({4}, 7, true);  // a strike for another loss, which is certain
  CHECK_FALSE(suspects.clear_disproved({10}, 3, 50, 99));
  CHECK(suspects.strikes({10}, 7) == 1);
}

TEST_CASE("suspects: a receiver takes reported strikes back by itself and reports the others on") {
  Suspects teller(4), reported(4);
  teller.strike({0}, 7, false, {{3, 50, 12}});
  reported.hear({1}, teller.tell({1}, 7));
  teller.strike({2}, 7, true, {{4, 60, 9}});
  reported.hear({3}, teller.tell({3}, 7));
  reported.hear({4}, teller.tell({4}, 7));
  CHECK(reported.strikes({5}, 7) == 2);
  CHECK(reported.clear_disproved({5}, 4, 60, 9));
  CHECK(reported.strikes({5}, 7) == 1);
  CHECK(reported.tell({5}, 7) == Suspect{7, 1, {{{{3, 50, 12}}, false}}});
  CHECK_FALSE(reported.clear_disproved({6}, 3, 51, 1));  // this process died
  CHECK(reported.tell({6}, 7) == Suspect{7, 1, {{{{3, 50, 12}}, true}}});
  CHECK(reported.tell({6}, 8) == Suspect{8, 0, {}});
}

TEST_CASE("suspects: own strikes in another router's report are not counted again") {
  Suspects suspects(4);
  suspects.strike({0}, 7, true, {{3, 50, 12}});
  suspects.hear({1}, {7, 3, {{{{4, 60, 9}}, false}}});  // one certain strike, one in doubt, and the own one
  CHECK(suspects.strikes({2}, 7) == 3);
  CHECK(suspects.clear_disproved({2}, 4, 60, 9));
  CHECK(suspects.clear_disproved({2}, 3, 50, 12));
  CHECK(suspects.strikes({2}, 7) == 1);
  suspects.hear({3}, {7, 2, {{{{3, 50, 12}}, false}, {{{4, 60, 9}}, false}}});
  CHECK(suspects.strikes({3}, 7) == 2);
  CHECK(suspects.clear_disproved({4}, 4, 60, 9));
  CHECK(suspects.clear_disproved({4}, 3, 50, 12));
  CHECK(suspects.size() == 0);
}

TEST_CASE("suspects: an own loss beside a reported strike keeps the strike") {
  Suspects suspects(4);
  suspects.hear({0}, {7, 1, {{{{3, 50, 12}}, false}}});
  CHECK(suspects.strike({1}, 7, false, {{4, 60, 9}}) == 1);
  CHECK_FALSE(suspects.clear_disproved({2}, 3, 50, 12));
  CHECK(suspects.strikes({2}, 7) == 1);
  CHECK(suspects.clear_disproved({3}, 4, 60, 9));
  CHECK(suspects.size() == 0);
}

TEST_CASE("suspects: a loss that joins a strike is reported and keeps the strike elsewhere too") {
  Suspects teller(4), reported(4);
  teller.strike({0}, 7, false, {{3, 50, 12}});
  reported.hear({1}, teller.tell({1}, 7));
  teller.strike({2}, 7, false, {{4, 60, 9}});
  reported.hear({3}, teller.tell({3}, 7));
  CHECK_FALSE(reported.clear_disproved({4}, 3, 50, 12));
  CHECK(reported.strikes({4}, 7) == 1);
  CHECK_FALSE(reported.clear_disproved({5}, 4, 61, 1));  // this loss is true
  CHECK(reported.strikes({5}, 7) == 1);
}

TEST_CASE("suspects: forgotten losses take nothing back later") {
  Suspects suspects(4, {100});
  suspects.strike({0}, 7, true, {{3, 50, 12}});
  suspects.strike({200}, 7, true, {{4, 60, 9}});
  CHECK_FALSE(suspects.clear_disproved({201}, 3, 50, 12));
  CHECK(suspects.strikes({201}, 7) == 1);
}

}  // namespace
}  // namespace troupe::router
