// `troupe status`: prints the status of a running server, once or again and again.
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "deploy/commands/commands.h"
#include "deploy/commands/server_call.h"
#include "deploy/data/text_file.h"
#include "deploy/reports/status_report.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;

struct StatusOptions {
  ServerOptions server;
  std::string json_file;
  bool all = false;
  std::optional<double> watch;  // seconds between two looks; nullopt = one look
};

std::string status_text(const StatusOptions& options) {
  const json cluster = call(options.server, "GET", "/v1/cluster", nullptr);
  std::ostringstream text;
  options.all ? print_status_fields(cluster, text) : print_status_summary(cluster, text);
  return text.str();
}

// Shows the status until a signal ends the process. A server that does not answer may come back.
int watch_status(const StatusOptions& options) {
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  while (std::cout) {
    std::string text;
    try {
      text = status_text(options);
    } catch (const std::exception& error) {
      text = std::string(error.what()) + "\n";
    }
    std::cout << (terminal ? "\x1b[H\x1b[J" : "") << text << (terminal ? "" : "\n") << std::flush;
    std::this_thread::sleep_for(std::chrono::duration<double>(*options.watch));
  }
  return 1;
}

int run_status(const StatusOptions& options) {
  if (options.watch) return watch_status(options);
  if (options.json_file.empty()) {
    std::cout << status_text(options);
    return 0;
  }
  write_output(options.json_file, call(options.server, "GET", "/v1/cluster", nullptr).dump() + "\n");
  return 0;
}

}  // namespace

void add_status(Command app) {
  auto options = std::make_shared<StatusOptions>();
  Command command = app.add_command(
      "status", "Show the state of a running server and its cluster: nodes, load, hits, versions, warnings");
  options->server.add_to(command);
  Option all = command.add_flag("--all", options->all, "Show every field of every actor");
  Option watch =
      command
          .add_option("--watch", options->watch,
                      "Show it again every so many seconds (2 without a number), until the command is ended")
          .optional_value("2")
          .between(0.1, 3'600.0);
  command.add_option("--json", options->json_file, "Write JSON to this file, or - for standard output")
      .excludes(all)
      .excludes(watch);
  command.runs([options] { return run_status(*options); });
}

}  // namespace troupe::deploy
