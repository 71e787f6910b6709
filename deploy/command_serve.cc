// `troupe serve`: one box, all five actors and the HTTP front door, until a signal ends it.
#include <pthread.h>
#include <signal.h>

#include <fstream>
#include <iostream>

#include "deploy/commands.h"
#include "deploy/box.h"
#include "router/front_door.h"
#include "runtime/caf_host.h"
#include "runtime/log.h"

namespace troupe::deploy {

namespace {

struct ServeOptions {
  BoxOptions box;
  std::string address, port_file;
  std::int64_t port = -1;
};

router::DoorConfig door_config(const Config& config, const Box& box) {
  router::DoorConfig door;
  door.address = config.text("http.address");
  door.port = static_cast<std::uint16_t>(config.integer("http.port"));
  door.connections_max = static_cast<std::uint32_t>(config.integer("http.connections_max"));
  door.header_bytes_max = static_cast<std::uint32_t>(config.size_bytes("http.header_bytes_max"));
  door.body_bytes_max = static_cast<std::uint32_t>(config.size_bytes("http.body_bytes_max"));
  door.timeout_us = config.duration_us("http.timeout");
  door.answer_us_max =
      config.duration_us("router.deadline_max") + 400'000;  // promise 1: the deadline and two heartbeats
  door.limits.candidates_max = static_cast<std::uint32_t>(config.integer("router.candidates_max"));
  door.limits.admin_routes = config.boolean("http.admin_routes");
  door.actors = box.actors();
  door.router = Box::address(Role::router);
  return door;
}

// The order of the end, on every way out: no more requests, then no more answers to a door that is going.
struct Ending {
  router::FrontDoor& door;
  Host& host;
  ~Ending() {
    door.close();
    host.stop();
  }
};

// Waits for SIGINT or SIGTERM. They were blocked before any thread began, so that only this call takes them.
int wait_for_signal(const sigset_t& signals) {
  int signal = 0;
  sigwait(&signals, &signal);
  return signal;
}

void log_rows_left_out(const Log& log, std::uint64_t rows) {
  if (rows == 0) return;
  const std::vector<LogField> fields{{"rows", std::to_string(rows)},
                                     {"why", "damaged, or imported with another model"},
                                     {"expected", "a data folder that was imported with this model"}};
  log(LogLevel::warning, "main", "rows_left_out", fields);
}

int run_serve(const ServeOptions& options) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  Config config = options.box.load();
  if (!options.address.empty()) config.set("http.address", options.address);
  if (options.port >= 0) config.set("http.port", std::to_string(options.port));
  const Log log({log_level(config.text("node.log_level")), "1", config.text("node.log_file")});
  Box box(config);
  log_rows_left_out(log, box.features().bad_records());
  MetricRegistry metrics;
  CafHost host(metrics, log);
  box.add_to(host);
  const Address door_address = Box::address(Role::door);
  router::FrontDoor door(
      door_config(config, box), [&](Address to, Message m) { host.post(to, door_address, std::move(m)); },
      metrics);
  host.set_door(door_address, [&](Address, Message answer) { door.deliver(std::move(answer)); });
  const Ending ending{door, host};
  host.start();
  door.open();
  std::cout << "troupe serves on http://" << config.text("http.address") << ":" << door.port() << " with "
            << box.executors() << " executors, " << box.pool_pages() << " pages and "
            << box.features().items() << " items\n"
            << std::flush;
  if (!options.port_file.empty()) write_output(options.port_file, std::to_string(door.port()) + "\n");
  const int signal = wait_for_signal(signals);
  log(LogLevel::info, "main", "stopping", std::vector<LogField>{{"signal", std::to_string(signal)}});
  return 0;
}

}  // namespace

void add_serve(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "Run one box: all five actors and the HTTP front door");
  options->box.add_to(*command);
  command->add_option("--address", options->address, "Where to listen (http.address)");
  command->add_option("--port", options->port, "Port (http.port); 0: any free one")
      ->check(CLI::Range(0, 65535));
  command->add_option("--port-file", options->port_file, "Write the port here once the door is open");
  command->callback([options, &chosen] { chosen = [options] { return run_serve(*options); }; });
}

}  // namespace troupe::deploy
