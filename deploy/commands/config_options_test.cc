#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "deploy/commands/commands.h"
#include "deploy/testing/command_run_test.h"
#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace config_options_test {

using Words = std::vector<std::string>;

// Returns the error of a command in this environment; "" if it has none.
std::string error_in(Words environment, Words words) {
  Program program = troupe_program();
  program.environment = std::move(environment);
  try {
    return run_command(program, std::move(words)).err;
  } catch (const std::exception& error) {
    return error.what();
  }
}

void add_commands_with_settings(const CommandHelp& command, Words& names) {
  for (const CommandHelp& below : command.commands) add_commands_with_settings(below, names);
  if (std::ranges::any_of(command.options, [](const OptionHelp& option) {
        return std::ranges::find(option.names, "--set") != option.names.end();
      }))
    names.push_back(command.name);
}

TEST_SUITE("config options") {
  TEST_CASE("config options: the command line overrides the environment, which overrides the file") {
    const kernels::TestFolder folder;
    folder.write("node.yaml", "pool: {memory: 1GiB, page_tokens: 8}\nhttp: {port: 1, address: 0.0.0.0}\n");
    ConfigOptions options;
    options.config_file = folder.path() / "node.yaml";
    options.environment = {"TROUPE_POOL_MEMORY=2GiB", "TROUPE_HTTP_PORT=2", "TROUPE_MODEL_DIRECTORY=a",
                           "TROUPE_NODE_DATA_DIR=b"};
    options.settings = {"http.port=3"};
    options.model = "c";
    for (const Config& config : {options.load(), options.load_single_node().config}) {
      CHECK(config.pool.page_tokens == 8);
      CHECK(config.http.address == "0.0.0.0");
      CHECK(config.pool.memory == std::size_t{2} << 30);
      CHECK(config.node.data_dir == "b");
      CHECK(config.http.port == 3);
      CHECK(config.model.directory == "c");
    }
  }

  TEST_CASE("config options: an invalid value is an error that says where it comes from") {
    const kernels::TestFolder folder;
    folder.write("node.yaml", "\nhttp: {port: x}\n");
    const std::string file = folder.path() / "node.yaml";
    CHECK(error_in({}, {"serve", "--config", file}) == file + ":2: http.port is x; expected 0..65535");
    CHECK(error_in({"TROUPE_HTTP_PORT=x"}, {"serve"}) ==
          "the environment variable TROUPE_HTTP_PORT: http.port is x; expected 0..65535");
    CHECK(error_in({}, {"serve", "--set", "http.port=x"}) == "--set: http.port is x; expected 0..65535");
    CHECK(error_in({}, {"serve", "--set", "http.port"}).starts_with("--set http.port has no value"));
  }

  TEST_CASE("config options: every command with --set reads the environment; others do not") {
    const std::string cluster = std::string(TROUPE_ROOT_DIR) + "/deploy/examples/four-nodes.yaml";
    const std::map<std::string, Words> lines{
        {"serve", {}},
        {"node", {"--config", cluster, "--name", "front-1"}},
        {"import", {"--data", "no-such-folder"}},
        {"verify", {"--model", "no-such-folder", "--data", "no-such-folder"}}};
    const Program program = troupe_program();
    CommandLine line(program.name, "", "");
    declare_commands(line, program);
    Words commands;
    add_commands_with_settings(line.describe(), commands);
    CHECK(commands.size() >= lines.size());
    commands.insert(commands.end(), {"members", "leave"});  // which reach the coordination of the nodes
    for (const std::string& name : commands) {
      CAPTURE(name);
      Words words{name};
      if (name == "members") words.insert(words.end(), {"--config", cluster});
      if (name == "leave") words.insert(words.end(), {"--config", cluster, "--name", "worker-1"});
      if (const auto found = lines.find(name); found != lines.end())
        words.insert(words.end(), found->second.begin(), found->second.end());
      CHECK(error_in({"TROUPE_HTTP_PROT=1"}, words)
                .starts_with("the environment variable TROUPE_HTTP_PROT is no setting; expected "
                             "TROUPE_HTTP_PORT"));
    }
    CHECK(error_in({"TROUPE_HTTP_PROT=1"}, {"config"}) == "");
  }
}

}  // namespace config_options_test
