// Parses a cluster file: the settings of all nodes, and the nodes.
#include <set>

#include "runtime/config/config.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

void check_nodes(const std::vector<ClusterNode>& nodes) {
  std::set<NodeRole> roles;
  std::set<std::uint32_t> numbers;
  for (const ClusterNode& node : nodes) {
    TROUPE_CHECK(node.node != 0 && node.port != 0 && !node.name.empty() && !node.host.empty(), "half a node");
    TROUPE_CHECK(numbers.insert(node.node).second, "a number of two nodes");
    roles.insert(node.roles.begin(), node.roles.end());
    TROUPE_CHECK(node.models.size() == nodes.front().models.size(), "a node has other models");
    std::set<std::string> names;
    for (const NamedModel& model : node.models)
      TROUPE_CHECK(!model.config.model.directory.empty() && names.insert(model.name).second,
                   "half a model, or one twice");
  }
  TROUPE_CHECK(roles.size() == 3, "a role is nobody's");
}

void run(Input input) {
  try {
    check_nodes(read_cluster(std::string(text_of(input)), "cluster.yaml"));
  } catch (const ConfigError& error) {
    const std::string_view words = error.what();
    TROUPE_CHECK(words.starts_with("cluster.yaml"), "an error without its place");
    check_words(words, 8'192);
  }
}

std::vector<std::string> seeds() {
  const std::string shared =
      "cluster: {name: blue, coordination: \"http://10.0.0.9:2379\", heartbeat: 200ms}\n";
  return {shared +
              "nodes:\n  - {node: 1, name: a, host: 10.0.0.1, port: 7000, roles: [router, cache_meta],\n"
              "     settings: {http: {address: 0.0.0.0}}}\n"
              "  - {node: 2, name: b, host: \"::1\", port: 7000, roles: [worker]}\n",
          "nodes:\n- {node: 1, name: a, host: h, port: 1, roles: [router, cache_meta, worker]}\n", shared,
          "nodes: &n [*n]\n",
          "features: {store: \"redis://h\"}\nmodels:\n- {name: a, directory: /a}\n- {name: b, directory: /b, "
          "prompt: p,\n"
          "   settings: {router: {policy: user}}}\n"
          "nodes:\n- {node: 1, name: a, host: h, port: 1, roles: [router, cache_meta, worker]}\n"};
}

}  // namespace

const Target cluster_target{"cluster", run, seeds};

}  // namespace troupe::fuzz
