#include "deploy/node/standard_files.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "kernels/testing/test_folder.h"

namespace troupe::deploy {
namespace {

void write_line(int stream, std::string_view text) {
  if (::write(stream, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(2);
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs `use` in a child whose standard streams are these files; returns its exit status.
template <class Use>
int with_streams(const std::filesystem::path& output, const std::filesystem::path& error, Use use) {
  const pid_t child = fork();
  if (child == 0) {
    const int flags = O_WRONLY | O_APPEND | O_CREAT;
    dup2(::open(output.c_str(), flags, 0640), STDOUT_FILENO);
    dup2(::open(error.c_str(), flags, 0640), STDERR_FILENO);
    _exit(use() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("standard files: a redirected stream is opened by its name again once that was renamed") {
  const kernels::TestFolder folder;
  const auto log = folder.path() / "out.log", renamed = folder.path() / "out.log.1";
  CHECK(with_streams(log, log, [&] {
          const StandardFiles files;
          write_line(STDOUT_FILENO, "one\n");
          if (!files.reopen().empty()) return false;  // the name still leads there
          write_line(STDERR_FILENO, "two\n");
          std::filesystem::rename(log, renamed);
          if (!files.reopen().empty()) return false;
          write_line(STDOUT_FILENO, "three\n");
          write_line(STDERR_FILENO, "four\n");
          return true;
        }) == 0);
  CHECK(text_of(renamed) == "one\ntwo\n");
  CHECK(text_of(log) == "three\nfour\n");
}

TEST_CASE("standard files: a device keeps its stream, and a file that cannot be opened is named") {
  const kernels::TestFolder folder;
  const auto log = folder.path() / "err.log";
  CHECK(with_streams("/dev/null", log, [&] {
          const StandardFiles files;
          std::filesystem::rename(log, folder.path() / "err.log.1");
          std::filesystem::create_directory(log);
          const std::string why = files.reopen();
          write_line(STDERR_FILENO, "kept\n");
          return why.starts_with(log.string() + ": cannot be opened again: ");
        }) == 0);
  CHECK(text_of(folder.path() / "err.log.1") == "kept\n");
}

}  // namespace
}  // namespace troupe::deploy
