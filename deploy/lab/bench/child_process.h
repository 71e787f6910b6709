#pragma once
// Runs a program to its end and takes what it prints. The program starts without a shell, in a process group
// of its own, on the cores that the caller may use; past its time limit the group is killed. Not
// Boost.Process: of a group it knows neither the end in time with what was printed till then, nor the cores.
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace troupe::deploy {

struct ChildProcess {
  std::vector<std::string> arguments;  // the program first; found in PATH if it has no slash
  std::vector<std::pair<std::string, std::string>> environment;  // set on top of this process's own
  std::chrono::milliseconds limit{60'000};
};

struct ChildResult {
  std::string output;   // standard output
  std::string failure;  // empty if it ended with status 0; otherwise what happened, with its last words
};

// Never throws for what the program does.
ChildResult run_child(const ChildProcess& child);

}  // namespace troupe::deploy
