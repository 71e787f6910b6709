// The program `troupe`.
#include <exception>
#include <iostream>
#include <string>

#include "deploy/commands/commands.h"
#include "deploy/data/version.h"

int main(int argc, char** argv) {
  using namespace troupe::deploy;
  CLI::App app(
      "Troupe serves generative recommenders: it ranks items for users, and reuses what it computed before.",
      "troupe");
  const std::string name = "troupe " + std::string(version()) + ", commit " + std::string(commit());
  app.set_version_flag("--version", name);
  app.require_subcommand(1);
  Chosen chosen;
  add_serve(app, chosen);
  add_node(app, chosen);
  add_certs(app, chosen);
  add_rank(app, chosen);
  add_status(app, chosen);
  add_import(app, chosen);
  add_bench(app, chosen);
  add_logits(app, chosen);
  add_config(app, chosen);
  add_sim(app, chosen);
  add_plan(app, chosen);
  add_trace(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return chosen();
  } catch (const std::exception& error) {
    std::cerr << "troupe: " << error.what() << "\n";
    return 1;
  }
}
