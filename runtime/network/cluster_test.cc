#include "runtime/network/cluster.h"

#include <doctest/doctest.h>

namespace troupe {

TEST_CASE("cluster: an incomplete membership is refused with the missing part") {
  const ClusterOptions options{
      .node = 2, .incarnation = 5, .peers = {{1, "one", "127.0.0.1", 7001}, {3, "three", "", 0}}};
  CHECK(validate(options) == "");
  const auto fault = [&](auto change) {
    ClusterOptions other = options;
    change(other);
    return validate(other);
  };
  CHECK(fault([](auto& p) { p.node = 0; }).starts_with("the node is 0"));
  CHECK(fault([](auto& p) { p.incarnation = 0; }).starts_with("the incarnation"));
  CHECK(fault([](auto& p) { p.cluster = ""; }).starts_with("the cluster needs a name"));
  CHECK(fault([](auto& p) { p.cluster.assign(256, 'x'); }).starts_with("the cluster needs a name"));
  CHECK(fault([](auto& p) { p.heartbeat = {0}; }).starts_with("the heartbeat"));
  CHECK(fault([](auto& p) { p.waiting_bytes_max = 1'000; }).starts_with("waiting_bytes_max is smaller"));
  CHECK(fault([](auto& p) { p.greeting.resize(greeting_bytes_max + 1); }).starts_with("the greeting has"));
  CHECK(fault([](auto& p) { p.peers.push_back({3, "x", "h", 1}); }) == "node 3 is listed twice");
  CHECK(fault([](auto& p) { p.peers.push_back({2, "x", "h", 1}); }) == "node 2 is listed twice");
  CHECK(fault([](auto& p) { p.peers.push_back({70'000, "x", "h", 1}); }) == "");
  CHECK(fault([](auto& p) {
          p.peers.push_back({70'000, "x", "h", 1});
          p.actor_ids.models = 2;
        }) == "node 70000 is in a cluster with several models; expected a number of at most 65535");
  CHECK(fault([](auto& p) { p.peers[0].port = 0; }) == "node 1 has no address; expected host and port");
  CHECK(fault([](auto& p) {
          p.tls = {"ca.pem", "", "key.pem"};
        }).starts_with("TLS is only partly configured"));
  CHECK(fault([](auto& p) {
          p.tls = {"ca.pem", "node.pem", "key.pem"};
          p.peers[1].name = "";
        }) == "node 3 has no name for its certificate");
}

}  // namespace troupe
