// Holds the main function of `troupe` and `troupe-box`: declares the commands, runs the one on the
// command line, and prints its error.
#include "deploy/program.h"

#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>

#include "deploy/commands/commands.h"
#include "deploy/data/version.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

int run_program(int argc, char** argv, const std::string& name, const std::string& about,
                const std::function<void(Command app)>& add_more) {
  CommandLine line(name, name + " " + std::string(version()) + ", commit " + std::string(commit()),
                   "Troupe serves generative recommenders: it ranks and generates items for users, and "
                   "reuses keys and values that it computed before." +
                       about);
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
  add_logits(app);
  add_config(app);
  add_more(app);
  add_manual(app, [&line] { return line.describe(); });
  Action chosen;
  if (const std::optional<int> ended = line.parse(argc, argv, chosen)) return *ended;
  try {
    return chosen();
  } catch (const std::filesystem::filesystem_error& error) {
    std::cerr << name << ": " << shortened(error.path1().string(), 100) << ": " << error.code().message()
              << "; expected a path that can be looked up\n";
  } catch (const std::exception& error) {
    std::cerr << name << ": " << error.what() << "\n";
  }
  return 1;
}

}  // namespace troupe::deploy
