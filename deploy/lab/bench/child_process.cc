// Runs a program without a shell, on the caller's cores, with a time limit, and captures its
// output. The whole process group is killed when the limit passes.
#include "deploy/lab/bench/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <thread>

#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

using Clock = std::chrono::steady_clock;

// A pipe whose ends are closed with the scope.
class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) ends_ = {-1, -1};
  }
  ~Pipe() {
    close_writer();
    if (ends_[0] >= 0) close(ends_[0]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void close_writer() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

std::vector<char*> c_strings(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_of(const ChildProcess& child) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    bool replaced = false;
    for (const auto& [name, value] : child.environment) replaced |= text.starts_with(name + "=");
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : child.environment) all.push_back(name + "=" + value);
  return all;
}

// Starts the program. Returns 0 or an errno.
int spawn(const ChildProcess& child, const Pipe& out, const Pipe& errors, pid_t& pid) {
  std::vector<std::string> arguments = child.arguments, environment = environment_of(child);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.writer(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.writer(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t usual;  // this process ignores it, and the child would inherit that
  sigemptyset(&usual);
  sigaddset(&usual, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  const int error = posix_spawnp(&pid, arguments.front().c_str(), &actions, &attributes,
                                 c_strings(arguments).data(), c_strings(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

constexpr std::size_t output_bytes_max = 16 << 20, error_bytes_max = 64 << 10;

// Reads once from `from` and appends to `to`. Returns false after all writers have closed the pipe. When
// `to` exceeds `bytes_max`, only its newest half of that is kept.
bool take(int from, std::string& to, std::size_t bytes_max) {
  char buffer[4096];
  const ssize_t size = read(from, buffer, sizeof buffer);
  if (size > 0) to.append(buffer, static_cast<std::size_t>(size));
  if (to.size() > bytes_max) to.erase(0, to.size() - bytes_max / 2);
  return size > 0 || (size < 0 && errno == EINTR);
}

// Reads until both pipes are closed. Returns false if `until` passes first.
bool take_all(int out, int errors, Clock::time_point until, std::string& output, std::string& error_text) {
  std::array<pollfd, 2> ends{{{out, POLLIN, 0}, {errors, POLLIN, 0}}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return false;
    if (poll(ends.data(), ends.size(), static_cast<int>(std::min<long>(left, 1 << 30))) < 0) continue;
    if (ends[0].revents != 0 && !take(out, output, output_bytes_max)) ends[0].fd = -1;
    if (ends[1].revents != 0 && !take(errors, error_text, error_bytes_max)) ends[1].fd = -1;
  }
  return true;
}

// Returns the end of `error_text` as one line that begins with ": ", or "" if there is none.
std::string error_tail(const std::string& error_text) {
  constexpr std::size_t length = 400;
  std::istringstream tail(error_text.substr(error_text.size() - std::min(error_text.size(), length)));
  std::string line;
  for (std::string word; tail >> word;) line += (line.empty() ? ": " : " ") + word;
  return line;
}

// Waits for the program, which may have closed its output long before it ends. After the deadline, kills it
// and all that it started, and returns false.
bool await_end(pid_t pid, Clock::time_point deadline, int& status) {
  constexpr std::chrono::milliseconds between_looks(5);
  const auto wait = [&](int flags) {
    pid_t ended = 0;
    while ((ended = waitpid(pid, &status, flags)) < 0 && errno == EINTR) {
    }
    return ended != 0;
  };
  while (Clock::now() < deadline) {
    if (wait(WNOHANG)) return true;
    std::this_thread::sleep_for(between_looks);
  }
  if (wait(WNOHANG)) return true;
  kill(-pid, SIGKILL);
  wait(0);
  return false;
}

}  // namespace

ChildResult run_child(const ChildProcess& child) {
  ChildResult result;
  Pipe out, errors;
  pid_t pid = 0;
  if (const int error = spawn(child, out, errors, pid); error != 0) {
    result.failure = child.arguments.front() + " cannot be started: " + std::strerror(error);
    return result;
  }
  out.close_writer();
  errors.close_writer();
  std::string error_text;
  const Clock::time_point deadline = Clock::now() + child.limit;
  take_all(out.reader(), errors.reader(), deadline, result.output, error_text);
  int status = 0;
  const bool in_time = await_end(pid, deadline, status);
  if (!in_time)
    result.failure = "killed after " + fixed(std::chrono::duration<double>(child.limit).count(), 1) + " s" +
                     error_tail(error_text);
  else if (WIFSIGNALED(status))
    result.failure = "killed by signal " + std::to_string(WTERMSIG(status)) + error_tail(error_text);
  else if (WEXITSTATUS(status) != 0)
    result.failure = "ended with status " + std::to_string(WEXITSTATUS(status)) + error_tail(error_text);
  return result;
}

}  // namespace troupe::deploy
