#pragma once
// Runs a command of a program as its main function does, and captures what it prints. Errors that main
// would print are thrown.
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "deploy/program.h"

namespace troupe::deploy {

// Captures what is written to a stream for its lifetime.
class CapturedStream {
 public:
  explicit CapturedStream(std::ostream& stream) : stream_(stream), before_(stream.rdbuf(text_.rdbuf())) {}
  ~CapturedStream() { stream_.rdbuf(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::ostream& stream_;
  std::streambuf* before_;
};

struct CommandRun {
  int status = 0;
  std::string out, err;
};

inline CommandRun run_command(const Program& program, std::vector<std::string> words) {
  words.insert(words.begin(), program.name);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  CommandLine line(program.name, "", "", program.elsewhere, program.environment);
  declare_commands(line, program);
  const CapturedStream out(std::cout), err(std::cerr);
  Action chosen;
  const std::optional<int> ended = line.parse(static_cast<int>(argv.size()), argv.data(), chosen);
  const int status = ended ? *ended : chosen();
  return {status, out.text(), err.text()};
}

// Returns the paths of the commands without subcommands whose help has no example.
inline std::vector<std::string> commands_without_example(const CommandHelp& command,
                                                         const std::string& path) {
  if (command.commands.empty())
    return command.example.starts_with(path) ? std::vector<std::string>() : std::vector{path};
  std::vector<std::string> found;
  for (const CommandHelp& below : command.commands)
    for (std::string& name : commands_without_example(below, path + " " + below.name))
      found.push_back(std::move(name));
  return found;
}
inline std::vector<std::string> commands_without_example(const Program& program) {
  CommandLine line(program.name, "", "", program.elsewhere);
  declare_commands(line, program);
  return commands_without_example(line.describe(), program.name);
}

// Returns the errors of those examples that the program does not take. None is run.
inline std::vector<std::string> examples_refused(const Program& program) {
  std::vector<std::string> errors;
  for (const std::string& example : program.examples) {
    std::istringstream in(example);
    std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    CommandLine line(program.name, "", "", program.elsewhere);
    declare_commands(line, program);
    const CapturedStream out(std::cout), err(std::cerr);
    Action chosen;
    if (line.parse(static_cast<int>(argv.size()), argv.data(), chosen)) errors.push_back(err.text());
  }
  return errors;
}

inline std::string demo(const std::string& what) {
  return std::string(TROUPE_ROOT_DIR) + "/deploy/demo/" + what;
}

}  // namespace troupe::deploy
