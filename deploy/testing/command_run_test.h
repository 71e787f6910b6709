#pragma once
// Runs a command of a program as its main function does, and captures what it prints. Errors that main
// would print are thrown.
#include <iostream>
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
  CommandLine line(program.name, "", "", program.elsewhere);
  declare_commands(line, program);
  const CapturedStream out(std::cout), err(std::cerr);
  Action chosen;
  const std::optional<int> ended = line.parse(static_cast<int>(argv.size()), argv.data(), chosen);
  const int status = ended ? *ended : chosen();
  return {status, out.text(), err.text()};
}

inline std::string demo(const std::string& what) {
  return std::string(TROUPE_ROOT_DIR) + "/deploy/demo/" + what;
}

}  // namespace troupe::deploy
