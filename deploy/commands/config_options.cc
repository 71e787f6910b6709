// Options shared by all commands that start or read a node, and `troupe config`, which prints a
// configuration file with every setting.
#include <iostream>
#include <utility>

#include "deploy/commands/commands.h"
#include "runtime/config/environment.h"

namespace troupe::deploy {
namespace {

void override_file(SingleNodeFile& box, const ConfigOptions& options) {
  troupe::apply_environment(box, options.environment);
  const std::pair<const char*, const std::string*> flags[] = {{"model.directory", &options.model},
                                                              {"node.data_dir", &options.data_dir},
                                                              {"model.prompt", &options.prompt}};
  for (const auto& [name, value] : flags)
    if (!value->empty()) override_for_all_models(box, name, *value);
  apply_settings(box, options.settings);
}

}  // namespace

void ConfigOptions::add_to(Command command) {
  environment = command.environment();
  command.add_option("--config", config_file,
                     "Configuration file (YAML); `troupe config` prints one with all defaults");
  command.add_option("--model", model, "Model directory (model.directory)");
  command.add_option("--data-dir", data_dir, "Data folder of the node (node.data_dir)");
  command.add_option("--prompt", prompt, "Prompt file (model.prompt)");
  command.add_option("--set", settings, "Setting as name=value, such as pool.memory=1GiB; may be repeated");
}

Config ConfigOptions::load() const {
  SingleNodeFile box;
  if (!config_file.empty()) box.config = load_config(config_file);
  override_file(box, *this);
  return box.config;
}

SingleNodeFile ConfigOptions::load_single_node() const {
  SingleNodeFile box = config_file.empty() ? SingleNodeFile() : troupe::load_single_node(config_file);
  override_file(box, *this);
  return box;
}

void apply_environment(Config& config, const std::vector<std::string>& environment) {
  SingleNodeFile box{config, {}};
  troupe::apply_environment(box, environment);
  config = std::move(box.config);
}

void apply_settings(Config& config, const std::vector<std::string>& settings) {
  SingleNodeFile box{config, {}};
  apply_settings(box, settings);
  config = std::move(box.config);
}

void apply_settings(SingleNodeFile& box, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos)
      throw ConfigError("--set " + setting + " has no value; expected name=value, such as pool.memory=1GiB");
    try {
      override_for_all_models(box, setting.substr(0, equals), setting.substr(equals + 1));
    } catch (const ConfigError& error) {
      throw ConfigError(std::string("--set: ") + error.what());
    }
  }
}

void add_config(Command app) {
  Command command =
      app.add_command("config", "Print a configuration file with every setting, its default and range");
  command.runs([] {
    std::cout << example_yaml();
    return 0;
  });
}

}  // namespace troupe::deploy
