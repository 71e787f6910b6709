#pragma once
// A node's configuration: every knob of knobs.h with a value of its kind and inside its range. It starts with
// the defaults; a YAML file, then the command line, change some. Nothing else does: no environment variables.
// Whatever does not fit is a ConfigError before anything is started.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/knobs.h"
#include "runtime/config/node_role.h"

namespace troupe {

// `what()` reads "config.yaml:12: pool.page_tokens is 0; expected 1..256 tokens".
struct ConfigError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Config {
 public:
  Config();  // the defaults

  // Takes a value as it would stand in a file. Throws ConfigError without a place: the caller knows it.
  void set(std::string_view name, std::string_view text);

  // The name must be in the table and of that kind; anything else is a bug of the caller.
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;  // also of a choice
  bool boolean(std::string_view name) const;
  std::int64_t size_bytes(std::string_view name) const;
  std::int64_t duration_us(std::string_view name) const;

 private:
  const KnobValue& value(std::string_view name, KnobKind kind) const;

  std::vector<KnobValue> values_;  // parallel to knob_table()
};

Config load_config(const std::string& path);
Config read_config(const std::string& text, const std::string& path);  // `path`: of the text, for errors

// One of several models (model_list.h).
struct NamedModel {
  std::string name;  // unique; letters, digits, '.', '_' and '-'
  Config config;  // the box's or the node's, with model.directory, model.prompt, node.data_dir and settings
                  // of this one
};

// ---- a cluster: one file for all of its nodes ----
//
//   cluster: {name: blue, coordination: "http://10.0.0.9:2379"}   # knobs that all nodes share, by section
//   nodes:
//     - {node: 1, name: front-1, host: 10.0.0.1, port: 7000, roles: [router, cache_meta],
//        settings: {http: {address: 0.0.0.0}}}                    # knobs of this one
//     - {node: 2, name: worker-1, host: 10.0.0.2, port: 7000, roles: [worker]}

struct ClusterNode {
  std::uint32_t node = 0;  // its number, from 1; of one machine for good
  std::string name, host;  // unique; where the others reach it
  std::uint16_t port = 0;
  std::vector<NodeRole> roles;          // each once
  Config config;                        // what all share, with its own settings
  std::vector<NamedModel> models = {};  // the same of all nodes; none: the one that `config` says
};
// There is a node, a router, a cache-meta and a worker; nodes, names and addresses are unique.
std::vector<ClusterNode> load_cluster(const std::string& path);
std::vector<ClusterNode> read_cluster(const std::string& text, const std::string& path);

// A file that says what every knob does, with its default and range; loading it gives the defaults.
std::string example_yaml();

}  // namespace troupe
