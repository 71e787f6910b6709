#pragma once
// A box on the CAF host with its front door, from its start until a signal: what `serve` (a box that is
// alone) and `node` (one place of a cluster) have in common.
//
// SIGTERM and SIGINT end it in order: the door says that it is not ready for as long as the operator wants
// load balancers to have; then its actors take nothing new and end what they have, within a limit. A second
// signal ends it at once. SIGHUP ends nothing: log level and certificates are read again.
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "deploy/node/box.h"
#include "deploy/node/membership.h"
#include "runtime/network/cluster.h"

namespace troupe::deploy {

struct Serving {
  Config config;
  std::vector<NamedModel> models;  // that a box serves; none: the one that `config` says
  Place place;
  std::optional<ClusterPlace> cluster;  // its incarnation and greeting are filled in
  std::vector<Member> file;             // of a cluster: the nodes of its file
  std::string name = "1";               // in log lines
  std::map<NodeId, std::string> names;  // of all nodes, for the page
  std::function<Config()> read_again;   // of the same files and flags, for SIGHUP; throws ConfigError
  std::string port_file;                // the HTTP port goes here once the door is open; "": nowhere
};

// The exit status. Throws as Box does, and std::runtime_error if it cannot listen.
int serve_until_signal(Serving serving);

}  // namespace troupe::deploy
