#pragma once
// Shared main function of the programs `troupe` and `troupe-lab`, and the table of commands of
// `troupe`. The table of `troupe-lab` is in deploy/lab/commands/lab_commands.h.
#include <string>
#include <vector>

#include "deploy/commands/command_line.h"

namespace troupe::deploy {

// Commands that the help lists under one title.
struct CommandGroup {
  std::string title;
  std::vector<void (*)(Command app)> commands;  // each declares one command, or a few that belong together
};

struct Program {
  std::string name, about;  // about: the text above the options in --help
  std::vector<CommandGroup> groups;
  std::vector<std::string> examples;  // one command line for each command
  CommandsElsewhere elsewhere;
  std::vector<std::string> environment = {};  // "NAME=VALUE": settings may come from it; empty = from none
};

// Returns the program that serves and operates nodes.
Program troupe_program();

// Declares the program's commands, and those of every program: `manual` and `completion`. `line` and
// `program` must outlive the declarations.
void declare_commands(CommandLine& line, const Program& program);

// Runs the command on the command line and returns the exit status.
int run_program(int argc, char** argv, const Program& program);

}  // namespace troupe::deploy
