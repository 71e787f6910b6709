// Table of the commands of the program `troupe-lab`.
#include "deploy/lab/commands/lab_commands.h"

namespace troupe::deploy {

namespace {

// Appends the paths of the commands without subcommands: "serve", "trace capture".
void append_paths(std::vector<std::string>& paths, const CommandHelp& command, const std::string& prefix) {
  for (const CommandHelp& below : command.commands) {
    if (below.commands.empty()) paths.push_back(prefix + below.name);
    append_paths(paths, below, prefix + below.name + " ");
  }
}

// Returns the top commands of `troupe`, and the commands below them.
std::vector<std::string> troupe_commands() {
  const Program troupe = troupe_program();
  CommandLine line(troupe.name, "", "");
  declare_commands(line, troupe);
  std::vector<std::string> paths;
  const CommandHelp declared = line.describe();
  for (const CommandHelp& top : declared.commands) paths.push_back(top.name);
  append_paths(paths, declared, "");
  return paths;
}

}  // namespace

Program lab_program() {
  return {
      .name = "troupe-lab",
      .about =
          "Measures, simulates and plans Troupe: benchmarks, simulated clusters, placements and capacity, "
          "request traces, models for benchmarks, and training. The program troupe serves.",
      .commands = {add_bench, add_sim, add_plan, add_trace_making, add_train},
      .elsewhere = {.program = "troupe", .commands = troupe_commands()}};
}

}  // namespace troupe::deploy
