// `troupe node` runs one node of a cluster until a signal, with the roles in the cluster's file, or
// as a node that joins.
#include <chrono>
#include <iostream>
#include <stdexcept>

#include "deploy/commands/commands.h"
#include "deploy/models/model_families.h"
#include "deploy/node/cluster_file.h"
#include "deploy/node/served_model.h"
#include "deploy/node/serving.h"
#include "runtime/config/environment.h"

namespace troupe::deploy {

namespace {

constexpr std::chrono::seconds etcd_timeout{20};

struct NodeCommandOptions {
  std::string config_file, name, port_file, join, like;
  std::vector<std::string> settings, environment;
};

// Returns the file's node whose settings and roles a joining node copies.
const ClusterNode& model_node(const NodeCommandOptions& options, const std::vector<ClusterNode>& file) {
  if (!options.like.empty()) return find_node(file, options.like);
  for (const ClusterNode& node : file)
    if (node.roles == std::vector{NodeRole::worker}) return node;
  throw ConfigError(
      "no node of the cluster's file has the worker role alone; expected --like NODE, whose settings the new "
      "node copies");
}

ClusterNode own_node(const NodeCommandOptions& options, const std::vector<ClusterNode>& file) {
  ClusterNode own = options.join.empty() ? find_node(file, options.name) : model_node(options, file);
  SingleNodeFile box{std::move(own.config), std::move(own.models)};
  apply_environment(box, options.environment);
  apply_settings(box, options.settings);
  own.config = std::move(box.config);
  own.models = std::move(box.models);
  return own;
}

// Parses "HOST:PORT" of --join into a member without a number.
Member joining(const NodeCommandOptions& options, const std::vector<NodeRole>& roles) {
  const std::size_t colon = options.join.rfind(':');
  const std::string host = options.join.substr(0, colon),
                    port = colon == std::string::npos ? "" : options.join.substr(colon + 1);
  const bool digits =
      !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  const unsigned long number = digits ? std::stoul(port) : 0;
  if (host.empty() || number == 0 || number > 65'535)
    throw std::invalid_argument("--join has \"" + options.join.substr(0, 60) +
                                "\"; expected HOST:PORT at which the other nodes reach this one");
  return {.node = 0,
          .name = options.name,
          .host = host,
          .port = static_cast<std::uint16_t>(number),
          .roles = roles};
}

std::map<NodeId, std::string> names_of(const std::vector<ClusterNode>& nodes) {
  std::map<NodeId, std::string> names;
  for (const ClusterNode& node : nodes) names[node.node] = node.name;
  return names;
}

// Returns the members at this node's start. A joining node is added to them and gets its number in
// `own`.
ReadMembers enter(const NodeCommandOptions& options, const std::vector<ClusterNode>& file,
                  const ClusterMembers& seen, ClusterNode& own) {
  if (!options.join.empty()) validate_join(file, own);
  own.name = options.name;
  validate_certificates(own);
  if (roles_of(file, file.front()).is_alone()) return {};
  const std::unique_ptr<Coordination> coordination = etcd_coordination(own.config.cluster);
  await_coordination(*coordination, etcd_timeout,
                     [](const std::string& why) { std::cerr << "waits for etcd: " << why << std::endl; });
  ReadMembers known = read_members(*coordination, seen);
  if (options.join.empty()) {
    validate_start({own.node, own.name, own.host, own.port}, known.members);
    return known;
  }
  const std::vector<Member> members = members_of(file);
  known = change_members(*coordination, [&](ClusterMembers now) {
    return with_joined(std::move(now), members, joining(options, own.roles));
  });
  const Member& joined = *known.members.find(options.name);
  own.node = joined.node, own.name = joined.name, own.host = joined.host, own.port = joined.port;
  return known;
}

// Fails early if the node has no model, before the cluster learns about the node.
void look_for_models(const ClusterNode& own) {
  const auto look = [](const Config& config) { family_of(all_families(), required_directory(config.model)); };
  if (own.models.empty()) return look(own.config);
  for (const NamedModel& model : own.models) look(model.config);
}

// Takes a node whose start failed out of the members, if it has not arrived yet. Its number stays used,
// because others may have seen it.
void take_back_join(const std::vector<ClusterNode>& file, const ClusterNode& own) {
  try {
    const std::vector<Member> members = members_of(file);
    change_members(*etcd_coordination(own.config.cluster), [&](ClusterMembers now) -> MembersChange {
      if (!now.joining.contains(own.node)) return now;
      return without(std::move(now), members, own.node);
    });
  } catch (const std::exception& error) {
    std::cerr << own.name << " stays in the members: " << error.what()
              << "; remove it with troupe leave --gone\n";
  }
}

int run_node(const NodeCommandOptions& options) {
  const std::vector<ClusterNode> file = load_cluster(options.config_file);
  ClusterNode own = own_node(options, file);
  look_for_models(own);
  const MembersFile::MembersFileContent kept = kept_members(own.config).read();
  if (!kept.fault.empty()) std::cerr << kept.fault << "\n";  // the next write replaces it
  const ReadMembers known = enter(options, file, kept.members, own);
  std::vector<ClusterNode> at_first = file;
  if (!options.join.empty()) at_first.push_back(own);  // the file does not have this node
  const std::vector<ClusterNode> present = with_members(file, known.members, own);
  NodeRoles place = roles_of(at_first, own);
  place.joined = !options.join.empty();
  place.members = known;
  place.seen = kept.incarnation;
  ServingOptions serving{
      .config = own.config,
      .models = own.models,
      .place = std::move(place),
      .cluster = cluster_place_of(present, own),
      .file = members_of(file),
      .name = own.name,
      .names = names_of(present),
      .reload = [options] { return own_node(options, load_cluster(options.config_file)).config; },
      .port_file = options.port_file};
  try {
    return serve_until_signal(std::move(serving));
  } catch (...) {
    if (!options.join.empty()) take_back_join(file, own);
    throw;
  }
}

}  // namespace

void add_node(Command app) {
  auto options = std::make_shared<NodeCommandOptions>();
  Command command = app.add_command("node", "Run one node of a cluster with its roles");
  options->environment = command.environment();
  command.add_option("--config", options->config_file, "File of the cluster (YAML)").required();
  command
      .add_option("--name", options->name, "Name of this node in the file; with --join: name of the new node")
      .required();
  Option join = command.add_option(
      "--join", options->join,
      "HOST:PORT at which other nodes reach this node, which joins the cluster without being in its file");
  command
      .add_option("--like", options->like,
                  "With --join: node of the file whose settings and roles this one copies; default: the "
                  "first node with the worker role alone")
      .needs(join);
  command.add_option("--set", options->settings, "Setting as name=value; may be repeated");
  command.add_option("--port-file", options->port_file,
                     "Write the HTTP port to this file once the server listens");
  command.runs([options] { return run_node(*options); });
}

}  // namespace troupe::deploy
