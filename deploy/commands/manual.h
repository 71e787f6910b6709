#pragma once
// Generates manual pages and shell completion from the command line's declarations and the table of
// settings, so that they never differ from the program.
#include <string>
#include <utility>
#include <vector>

#include "deploy/commands/command_line.h"

namespace troupe::deploy {

// File name and text: "troupe-trace-convert.1" for each command, "troupe.yaml.5" for the
// configuration.
using ManualPage = std::pair<std::string, std::string>;
std::vector<ManualPage> manual_pages(const CommandHelp& program, const std::string& version);

std::string bash_completion(const CommandHelp& program);

}  // namespace troupe::deploy
