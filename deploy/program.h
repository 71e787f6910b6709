#pragma once
// Shared main function of the programs `troupe` (all commands) and `troupe-box` (only those that
// serve).
#include <functional>
#include <string>

#include "deploy/commands/command_line.h"

namespace troupe::deploy {

// Runs a program that has the serving commands and those that `add_more` adds. Returns the exit
// status.
int run_program(int argc, char** argv, const std::string& name, const std::string& about,
                const std::function<void(Command app)>& add_more);

}  // namespace troupe::deploy
