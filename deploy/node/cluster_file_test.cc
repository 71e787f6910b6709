#include "deploy/node/cluster_file.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "runtime/network/certificates.h"
#include "runtime/testing/store_test_folder.h"

namespace troupe::deploy {
namespace {

std::vector<ClusterNode> three_nodes() {
  return {{1, "front", "10.0.0.1", 7000, {NodeRole::router, NodeRole::cache_meta}, {}},
          {2, "spare", "spare.example", 7001, {NodeRole::cache_meta, NodeRole::router}, {}},
          {9, "w", "10.0.0.3", 7002, {NodeRole::worker}, {}}};
}

TEST_CASE("cluster file: each node has its roles and the nodes of each role") {
  const auto nodes = three_nodes();
  const NodeRoles front = roles_of(nodes, find_node(nodes, "front"));
  CHECK(front.node == 1);
  CHECK((front.router && front.cache_meta && !front.worker));
  CHECK(front.routers == std::vector<NodeId>{1, 2});
  CHECK(front.cache_metas == std::vector<NodeId>{1, 2});
  CHECK(front.workers == std::vector<NodeId>{9});
  CHECK_FALSE(front.is_alone());
  CHECK(NodeRoles{}.is_alone());
  CHECK(front.host == "10.0.0.1");
  CHECK_FALSE(front.mixes_roles);
  CHECK_THROWS_WITH_AS(find_node(nodes, "x"), doctest::Contains("expected one of front, spare, w"),
                       ConfigError);
}

TEST_CASE("cluster file: nodes with different lists of models belong to different clusters") {
  auto nodes = three_nodes();
  CHECK(cluster_place_of(nodes, nodes[0]).cluster == "troupe");
  CHECK(cluster_place_of(nodes, nodes[0]).actor_ids.models == 1);
  nodes[0].models = {{"games", {}}, {"news", {}}};
  CHECK(cluster_place_of(nodes, nodes[0]).cluster == "troupe of models games, news");
  CHECK(cluster_place_of(nodes, nodes[0]).actor_ids.models == 2);
  std::set<std::string> reported;
  for (const char* last : {"a", "b", "c"}) {
    nodes[0].models.assign(63, {std::string(64, 'm'), {}});
    nodes[0].models.push_back({last, {}});
    reported.insert(cluster_place_of(nodes, nodes[0]).cluster);
    CHECK(reported.rbegin()->size() <= 255);
  }
  CHECK(reported.size() == 3);
}

TEST_CASE(
    "cluster file: a node listens on its host's address, or on all if that is a name, and has all others as "
    "peers") {
  auto nodes = three_nodes();
  nodes[0].config.set("cluster.certificates", "/etc/troupe");
  const ClusterOptions front = cluster_place_of(nodes, nodes[0]);
  CHECK(front.address == "10.0.0.1");
  CHECK(front.port == 7000);
  REQUIRE(front.peers.size() == 2);
  CHECK(front.peers[1].node == 9);
  CHECK(front.peers[1].name == "w");
  CHECK(front.peers[1].host == "10.0.0.3");
  CHECK(front.peers[1].port == 7002);
  CHECK(front.tls->authority == "/etc/troupe/ca.pem");
  CHECK(front.tls->certificate == "/etc/troupe/front.pem");
  CHECK(front.tls->key == "/etc/troupe/front.key");
  CHECK(cluster_place_of(nodes, nodes[1]).address == "0.0.0.0");
  CHECK_FALSE(cluster_place_of(nodes, nodes[1]).tls);
  nodes[1].config.set("cluster.listen_address", "10.9.9.9");
  CHECK(cluster_place_of(nodes, nodes[1]).address == "10.9.9.9");
}

TEST_CASE(
    "with members: nodes of the file that have not left, and joined workers with another node's settings") {
  const auto nodes = three_nodes();
  ClusterMembers members{.last = 10, .joined = {{10, "w10", "10.0.0.10", 7003}}};
  const auto present = with_members(nodes, members, nodes[2]);
  REQUIRE(present.size() == 4);
  CHECK(present[3].node == 10);
  CHECK(present[3].roles == std::vector{NodeRole::worker});
  CHECK(roles_of(present, present[0]).workers == std::vector<NodeId>{9, 10});
  CHECK(cluster_place_of(present, present[3]).peers.size() == 3);
  const auto standing_in = with_members(nodes, {.last = 9, .joined = {{9, "x", "10.0.0.9", 1}}}, nodes[2]);
  REQUIRE(standing_in.size() == 3);  // joined nodes do not replace nodes of the file
  CHECK(std::ranges::count(standing_in, "x", &ClusterNode::name) == 0);
  members.left = {9};
  CHECK(roles_of(with_members(nodes, members, nodes[2]), nodes[0]).workers == std::vector<NodeId>{10});
}

TEST_CASE(
    "check joins: a router needs coordinated versions and features in Redis, other roles may always join") {
  auto nodes = three_nodes();
  ClusterNode worker = nodes[2];
  const auto refusal = [&](const ClusterNode& own) {
    try {
      validate_join(nodes, own);
      return std::string();
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
  };
  CHECK(refusal(worker) == "");
  CHECK(refusal(nodes[0]) ==
        "features.store is empty; expected a Redis on all routers, because a router joins");
  nodes[0].config.set("features.store", "redis://10.0.0.5:6379");
  CHECK(refusal(nodes[0]).starts_with("features.store is empty"));  // the other router
  nodes[1].config.set("features.store", "redis://10.0.0.5:6379");
  CHECK(refusal(nodes[0]) == "");
  nodes[1].roles = {NodeRole::cache_meta};
  CHECK(refusal(nodes[0]).starts_with(
      "the cluster's file has one router, and model.versions is empty; expected two routers"));
  CHECK(refusal(nodes[1]) == "");
  CHECK(refusal(worker) == "");
  nodes[0].config.set("model.versions", "/models");
  CHECK(refusal(nodes[0]) == "");
  nodes = three_nodes();
  worker.roles = {NodeRole::worker, NodeRole::router};
  CHECK(refusal(worker).starts_with("no node of the cluster's file is both router and worker"));
  worker.config.set("transfer.transport", "links");
  CHECK_FALSE(refusal(worker).starts_with("no node of the cluster's file is both"));
  worker.config.set("transfer.transport", "auto");
  nodes[2].roles = {NodeRole::worker, NodeRole::router};
  CHECK_FALSE(refusal(worker).starts_with("no node of the cluster's file is both"));
  worker.roles = {NodeRole::worker};
  nodes = {{1, "box", "10.0.0.1", 7000, {NodeRole::router, NodeRole::cache_meta, NodeRole::worker}, {}}};
  CHECK(refusal(worker).find("one node with all roles; expected several nodes") != std::string::npos);
}

TEST_CASE("cluster file: a node without usable certificates is refused, and told how to make them") {
  const TestFolder folder;
  ClusterNode own = three_nodes()[2];
  validate_certificates(own);  // the cluster has none
  own.config.set("cluster.certificates", folder.path().string());
  const auto refusal = [&]() -> std::string {
    try {
      validate_certificates(own);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.path() / name) << text;
  };
  const Certificate authority = make_authority("troupe", 1), made = make_certificate(authority, "w", 1);
  CHECK(refusal().find("ca.pem") != std::string::npos);
  write("ca.pem", authority.certificate);
  const std::string missing = refusal();
  CHECK(missing.find("w.pem") != std::string::npos);
  CHECK(missing.find("`troupe certs " + folder.path().string() + " --node w` makes w.pem and w.key") !=
        std::string::npos);
  write("w.pem", made.certificate);
  CHECK(refusal().find("w.key") != std::string::npos);
  write("w.key", make_certificate(authority, "x", 1).key);
  CHECK(refusal().find("w.key: ") != std::string::npos);
  write("w.key", made.key);
  CHECK(refusal() == "");
  write("w.pem", "nonsense");
  CHECK(refusal().find("w.pem: ") != std::string::npos);
}

TEST_CASE("cluster file: a joined node keeps the roles that it joined with") {
  const auto nodes = three_nodes();
  ClusterMembers members{.last = 10, .joined = {{10, "door", "10.0.0.10", 7003, {NodeRole::router}}}};
  const auto present = with_members(nodes, members, nodes[0]);
  CHECK(present[3].roles == std::vector{NodeRole::router});
  CHECK(roles_of(present, present[0]).workers == std::vector<NodeId>{9});
  CHECK(roles_of(present, present[0]).routers == std::vector<NodeId>{1, 2, 10});
  CHECK(roles_of(present, present[3]).router);
  CHECK_FALSE(roles_of(present, present[3]).worker);
}

}  // namespace
}  // namespace troupe::deploy
