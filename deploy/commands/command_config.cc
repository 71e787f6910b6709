// `troupe config`: a configuration file that says what every knob does, with its default and range.
#include <iostream>

#include "deploy/commands/commands.h"

namespace troupe::deploy {

void add_config(Command app) {
  Command command =
      app.add_command("config", "Print a configuration file with every knob, its default and range");
  command.runs([] {
    std::cout << example_yaml();
    return 0;
  });
}

}  // namespace troupe::deploy
