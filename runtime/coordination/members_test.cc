#include "runtime/coordination/members.h"

#include <doctest/doctest.h>

#include <utility>

#include "runtime/coordination/member_watch.h"

using namespace troupe;

namespace members_test {

const std::vector<Member> file{
    {1, "front", "10.0.0.1", 7000}, {2, "w2", "10.0.0.2", 7000}, {5, "w5", "10.0.0.5", 7000}};

ClusterMembers joining(ClusterMembers members, const std::string& name) {
  return std::get<ClusterMembers>(with_joined(std::move(members), file, {0, name, "10.0.0.9", 7000}));
}
ClusterMembers joined(ClusterMembers members, const std::string& name) {
  members = joining(std::move(members), name);
  return arrived(members, members.find(name)->node);
}
std::string refusal(const MembersChange& change) {
  const auto* why = std::get_if<std::string>(&change);
  return why ? *why : "";
}
std::string fault(std::string_view text) {
  const auto parsed = parse_members(text);
  const auto* why = std::get_if<std::string>(&parsed);
  return why ? *why : "";
}

TEST_SUITE("members") {
  TEST_CASE("members: a joining node gets a new highest number, also after others left") {
    ClusterMembers members = joined({}, "a");
    CHECK(members.find("a")->node == 6);
    members = joined(members, "b");
    CHECK(members.find("b")->node == 7);
    members = without(std::move(members), file, 7);
    CHECK(members.find("b") == nullptr);
    CHECK(joined(members, "b").find("b")->node == 8);
    CHECK(joined(without({}, file, 5), "c").find("c")->node == 6);
  }

  TEST_CASE("members: a joining node gets no requests before it has arrived") {
    const std::vector<NodeId> of_file{2, 5};
    const ClusterMembers members = joining({}, "a");
    CHECK(nodes_of(members, of_file) == std::vector<NodeId>{2, 5});
    CHECK(nodes_of(arrived(members, 6), of_file) == std::vector<NodeId>{2, 5, 6});
    CHECK(std::get<ClusterMembers>(parse_members(members_text(members))) == members);
    CHECK(without(members, file, 6).joining.empty());
  }

  TEST_CASE("members: a node that joins again keeps its number and updates its address") {
    ClusterMembers members = joined({}, "a");
    members = std::get<ClusterMembers>(with_joined(members, file, {0, "a", "10.0.0.8", 7001}));
    CHECK(members.joined == std::vector<Member>{{6, "a", "10.0.0.8", 7001}});
  }

  TEST_CASE("members: names of the file, of leaving nodes, and with spaces are refused") {
    CHECK(refusal(with_joined({}, file, {0, "w2", "h", 1})).find("is in the cluster's file") !=
          std::string::npos);
    CHECK(refusal(with_joined({}, file, {0, "a b", "h", 1})).find("without blanks") != std::string::npos);
    CHECK(refusal(with_joined({}, file, {0, "a", "h", 0})).find("a port") != std::string::npos);
    const ClusterMembers leaving = std::get<ClusterMembers>(with_leaving(joined({}, "a"), file, "a"));
    CHECK(refusal(with_joined(leaving, file, {0, "a", "h", 1})).find("is leaving") != std::string::npos);
  }

  TEST_CASE("members: joins are bounded, except for nodes that join again") {
    ClusterMembers members;
    for (std::size_t i = 0; i < members_max; ++i)
      members = joining(std::move(members), "n" + std::to_string(i));
    CHECK(members.joined.size() == members_max);
    CHECK(refusal(with_joined(members, file, {0, "one", "h", 1})) ==
          std::to_string(members_max) + " nodes have joined; expected fewer");
    CHECK(refusal(with_joined(members, file, {0, "n7", "h", 1})) == "");
    members = without(std::move(members), file, members.joined.back().node);
    CHECK(refusal(with_joined(members, file, {0, "one", "h", 1})) == "");
  }

  TEST_CASE("members: the file's nodes that left stay recorded, others are removed") {
    ClusterMembers members = std::get<ClusterMembers>(with_leaving(joined({}, "a"), file, "w2"));
    CHECK(members.leaving == std::set<NodeId>{2});
    const std::vector<NodeId> of_file{2, 5};
    CHECK(nodes_of(members, of_file) == std::vector<NodeId>{2, 5, 6});
    members = without(without(std::move(members), file, 2), file, 6);
    CHECK(nodes_of(members, of_file) == std::vector<NodeId>{5});
    CHECK(members.left == std::set<NodeId>{2});
    CHECK(members.leaving.empty());
    CHECK(refusal(with_leaving(members, file, "w2")).find("has left") != std::string::npos);
    CHECK(refusal(with_leaving(members, file, "x")).find("there is no node") != std::string::npos);
  }

  TEST_CASE("members: a node may leave only if another stays for each of its roles") {
    const std::vector<Member> roles{{1, "front", "10.0.0.1", 7000, {NodeRole::router, NodeRole::cache_meta}},
                                    {2, "spare", "10.0.0.2", 7000, {NodeRole::cache_meta}},
                                    {3, "w3", "10.0.0.3", 7000}};
    CHECK(refusal(with_leaving({}, roles, "front")) ==
          "node \"front\" is the last router; expected another that stays in the cluster");
    CHECK(refusal(with_leaving({}, roles, "w3")) ==
          "node \"w3\" is the last worker; expected another that stays in the cluster");
    const ClusterMembers spare_leaves = std::get<ClusterMembers>(with_leaving({}, roles, "spare"));
    CHECK(refusal(with_leaving(spare_leaves, roles, "front")).find("the last router") != std::string::npos);
    ClusterMembers members =
        std::get<ClusterMembers>(with_joined(spare_leaves, roles, {0, "door", "h", 1, {NodeRole::router}}));
    CHECK(refusal(with_leaving(members, roles, "front")).find("the last router") !=
          std::string::npos);  // it has not arrived yet
    members = arrived(std::move(members), 4);
    CHECK(refusal(with_leaving(members, roles, "front")) ==
          "node \"front\" is the last cache_meta; expected another that stays in the cluster");
    members = arrived(std::get<ClusterMembers>(with_joined(
                          members, roles, {0, "all", "h", 2, {NodeRole::worker, NodeRole::cache_meta}})),
                      5);
    members = std::get<ClusterMembers>(with_leaving(members, roles, "front"));
    CHECK(nodes_of(without(members, roles, 1), std::vector<NodeId>{1}, NodeRole::router) ==
          std::vector<NodeId>{4});
    CHECK(nodes_of(members, std::vector<NodeId>{3}) == std::vector<NodeId>{3, 5});
    CHECK(refusal(with_joined(members, roles, {0, "all", "h", 2, {NodeRole::router}})) ==
          "node \"all\" has already joined as cache_meta,worker; expected the same roles, or another name "
          "for router");
    CHECK(std::get<ClusterMembers>(
              with_joined(members, roles, {0, "all", "h", 3, {NodeRole::cache_meta, NodeRole::worker}}))
              .find("all")
              ->port == 3);
    CHECK(std::get<ClusterMembers>(parse_members(members_text(members))) == members);
  }

  TEST_CASE("members: the text round-trips, and an invalid one is reported with its line") {
    const ClusterMembers members =
        without(std::get<ClusterMembers>(with_leaving(joined(joined({}, "a"), "b"), file, "w5")), file, 2);
    CHECK(std::get<ClusterMembers>(parse_members(members_text(members))) == members);
    for (const char* roles : {"roles 7 router", "roles 6 door", "roles 6 ", "roles 6 router,",
                              "roles 6 worker,router", "roles 6 router,router"})
      CHECK(fault("joined 6 h 1 a\n" + std::string(roles) + "\n") ==
            "line 2 needs a joined node and its roles in order");
    CHECK(std::get<ClusterMembers>(parse_members("")) == ClusterMembers{});
    CHECK(fault("last 7") == "line 1 has no end");
    CHECK(fault("last 7\nlast 0\n") == "line 2 has no node number, 1 or above");
    CHECK(fault("joined 6 h 7000\n") == "line 1 lacks host, port or name");
    CHECK(fault("joined 6 h 70000 a\n") == "line 1 lacks host, port or name");
    CHECK(fault("joined 6 h 1 a\njoined 6 h 2 b\n") == "line 2 is not in order of number");
    CHECK(fault("joined 6 h 1 a\njoined 7 h 2 a\n") == "line 2 repeats a name");
    CHECK(fault("left 6 7\n") == "line 1 has text after the number");
    CHECK(fault("gone 6\n").find("another word") != std::string::npos);
    std::string many;
    for (int node = 1; node <= 1001; ++node) many += "left " + std::to_string(node) + "\n";
    CHECK(fault(many) == "line 1001 is one too many");
    CHECK(fault(std::string(2 << 20, '\n')).find("bytes") != std::string::npos);
  }

  TEST_CASE("members: numbers end at the limit of addresses") {
    ClusterMembers members{.last = member_number_max - 1};
    members = joined(members, "a");
    CHECK(members.find("a")->node == member_number_max);
    CHECK(refusal(with_joined(members, file, {0, "b", "h", 1})).find("end at 65535") != std::string::npos);
    CHECK(std::get<ClusterMembers>(with_joined(members, file, {0, "a", "h", 2})).find("a")->port ==
          2);  // it has a number
  }

  TEST_CASE("members: given numbers stay as they were, membership may change") {
    const ClusterMembers before = without(joined(joined({}, "a"), "b"), file, 2);
    CHECK(find_contradiction(before, before) == "");
    CHECK(find_contradiction({}, before) == "");
    CHECK(find_contradiction(before, without(joined(before, "c"), file, 6)) == "");
    CHECK(find_contradiction(before, {}) == "the last node number given is 0, and was 7 before");
    const auto lost = [&](ClusterMembers now) {
      return find_contradiction(before, with_used_numbers(std::move(now), before));
    };
    CHECK(lost({}) == "");
    CHECK(lost(joined({}, "x")) == "number 6 is that of \"x\", and was given before to \"a\"");
    CHECK(find_contradiction(without(before, file, 6), before) ==
          "number 6 is that of \"a\", and was given before");
    ClusterMembers back = before;
    back.left.clear();
    CHECK(find_contradiction(before, back) == "");
    CHECK(joined(with_used_numbers({}, before), "x").find("x")->node == 8);
  }

  TEST_CASE("member watch: starts with the members read before, and rejects contradictions") {
    MemberWatch watch({.workers = {5, 2}}, {1'000}, {without(joined({}, "a"), file, 2), 9});
    CHECK(watch.workers() == std::vector<NodeId>{5, 6});
    CHECK(watch.epoch() == 9);
    const auto answer = [&](Revision revision, std::string value) {
      Effects effects;
      CHECK(watch.tick({static_cast<std::int64_t>(revision) * 1'000}, 11, effects));
      const auto taken = watch.on_done(
          {11, CoordinationReply{.ok = true, .revision = revision, .value = std::move(value)}}, effects);
      return std::pair(taken, effects.list.size());
    };
    CHECK(answer(10, "last 6\njoined 6 h 1 b\nleft 2\n") ==
          std::pair(MemberWatch::Answer::same, std::size_t{2}));  // and logs it
    CHECK(answer(11, "") == std::pair(MemberWatch::Answer::same, std::size_t{2}));
    CHECK(watch.workers() == std::vector<NodeId>{5, 6});
    CHECK(answer(12, "last 6\nleft 2\n") == std::pair(MemberWatch::Answer::changed, std::size_t{1}));
    CHECK(watch.workers() == std::vector<NodeId>{5});
  }

  TEST_CASE("member watch: re-reads periodically, takes newer members, and keeps them over invalid ones") {
    MemberWatch watch({.workers = {5, 2}, .routers = {1}, .cache_metas = {1, 3}}, {1'000});
    Effects effects;
    CHECK(watch.workers() == std::vector<NodeId>{2, 5});
    CHECK(watch.tick({0}, 11, effects));
    CHECK_FALSE(watch.tick({5'000}, 12, effects));  // one read at a time
    const auto answer = [&](std::uint64_t job, Revision revision, std::string value) {
      return watch.on_done(
          {job, CoordinationReply{.ok = true, .revision = revision, .value = std::move(value)}}, effects);
    };
    CHECK(answer(12, 3, "") == MemberWatch::Answer::foreign);
    CHECK(answer(11, 3, "joined 6 h 1 a\nleaving 2\n") == MemberWatch::Answer::changed);
    CHECK(watch.workers() == std::vector<NodeId>{2, 5, 6});
    CHECK(watch.staying() == std::vector<NodeId>{5, 6});
    CHECK(watch.is_leaving(2));
    CHECK(watch.epoch() == 3);
    CHECK_FALSE(watch.tick({500}, 13, effects));
    CHECK(watch.tick({1'000}, 13, effects));
    CHECK(answer(13, 4, "nonsense\n") == MemberWatch::Answer::same);
    CHECK(watch.workers().size() == 3);
    CHECK(watch.tick({2'000}, 14, effects));
    CHECK(watch.on_done({14, Refusal{}}, effects) == MemberWatch::Answer::same);
    CHECK(watch.tick({3'000}, 15, effects));
    CHECK(watch.epoch() == 3);                                        // revision it follows
    CHECK(answer(15, 4, "nonsense\n") == MemberWatch::Answer::same);  // logged once
    CHECK(watch.tick({4'000}, 16, effects));
    CHECK(answer(16, 2, "last 7\njoined 6 h 1 a\njoined 7 h 1 b\n") ==
          MemberWatch::Answer::changed);  // of an etcd that has lost its data
    CHECK(watch.workers() == std::vector<NodeId>{2, 5, 6, 7});
    CHECK(watch.epoch() == 2);
    CHECK(watch.routers() == std::vector<NodeId>{1});
    CHECK(watch.tick({5'000}, 17, effects));
    CHECK(answer(17, 5,
                 "last 9\njoined 8 h 1 c\njoined 9 h 1 d\nroles 8 router,cache_meta\nroles 9 router\njoining "
                 "9\nleft 3\n") == MemberWatch::Answer::changed);
    CHECK(watch.workers() == std::vector<NodeId>{2, 5});
    CHECK(watch.routers() == std::vector<NodeId>{1, 8});  // 9 has not arrived yet
    CHECK(watch.cache_metas() == std::vector<NodeId>{1, 8});
    CHECK_FALSE(MemberWatch({.workers = {1}}, {0}).tick({9'000'000}, 1, effects));
  }
}

}  // namespace members_test
