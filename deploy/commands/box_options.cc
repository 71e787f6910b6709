#include <utility>

#include "deploy/commands/commands.h"

namespace troupe::deploy {

void BoxOptions::add_to(Command command) {
  command.add_option("--config", config_file, "Configuration file (YAML); `troupe config` prints one");
  command.add_option("--model", model, "Model directory (model.directory)");
  command.add_option("--data-dir", data_dir, "Folder of the store (node.data_dir)");
  command.add_option("--prompt", prompt, "Prompt file (model.prompt)");
  command.add_option("--set", settings, "A knob, as name=value; may be repeated");
}

Config BoxOptions::load() const {
  Config config = config_file.empty() ? Config() : load_config(config_file);
  const std::pair<const char*, const std::string*> flags[] = {
      {"model.directory", &model}, {"node.data_dir", &data_dir}, {"model.prompt", &prompt}};
  for (const auto& [name, value] : flags)
    if (!value->empty()) config.set(name, *value);
  apply_settings(config, settings);
  return config;
}

void apply_settings(Config& config, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos)
      throw ConfigError("--set " + setting + " has no value; expected name=value, such as pool.memory=1GiB");
    config.set(setting.substr(0, equals), setting.substr(equals + 1));
  }
}

}  // namespace troupe::deploy
