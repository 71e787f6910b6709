// `troupe node`: one place of a cluster, with the roles that the cluster's file gives it, or one that joins,
// until a signal ends it. `troupe leave` sends one away for good, `troupe members` says who is there.
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "deploy/commands/commands.h"
#include "deploy/data/text_file.h"
#include "deploy/models/families.h"
#include "deploy/node/cluster_file.h"
#include "deploy/node/served_model.h"
#include "deploy/node/serving.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

constexpr std::chrono::seconds etcd_patience{20};

struct NodeOptions {
  std::string config_file, name, port_file, join, like;
  std::vector<std::string> settings;
};

// Whose settings and roles a node has that is not in the file.
const ClusterNode& model_node(const NodeOptions& options, const std::vector<ClusterNode>& file) {
  if (!options.like.empty()) return find_node(file, options.like);
  for (const ClusterNode& node : file)
    if (node.roles == std::vector{NodeRole::worker}) return node;
  throw ConfigError(
      "no node of the cluster's file is a worker alone; expected --like NODE, whose settings the new one "
      "has");
}

ClusterNode own_node(const NodeOptions& options, const std::vector<ClusterNode>& file) {
  ClusterNode own = options.join.empty() ? find_node(file, options.name) : model_node(options, file);
  BoxFile box{std::move(own.config), std::move(own.models)};
  apply_settings(box, options.settings);
  own.config = std::move(box.config);
  own.models = std::move(box.models);
  return own;
}

// "HOST:PORT"
Member joining(const NodeOptions& options, const std::vector<NodeRole>& roles) {
  const std::size_t colon = options.join.rfind(':');
  const std::string host = options.join.substr(0, colon),
                    port = colon == std::string::npos ? "" : options.join.substr(colon + 1);
  const bool digits =
      !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  const unsigned long number = digits ? std::stoul(port) : 0;
  if (host.empty() || number == 0 || number > 65'535)
    throw std::invalid_argument("--join has \"" + options.join.substr(0, 60) +
                                "\"; expected HOST:PORT, where the other nodes reach this one");
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

// Who the members are as this node starts; one that joins is among them then, and has its number.
ReadMembers enter(const NodeOptions& options, const std::vector<ClusterNode>& file, const Members& seen,
                  ClusterNode& own) {
  if (!options.join.empty()) check_joins(file, own);
  if (place_of(file, file.front()).is_alone()) return {};
  const std::unique_ptr<Coordination> coordination = etcd_coordination(own.config);
  await_coordination(*coordination, etcd_patience,
                     [](const std::string& why) { std::cerr << "waits for etcd: " << why << std::endl; });
  ReadMembers known = read_members(*coordination, seen);
  if (options.join.empty()) {
    check_own({own.node, own.name, own.host, own.port}, known.members);
    return known;
  }
  const std::vector<Member> members = members_of(file);
  known = change_members(*coordination, [&](Members now) {
    return with_joined(std::move(now), members, joining(options, own.roles));
  });
  const Member& joined = *known.members.find(options.name);
  own.node = joined.node, own.name = joined.name, own.host = joined.host, own.port = joined.port;
  return known;
}

// Before the cluster hears of a node that cannot start.
void look_for_models(const ClusterNode& own) {
  const auto look = [](const Config& config) {
    family_of(all_families(), required_text(config, "model.directory"));
  };
  if (own.models.empty()) return look(own.config);
  for (const NamedModel& model : own.models) look(model.config);
}

int run_node(const NodeOptions& options) {
  const std::vector<ClusterNode> file = load_cluster(options.config_file);
  ClusterNode own = own_node(options, file);
  look_for_models(own);
  const KeptMembers::Found kept = kept_members(own.config).read();
  if (!kept.fault.empty()) std::cerr << kept.fault << "\n";  // it is written anew
  const ReadMembers known = enter(options, file, kept.members, own);
  std::vector<ClusterNode> at_first = file;
  if (!options.join.empty()) at_first.push_back(own);  // its number is in no file
  const std::vector<ClusterNode> present = with_members(file, known.members, own);
  Place place = place_of(at_first, own);
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
       .read_again = [options] { return own_node(options, load_cluster(options.config_file)).config; },
       .port_file = options.port_file});
}

// ---- who is there ----

struct MembersOptions {
  std::string config_file, name, json;
  bool gone = false;
};

NodeId number_of(const std::vector<Member>& file, const Members& members, const std::string& name) {
  for (const Member& node : file)
    if (node.name == name) return node.node;
  if (const Member* joined = members.find(name)) return joined->node;
  throw std::runtime_error("there is no node \"" + name +
                           "\" in the cluster; expected one of those that troupe members lists");
}

int run_leave(const MembersOptions& options) {
  const std::vector<ClusterNode> file = load_cluster(options.config_file);
  const std::vector<Member> all = members_of(file);
  const std::unique_ptr<Coordination> coordination = etcd_coordination(file.front().config);
  const ReadMembers known = change_members(*coordination, [&](Members now) -> MembersChange {
    const NodeId node = number_of(all, now, options.name);
    return options.gone ? MembersChange(without(std::move(now), all, node))
                        : with_leaving(std::move(now), all, options.name);
  });
  std::cout << options.name
            << (options.gone ? " is no member any more\n"
                             : " is to leave; it ends when others have what it had (troupe members)\n");
  return 0;
}

int run_members(const MembersOptions& options) {
  const std::vector<ClusterNode> file = load_cluster(options.config_file);
  const ReadMembers known = read_members(*etcd_coordination(file.front().config));
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
  auto options = std::make_shared<NodeOptions>();
  Command command = app.add_command("node", "Run one node of a cluster, with the roles that it has");
  command.add_option("--config", options->config_file, "The cluster's file (YAML)").required();
  command.add_option("--name", options->name, "Which of its nodes this is, or what one that joins is called")
      .required();
  Option join = command.add_option(
      "--join", options->join,
      "HOST:PORT, where others reach this node, which is not in the file and joins the cluster");
  command
      .add_option("--like", options->like,
                  "Of one that joins: the node whose settings and roles it has; default: the first that is a "
                  "worker alone")
      .needs(join);
  command.add_option("--set", options->settings, "A knob, as name=value; may be repeated");
  command.add_option("--port-file", options->port_file, "Write the HTTP port here once the door is open");
  command.runs([options] { return run_node(*options); });
}

void add_members(Command app) {
  auto leave = std::make_shared<MembersOptions>();
  Command command = app.add_command(
      "leave",
      "Send a node of a running cluster away for good: it drains, others get what it has, and it ends");
  command.add_option("--config", leave->config_file, "The cluster's file (YAML)").required();
  command.add_option("--name", leave->name, "Which node").required();
  command.add_flag("--gone", leave->gone, "It is dead and does not come back: take it out at once");
  command.runs([leave] { return run_leave(*leave); });
  auto members = std::make_shared<MembersOptions>();
  command =
      app.add_command("members", "Who is in a running cluster: the file's nodes, who joined, who leaves");
  command.add_option("--config", members->config_file, "The cluster's file (YAML)").required();
  command.add_option("--json", members->json, "Write JSON to this file, or - for standard output");
  command.runs([members] { return run_members(*members); });
}

}  // namespace troupe::deploy
