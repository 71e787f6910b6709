#pragma once
// The commands of the program `troupe`. Each `add_…` declares one command with its options; the one that the
// command line names becomes `chosen`, which main runs. Errors leave as exceptions whose text says what,
// where and what was expected.
#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "runtime/settings/config.h"

namespace troupe::deploy {

using Chosen = std::function<int()>;  // returns the exit status

void add_serve(CLI::App& app, Chosen& chosen);
void add_node(CLI::App& app, Chosen& chosen);
void add_certs(CLI::App& app, Chosen& chosen);
void add_rank(CLI::App& app, Chosen& chosen);
void add_status(CLI::App& app, Chosen& chosen);
void add_import(CLI::App& app, Chosen& chosen);
void add_bench(CLI::App& app, Chosen& chosen);
void add_logits(CLI::App& app, Chosen& chosen);
void add_config(CLI::App& app, Chosen& chosen);
void add_sim(CLI::App& app, Chosen& chosen);
void add_plan(CLI::App& app, Chosen& chosen);
void add_trace(CLI::App& app, Chosen& chosen);

// The options that every command which builds a box shares: a configuration file, and flags that override it.
struct BoxOptions {
  std::string config_file, model, data_dir, prompt;
  std::vector<std::string> settings;  // name=value

  void add_to(CLI::App& command);
  Config load() const;  // throws ConfigError
};

// Each "name=value". Throws ConfigError.
void apply_settings(Config& config, const std::vector<std::string>& settings);

}  // namespace troupe::deploy
