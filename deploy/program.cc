// Holds the main function of `troupe` and `troupe-lab`: declares the commands, runs the one on the
// command line, and prints its error.
#include "deploy/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <stdexcept>

#include "deploy/commands/commands.h"
#include "deploy/data/version.h"
#include "deploy/reports/table.h"
#include "runtime/wire/json_text.h"

namespace troupe::deploy {

Program troupe_program() {
  return {
      .name = "troupe",
      .about =
          "Troupe serves generative recommenders: it ranks and generates items for users, and reuses keys "
          "and values that it computed before. The program troupe-lab measures, simulates and plans.",
      .groups = {{"Serve", {add_serve, add_node, add_config}},
                 {"Data", {add_convert, add_import, add_check, add_backup, add_restore, add_prototypes}},
                 {"Ask a server", {add_rank, add_explain, add_generate}},
                 {"Operate", {add_status, add_members, add_certs, add_keys, add_replay, add_trace_capture}},
                 {"Measure", {add_verify, add_logits}}},
      .examples = {"troupe serve --model deploy/demo/model --data-dir data --set pool.memory=4GiB",
                   "troupe node --config cluster.yaml --name worker-1",
                   "troupe config",
                   "troupe convert --from meta-research --checkpoint run.pt --config run.gin --out model",
                   "troupe import --model deploy/demo/model --data deploy/demo/world --data-dir data",
                   "troupe check data",
                   "troupe backup data /backup/monday",
                   "troupe restore /backup/monday data",
                   "troupe prototypes --model model --data world --out prototypes.bin",
                   "troupe rank --user ana --candidates camp-0001,camp-0002",
                   "troupe explain --user ana --candidates camp-0001,camp-0002",
                   "troupe generate --user ana --top 10",
                   "troupe status --server 127.0.0.1:8080",
                   "troupe leave --config cluster.yaml --name worker-3",
                   "troupe members --config cluster.yaml",
                   "troupe certs certificates --config cluster.yaml",
                   "troupe keys add keys.txt --tenant shop",
                   "troupe keys list keys.txt",
                   "troupe keys revoke keys.txt 0123456789abcdef",
                   "troupe replay 4bf92f3577b34da6a3ce929d0e0e4736",
                   "troupe trace capture --data-dir data --out trace.jsonl --seconds 60",
                   "troupe verify --model deploy/demo/model --data deploy/demo/world",
                   "troupe logits --model deploy/demo/model --tokens 1,2,3",
                   "troupe manual /usr/local/share/man",
                   "troupe completion"},
      // lab_commands_test.cc compares this list with the commands of troupe-lab.
      .elsewhere = {
          .program = "troupe-lab",
          .commands = {"bench", "sim", "plan", "train", "trace convert", "trace generate", "trace stats"},
          .moved = true}};
}

void declare_commands(CommandLine& line, const Program& program) {
  for (const CommandGroup& group : program.groups) {
    for (const auto add : group.commands) add(line.program());
    line.end_group(group.title);
  }
  add_manual(line.program(), program.name, [&line] { return line.describe(); });
  line.end_group("Documentation");
  for (const std::string& example : program.examples) line.add_example(example);
}

namespace {

// The first files and sockets of a process without standard streams would get their numbers, and
// errors would be written into them.
void open_missing_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF && ::open("/dev/null", O_RDWR) != stream)
      std::_Exit(1);
}

// Returns the status of a command, or 1 if its output could not be written.
int run_and_flush(const Action& chosen) {
  const int status = chosen();
  if (!std::cout.flush()) throw std::runtime_error("standard output: cannot be written; expected a reader");
  return status;
}

}  // namespace

int run_program(int argc, char** argv, const Program& program) {
  open_missing_streams();
  // Writes to a pipe or socket without a reader then fail, instead of ending the process.
  std::signal(SIGPIPE, SIG_IGN);
  CommandLine line(program.name,
                   program.name + " " + std::string(version()) + ", commit " + std::string(commit()),
                   program.about, program.elsewhere, program.environment);
  declare_commands(line, program);
  Action chosen;
  if (const std::optional<int> ended = line.parse(argc, argv, chosen)) return *ended;
  try {
    return run_and_flush(chosen);
  } catch (const std::filesystem::filesystem_error& error) {
    std::cerr << program.name << ": " << terminal_text(shortened(error.path1().string(), 100)) << ": "
              << error.code().message() << "; expected a path that can be looked up\n";
  } catch (const std::exception& error) {
    std::cerr << program.name << ": " << terminal_text(error.what(), true) << "\n";
  }
  return 1;
}

}  // namespace troupe::deploy
