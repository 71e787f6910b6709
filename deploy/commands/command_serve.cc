// `troupe serve`: runs a single node with all five actors and the HTTP server, until a signal.
#include "deploy/commands/commands.h"
#include "deploy/node/serving.h"

namespace troupe::deploy {

namespace {

struct ServeOptions {
  ConfigOptions box;
  std::string address, port_file;
  std::int64_t port = -1;
};

int run_serve(const ServeOptions& options) {
  const auto read = [options] {
    SingleNodeFile box = options.box.load_single_node();
    if (!options.address.empty()) box.config.http.address = options.address;
    if (options.port >= 0) box.config.set("http.port", std::to_string(options.port));
    return box;
  };
  SingleNodeFile box = read();
  ServingOptions serving{.config = std::move(box.config), .models = std::move(box.models), .reload = [read] {
                           return read().config;
                         }};
  serving.port_file = options.port_file;
  return serve_until_signal(std::move(serving));
}

}  // namespace

void add_serve(Command app) {
  auto options = std::make_shared<ServeOptions>();
  Command command = app.add_command("serve", "Run a single node: all five actors and the HTTP server");
  options->box.add_to(command);
  command.add_option("--address", options->address, "Address to listen on (http.address)");
  command.add_option("--port", options->port, "Port to listen on (http.port); 0: any free one")
      .between(0, 65535);
  command.add_option("--port-file", options->port_file,
                     "Write the port to this file once the server listens");
  command.runs([options] { return run_serve(*options); });
}

}  // namespace troupe::deploy
