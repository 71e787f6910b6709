// `troupe leave` removes a node from a running cluster for good, and follows it until it has left;
// `troupe members` lists the members. Both reach the cluster through its etcd alone.
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <thread>

#include "deploy/commands/commands.h"
#include "deploy/data/text_file.h"
#include "deploy/node/cluster_file.h"
#include "deploy/node/leave_progress.h"
#include "deploy/node/membership.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds follow_interval{500};
constexpr std::chrono::seconds silence_limit{15};  // of the leaving node, until that is told
constexpr int etcd_failures_max = 120;             // in a row, while a leaving node is followed

struct MembersOptions {
  std::string config_file, name, json;
  std::vector<std::string> environment;
  bool gone = false, no_wait = false;
};

// Returns the cluster's coordination as a node reaches it whose environment is that of this command.
std::unique_ptr<Coordination> coordination_of(const std::vector<ClusterNode>& file,
                                              const MembersOptions& options) {
  Config config = file.front().config;
  apply_environment(config, options.environment);
  return etcd_coordination(config.cluster);
}

NodeId number_of(const std::vector<Member>& file, const ClusterMembers& members, const std::string& name) {
  for (const Member& node : file)
    if (node.name == name) return node.node;
  if (const Member* joined = members.find(name)) return joined->node;
  throw std::runtime_error("there is no node \"" + name +
                           "\" in the cluster; expected a name that troupe members lists");
}

// Returns nullopt if the node has written nothing, or etcd does not answer.
std::optional<LeaveProgress> progress_of(Coordination& coordination, NodeId node) {
  const auto answer = coordination.ask({ReadKey{leave_key(node)}});
  const auto* read = std::get_if<CoordinationReply>(&answer);
  return read && read->revision > 0 ? parse_leave_progress(read->value) : std::nullopt;
}

std::string silence_text(const std::string& name) {
  return "it has not said what it waits for; is it running? If it is dead: troupe leave --name " + name +
         " --gone";
}

// Prints what the leaving node waits for, each time that this changes.
class LeaveFollower {
 public:
  LeaveFollower(Coordination& coordination, std::string name, NodeId node)
      : coordination_(coordination), name_(std::move(name)), node_(node) {}

  // Returns once the node is no longer a member.
  void follow() {
    while (is_leaving()) {
      if (const auto progress = progress_of(coordination_, node_)) {
        heard_ = Clock::now();
        say(text_of(*progress));
      } else if (Clock::now() - heard_ > silence_limit) {
        say(silence_text(name_));
      }
      std::this_thread::sleep_for(follow_interval);
    }
    const auto last = progress_of(coordination_, node_);
    const bool is_said = last && last->phase == LeaveProgress::Phase::left;
    say(is_said ? text_of(*last) : "has left");
  }

 private:
  // A short absence of etcd is waited out: the node goes on leaving meanwhile.
  bool is_leaving() {
    try {
      const ReadMembers known = read_members(coordination_);
      failures_ = 0;
      return known.members.leaving.contains(node_);
    } catch (const std::runtime_error& error) {
      if (++failures_ >= etcd_failures_max) throw;
      say(error.what());
      return true;
    }
  }
  void say(const std::string& text) {
    if (text != said_) std::cout << name_ << ": " << text << std::endl;
    said_ = text;
  }

  Coordination& coordination_;
  const std::string name_;
  const NodeId node_;
  Clock::time_point heard_ = Clock::now();
  int failures_ = 0;
  std::string said_;
};

int run_leave(const MembersOptions& options) {
  const std::vector<ClusterNode> file = load_cluster(options.config_file);
  const std::vector<Member> all = members_of(file);
  const std::unique_ptr<Coordination> coordination = coordination_of(file, options);
  NodeId node = 0;
  change_members(*coordination, [&](ClusterMembers now) -> MembersChange {
    node = number_of(all, now, options.name);
    return options.gone ? MembersChange(without(std::move(now), all, node))
                        : with_leaving(std::move(now), all, options.name);
  });
  if (options.gone) {
    std::cout << options.name << " is no longer a member\n";
    return 0;
  }
  std::cout << options.name << " is leaving; it stops when others have its blocks";
  std::cout << (options.no_wait ? " (troupe members)" : "") << std::endl;
  if (!options.no_wait) LeaveFollower(*coordination, options.name, node).follow();
  return 0;
}

std::string state_of(const ClusterMembers& members, NodeId node) {
  return members.leaving.contains(node)   ? "leaves"
         : members.joining.contains(node) ? "joins"
         : members.find(node)             ? "joined"
                                          : "the file";
}

int run_members(const MembersOptions& options) {
  const std::vector<ClusterNode> file = load_cluster(options.config_file);
  const std::unique_ptr<Coordination> coordination = coordination_of(file, options);
  const ReadMembers known = read_members(*coordination);
  Table table({{"node", Table::Align::right}, {"name"}, {"address"}, {"roles"}, {"since"}});
  nlohmann::json json = nlohmann::json::array();
  std::string leaving;
  for (const ClusterNode& node : with_members(file, known.members, file.front())) {
    std::string roles;
    for (const NodeRole role : node.roles) roles += (roles.empty() ? "" : ", ") + std::string(name_of(role));
    const std::string since = state_of(known.members, node.node);
    const std::string address = node.host + ":" + std::to_string(node.port);
    table.row({std::to_string(node.node), node.name, address, roles, since});
    json.push_back(
        {{"node", node.node}, {"name", node.name}, {"address", address}, {"roles", roles}, {"since", since}});
    if (!known.members.leaving.contains(node.node)) continue;
    const auto progress = progress_of(*coordination, node.node);
    leaving += node.name + ": " + (progress ? text_of(*progress) : silence_text(node.name)) + "\n";
    if (progress) json.back()["leave"] = json_of(*progress);
  }
  if (options.json.empty()) {
    table.print(std::cout);
    std::cout << leaving;
  } else {
    write_output(options.json, nlohmann::json{{"epoch", known.revision}, {"members", json}}.dump(2) + "\n");
  }
  return 0;
}

}  // namespace

void add_members(Command app) {
  auto leave = std::make_shared<MembersOptions>();
  Command command = app.add_command(
      "leave", "Remove a node from a running cluster: it drains, others copy its blocks, and it stops");
  leave->environment = command.environment();
  command.add_option("--config", leave->config_file, "File of the cluster (YAML)").required();
  command.add_option("--name", leave->name, "Name of the node to remove").required();
  Option gone =
      command.add_flag("--gone", leave->gone, "The node is dead and does not return: remove it at once");
  command
      .add_flag("--no-wait", leave->no_wait,
                "Return at once; default: show what the node waits for until it has left")
      .excludes(gone);
  command.runs([leave] { return run_leave(*leave); });
  auto members = std::make_shared<MembersOptions>();
  command = app.add_command(
      "members", "List the members of a running cluster: nodes of the file, joined and leaving nodes");
  members->environment = command.environment();
  command.add_option("--config", members->config_file, "File of the cluster (YAML)").required();
  command.add_option("--json", members->json, "Write JSON to this file, or - for standard output");
  command.runs([members] { return run_members(*members); });
}

}  // namespace troupe::deploy
