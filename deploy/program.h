#pragma once
// What the programs `troupe` and `troupe-box` have in common.
#include <functional>
#include <string>

#include "deploy/commands/command_line.h"

namespace troupe::deploy {

// The whole of a program: the commands of a box, and those that `add_more` has. Returns the exit status.
int run_program(int argc, char** argv, const std::string& name, const std::string& about,
                const std::function<void(Command app)>& add_more);

}  // namespace troupe::deploy
