#pragma once
// Commands of the program `troupe`; deploy/program.cc has the table. Each `add_…` declares one
// command with its options; main runs the one that the command line names. Errors are exceptions
// whose text says what happened, where, and what was expected.
#include <functional>
#include <string>
#include <vector>

#include "deploy/commands/command_line.h"
#include "runtime/config/config.h"
#include "runtime/config/model_list.h"

namespace troupe::deploy {

void add_serve(Command app);
void add_node(Command app);
void add_members(Command app);  // `leave` and `members`
void add_certs(Command app);
void add_keys(Command app);
void add_rank(Command app);
void add_explain(Command app);
void add_generate(Command app);
void add_replay(Command app);
void add_status(Command app);
void add_convert(Command app);
void add_import(Command app);
void add_check(Command app);
void add_verify(Command app);
void add_backup(Command app);
void add_restore(Command app);
void add_prototypes(Command app);
void add_trace_capture(Command app);  // `trace capture`
void add_logits(Command app);
void add_config(Command app);
// `manual` and `completion`, which every program has.
void add_manual(Command app, const std::string& program, std::function<CommandHelp()> describe);

// Options of all commands that start or read a node: a configuration file, and options that
// override it. Environment variables override the file, and options override both.
struct ConfigOptions {
  std::string config_file, model, data_dir, prompt;
  std::vector<std::string> settings;     // name=value
  std::vector<std::string> environment;  // NAME=value, of the process

  void add_to(Command command);
  // All throw ConfigError. Only `load_single_node` accepts a file that lists several models.
  Config load() const;
  SingleNodeFile load_single_node() const;
};

// Applies the settings of an environment. Throws ConfigError.
void apply_environment(Config& config, const std::vector<std::string>& environment);
// Applies settings of --set, of the form "name=value". An error names the option. Throws ConfigError.
void apply_settings(Config& config, const std::vector<std::string>& settings);
void apply_settings(SingleNodeFile& box, const std::vector<std::string>& settings);

}  // namespace troupe::deploy
