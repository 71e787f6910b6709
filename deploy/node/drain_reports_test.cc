#include "deploy/node/drain_reports.h"

#include <doctest/doctest.h>

namespace troupe::deploy {
namespace drain_reports_test {

void say(DrainReports& reports, NodeId router, const std::string& epoch, const std::string& handed_on) {
  CHECK(reports.take(StatusReply{
      first_own_id, router, Role::router, true, {{"members_epoch", epoch}, {"handed_on", handed_on}}}));
}

TEST_CASE(
    "drain reports: all is migrated once every awaited router, and at least one, says so at that revision") {
  DrainReports reports;
  const std::vector<NodeId> routers{1, 2};
  const auto handed_on = [&](std::vector<NodeId> awaited) {
    return reports.handed_on(routers, {""}, 5,
                             [&](NodeId node) { return std::ranges::count(awaited, node) > 0; });
  };
  CHECK_FALSE(handed_on({}));  // no router reports: nobody migrates anything
  say(reports, 1, "4", "yes");
  CHECK_FALSE(handed_on({1}));
  say(reports, 1, "5", "yes");
  CHECK(handed_on({1}));
  CHECK_FALSE(handed_on({1, 2}));
  say(reports, 2, "6", "yes");
  CHECK(handed_on({1, 2}));
  say(reports, 2, "7", "no");  // it found more to migrate
  CHECK_FALSE(handed_on({1, 2}));
  CHECK_FALSE(reports.take(StatusReply{1, 2, Role::router, true, {}}));  // belongs to a client
}

TEST_CASE("drain reports: a router without a members_epoch knows no members") {
  DrainReports reports;
  CHECK(reports.take(StatusReply{first_own_id, 1, Role::router, true, {{"handed_on", "yes"}}}));
  const std::vector<NodeId> routers{1};
  const auto handed_on = [&](Revision since) {
    return reports.handed_on(routers, {""}, since, [](NodeId) { return true; });
  };
  CHECK(handed_on(0));
  CHECK_FALSE(handed_on(1));
}

}  // namespace drain_reports_test
}  // namespace troupe::deploy
