#pragma once
// Manual pages and completion, out of the same declarations that parse the command line and out of the table
// of knobs: so they name what there is, and nothing else.
#include <string>
#include <utility>
#include <vector>

#include "deploy/commands/command_line.h"

namespace troupe::deploy {

// "troupe-trace-convert.1" and its text, for the program and each command; "troupe.yaml.5" for the
// configuration.
using ManualPage = std::pair<std::string, std::string>;
std::vector<ManualPage> manual_pages(const CommandHelp& program, const std::string& version);

std::string bash_completion(const CommandHelp& program);

}  // namespace troupe::deploy
