// `troupe node` runs one node of a cluster until a signal, with the roles in the cluster's file, or
// as a node that joins. `troupe leave` removes a node for good; `troupe members` lists the members.
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "deploy/commands/commands.h"
#include "deploy/data/text_file.h"
#include "deploy/models/model_families.h"
#include "deploy/node/cluster_file.h"
#include "deploy/node/served_model.h"
#include "deploy/node/serving.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

constexpr std::chrono::seconds etcd_timeout{20};

struct NodeCommandOptions {
  std::string config_file, name, port_file, join, like;
  std::vector<std::string> settings;
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
  return serve_until_signal(
      {.config = own.config,
       .models = own.models,
       .place = std::move(place),
       .cluster = cluster_place_of(present, own),
       .file = members_of(file),
       .name = own.name,
       .names = names_of(present),
       .reload = [options] { return own_node(options, load_cluster(options.config_file)).config; },
       .port_file = options.port_file});
}

// ---- members ----

struct MembersOptions {
  std::string config_file, name, json;
  bool gone = false;
};

NodeId number_of(const std::vector<Member>& file, const ClusterMembers& members, const std::string& name) {
  for (const Member& node : file)
    if (node.name == name) return node.node;
  if (const Member* joined = members.find(name)) return joined->node;
  throw std::runtime_error("there is no node \"" + name +
                           "\" in the cluster; expected a name that troupe members lists");
}

int run_leave(const MembersOptions& options) {
  const std::vector<ClusterNode> file = load_cluster(options.config_file);
  const std::vector<Member> all = members_of(file);
  const std::unique_ptr<Coordination> coordination = etcd_coordination(file.front().config.cluster);
  const ReadMembers known = change_members(*coordination, [&](ClusterMembers now) -> MembersChange {
    const NodeId node = number_of(all, now, options.name);
    return options.gone ? MembersChange(without(std::move(now), all, node))
                        : with_leaving(std::move(now), all, options.name);
  });
  std::cout << options.name
            << (options.gone ? " is no longer a member\n"
                             : " is leaving; it stops when others have its blocks (troupe members)\n");
  return 0;
}

int run_members(const MembersOptions& options) {
  const std::vector<ClusterNode> file = load_cluster(options.config_file);
  const ReadMembers known = read_members(*etcd_coordination(file.front().config.cluster));
  Table table({{"node", Table::Align::right}, {"name"}, {"address"}, {"roles"}, {"since"}});
  nlohmann::json json = nlohmann::json::array();
  for (const ClusterNode& node : with_members(file, known.members, file.front())) {
    std::string roles;
    for (const NodeRole role : node.roles) roles += (roles.empty() ? "" : ", ") + std::string(name_of(role));
    const std::string since = known.members.leaving.contains(node.node)   ? "leaves"
                              : known.members.joining.contains(node.node) ? "joins"
                              : known.members.find(node.node)             ? "joined"
                                                                          : "the file";
    const std::string address = node.host + ":" + std::to_string(node.port);
    table.row({std::to_string(node.node), node.name, address, roles, since});
    json.push_back(
        {{"node", node.node}, {"name", node.name}, {"address", address}, {"roles", roles}, {"since", since}});
  }
  if (options.json.empty())
    table.print(std::cout);
  else
    write_output(options.json, nlohmann::json{{"epoch", known.revision}, {"members", json}}.dump(2) + "\n");
  return 0;
}

}  // namespace

void add_node(Command app) {
  auto options = std::make_shared<NodeCommandOptions>();
  Command command = app.add_command("node", "Run one node of a cluster with its roles");
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

void add_members(Command app) {
  auto leave = std::make_shared<MembersOptions>();
  Command command = app.add_command(
      "leave", "Remove a node from a running cluster: it drains, others copy its blocks, and it stops");
  command.add_option("--config", leave->config_file, "File of the cluster (YAML)").required();
  command.add_option("--name", leave->name, "Name of the node to remove").required();
  command.add_flag("--gone", leave->gone, "The node is dead and does not return: remove it at once");
  command.runs([leave] { return run_leave(*leave); });
  auto members = std::make_shared<MembersOptions>();
  command = app.add_command(
      "members", "List the members of a running cluster: nodes of the file, joined and leaving nodes");
  command.add_option("--config", members->config_file, "File of the cluster (YAML)").required();
  command.add_option("--json", members->json, "Write JSON to this file, or - for standard output");
  command.runs([members] { return run_members(*members); });
}

}  // namespace troupe::deploy
