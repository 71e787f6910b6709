#pragma once
// Runs a program to its end and captures its output. The program starts without a shell, in a process group
// of its own, on the cores that the caller may use. The group is killed when the time limit passes.
// Boost.Process is not used, because it cannot limit a group's time and keep the output printed so far, and
// it does not control cores.
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace troupe::deploy {

struct ChildProcess {
  std::vector<std::string> arguments;  // the program first; searched in PATH if it has no slash
  std::vector<std::pair<std::string, std::string>> environment;  // overrides this process's variables
  std::chrono::milliseconds limit{60'000};
};

struct ChildResult {
  std::string output;   // standard output
  std::string failure;  // empty on exit status 0; else the cause and the end of standard error
};

// Reports failures of the program in the result and does not throw for them.
ChildResult run_child(const ChildProcess& child);

}  // namespace troupe::deploy
