// `troupe node`: one place of a cluster, with the roles that the cluster's file gives it, until a signal
// ends it.
#include "deploy/box/cluster_file.h"
#include "deploy/box/serving.h"
#include "deploy/commands/commands.h"

namespace troupe::deploy {

namespace {

struct NodeOptions {
  std::string config_file, name, port_file;
  std::vector<std::string> settings;
};

ClusterNode own_node(const NodeOptions& options) {
  ClusterNode own = find_node(load_cluster(options.config_file), options.name);
  BoxFile box{std::move(own.config), std::move(own.models)};
  apply_settings(box, options.settings);
  own.config = std::move(box.config);
  own.models = std::move(box.models);
  return own;
}

std::map<NodeId, std::string> names_of(const std::vector<ClusterNode>& nodes) {
  std::map<NodeId, std::string> names;
  for (const ClusterNode& node : nodes) names[node.node] = node.name;
  return names;
}

int run_node(const NodeOptions& options) {
  const std::vector<ClusterNode> nodes = load_cluster(options.config_file);
  const ClusterNode own = own_node(options);
  return serve_until_signal({.config = own.config,
                             .models = own.models,
                             .place = place_of(nodes, own),
                             .cluster = cluster_place_of(nodes, own),
                             .name = own.name,
                             .names = names_of(nodes),
                             .read_again = [options] { return own_node(options).config; },
                             .port_file = options.port_file});
}

}  // namespace

void add_node(Command app) {
  auto options = std::make_shared<NodeOptions>();
  Command command = app.add_command("node", "Run one node of a cluster, with the roles that it has");
  command.add_option("--config", options->config_file, "The cluster's file (YAML)").required();
  command.add_option("--name", options->name, "Which of its nodes this is").required();
  command.add_option("--set", options->settings, "A knob, as name=value; may be repeated");
  command.add_option("--port-file", options->port_file, "Write the HTTP port here once the door is open");
  command.runs([options] { return run_node(*options); });
}

}  // namespace troupe::deploy
