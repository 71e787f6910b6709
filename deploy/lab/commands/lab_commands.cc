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
      .groups = {{"Measure", {add_bench}},
                 {"Simulate and plan", {add_sim, add_plan}},
                 {"Data", {add_trace_making, add_train}}},
      .examples = {"troupe-lab bench engine --shape small --threads 2",
                   "troupe-lab bench prefill --shape small --threads 2",
                   "troupe-lab bench suffix --shape small --threads 2", "troupe-lab bench rank",
                   "troupe-lab bench accuracy --model model --data world", "troupe-lab bench generate",
                   "troupe-lab bench plans --model model --data world", "troupe-lab bench calibrate",
                   "troupe-lab bench cost --model model --data world --price-per-core-hour 0.04",
                   "troupe-lab bench serve --url http://127.0.0.1:8080 --trace trace.jsonl",
                   "troupe-lab bench make-model --shape tiny --out model", "troupe-lab sim --seeds 1..20",
                   "troupe-lab plan --data world --memory 64GiB --nodes 4",
                   "troupe-lab trace convert --data world --out trace.jsonl",
                   "troupe-lab trace generate --out trace.jsonl --requests 1000 --users 100 --items 500",
                   "troupe-lab trace stats trace.jsonl", "troupe-lab train --out split.txt",
                   "troupe-lab manual /usr/local/share/man", "troupe-lab completion"},
      .elsewhere = {.program = "troupe", .commands = troupe_commands()}};
}

}  // namespace troupe::deploy
