#pragma once
// Runs a node on the CAF host with its HTTP server, from its start until a signal. `troupe serve`
// (a single node) and `troupe node` (a node of a cluster) share this code.
//
// SIGTERM and SIGINT drain the node: the HTTP server reports not-ready for `node.drain_notice`, so that
// load balancers stop sending; then the actors refuse new work and finish what they have, within a
// limit. A second signal ends the process at once. SIGHUP reloads the log level, certificates and
// keys.
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "deploy/node/local_node.h"
#include "deploy/node/membership.h"
#include "runtime/network/cluster.h"

namespace troupe::deploy {

struct ServingOptions {
  Config config;
  std::vector<NamedModel> models;  // empty: the one model of `config`
  NodeRoles place;
  // unset: a single node; incarnation and greeting are filled in later
  std::optional<ClusterOptions> cluster;
  std::vector<Member> file;             // nodes of the cluster's file; empty: a single node
  std::string name = "1";               // node name in log lines
  std::map<NodeId, std::string> names;  // names of all nodes, for the status page
  // reads the same files and flags again on SIGHUP; throws ConfigError
  std::function<Config()> reload;
  std::string port_file;  // file that gets the HTTP port once the server listens; "": none
};

// Returns the exit status. Throws what Box throws, and std::runtime_error if it cannot listen.
int serve_until_signal(ServingOptions serving);

}  // namespace troupe::deploy
