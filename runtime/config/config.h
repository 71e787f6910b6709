#pragma once
// A node's configuration: a valid value for every setting (settings.h). It starts with the defaults. A YAML
// file may change some, environment variables (environment.h) override the file, and the command line
// overrides both. An invalid value is a ConfigError before anything is started.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/node_role.h"
#include "runtime/config/settings.h"

namespace troupe {

// `what()` reads e.g. "config.yaml:12: pool.page_tokens is 0; expected 1..256 tokens".
struct ConfigError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Config : Settings {
  // Sets a value by the setting's name, as written in a file. Throws ConfigError without file and
  // line, which only the caller knows.
  void set(std::string_view name, std::string_view text);
};

Config load_config(const std::string& path);
Config read_config(const std::string& text, const std::string& path);  // `path` is for errors

// A model of a list of models (model_list.h).
struct NamedModel {
  std::string name;  // unique; letters, digits, '.', '_' and '-'
  // The node's configuration, with model.directory, model.prompt, node.data_dir and settings of
  // this model.
  Config config;
};

// ---- a cluster: one file for all of its nodes ----
//
//   cluster: {name: blue, coordination: "http://10.0.0.9:2379"}   # settings of all nodes, by section
//   nodes:
//     - {node: 1, name: front-1, host: 10.0.0.1, port: 7000, roles: [router, cache_meta],
//        settings: {http: {address: 0.0.0.0}}}                    # settings of this node
//     - {node: 2, name: worker-1, host: 10.0.0.2, port: 7000, roles: [worker]}

struct ClusterNode {
  std::uint32_t node = 0;  // number of the node, from 1; never reused for another machine
  std::string name, host;  // unique name; host at which other nodes reach it
  std::uint16_t port = 0;
  std::vector<NodeRole> roles;          // distinct
  Config config;                        // shared settings, overridden by the node's own
  std::vector<NamedModel> models = {};  // The same on all nodes; empty = the single model of `config`.
};
// Reads a cluster's file. The result has at least one router, cache-meta and worker; nodes, names
// and addresses are unique. Throws ConfigError.
std::vector<ClusterNode> load_cluster(const std::string& path);
std::vector<ClusterNode> read_cluster(const std::string& text, const std::string& path);

// Returns a file that documents every setting with its default and range; loading it gives the
// defaults.
std::string example_yaml();

}  // namespace troupe
