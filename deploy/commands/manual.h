#pragma once
// Generates manual pages and shell completion from the command line's declarations and the table of
// settings, so that they never differ from the program.
#include <string>
#include <utility>
#include <vector>

#include "deploy/commands/command_line.h"

namespace troupe::deploy {

// File name and text: "troupe-trace-capture.1".
using ManualPage = std::pair<std::string, std::string>;
// Returns a page for the program and for each of its commands.
std::vector<ManualPage> manual_pages(const CommandHelp& program, const std::string& version);
ManualPage configuration_page(const std::string& version);  // "troupe.yaml.5"

std::string bash_completion(const CommandHelp& program);

}  // namespace troupe::deploy
