// The program `troupe`.
#include <exception>
#include <iostream>
#include <string>

#include "deploy/commands/commands.h"
#include "deploy/data/version.h"

int main(int argc, char** argv) {
  using namespace troupe::deploy;
  CommandLine line(
      "troupe", "troupe " + std::string(version()) + ", commit " + std::string(commit()),
      "Troupe serves generative recommenders: it ranks and generates items for users, and reuses what it computed before.");
  const Command app = line.program();
  add_serve(app);
  add_node(app);
  add_members(app);
  add_certs(app);
  add_keys(app);
  add_rank(app);
  add_generate(app);
  add_status(app);
  add_import(app);
  add_check(app);
  add_backup(app);
  add_restore(app);
  add_bench(app);
  add_logits(app);
  add_config(app);
  add_sim(app);
  add_plan(app);
  add_trace(app);
  add_train(app);
  add_prototypes(app);
  add_manual(app, [&line] { return line.describe(); });
  Action chosen;
  if (const std::optional<int> ended = line.parse(argc, argv, chosen)) return *ended;
  try {
    return chosen();
  } catch (const std::exception& error) {
    std::cerr << "troupe: " << error.what() << "\n";
    return 1;
  }
}
