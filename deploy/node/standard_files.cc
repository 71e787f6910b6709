// Finds the files of the standard streams through /proc, and replaces them below their descriptors.
#include "deploy/node/standard_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <system_error>

namespace troupe::deploy {
namespace {

// True if the name leads to the file that is open as `stream`.
bool names(const std::string& file, int stream) {
  struct stat named {
  }, open{};
  return ::stat(file.c_str(), &named) == 0 && ::fstat(stream, &open) == 0 && named.st_dev == open.st_dev &&
         named.st_ino == open.st_ino;
}

std::string file_of(int stream) {
  struct stat open {};
  if (::fstat(stream, &open) != 0 || !S_ISREG(open.st_mode)) return "";
  std::array<char, PATH_MAX> text;
  const ssize_t size =
      ::readlink(("/proc/self/fd/" + std::to_string(stream)).c_str(), text.data(), text.size());
  const std::string file(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  return file.starts_with('/') && names(file, stream) ? file : "";
}

// Returns "" or what failed.
std::string reopen_one(const std::string& file, int stream) {
  if (file.empty() || names(file, stream)) return "";
  struct stat before {};
  const mode_t mode = ::fstat(stream, &before) == 0 ? before.st_mode & 0777 : 0600;
  const int opened = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
  const bool replaced = opened >= 0 && ::dup2(opened, stream) >= 0;
  const int error = errno;
  if (opened >= 0) ::close(opened);
  return replaced ? "" : file + ": cannot be opened again: " + std::generic_category().message(error);
}

}  // namespace

StandardFiles::StandardFiles() : output_(file_of(STDOUT_FILENO)), error_(file_of(STDERR_FILENO)) {}

std::string StandardFiles::reopen() const {
  const std::string output = reopen_one(output_, STDOUT_FILENO), error = reopen_one(error_, STDERR_FILENO);
  return output.empty() ? error : output;
}

}  // namespace troupe::deploy
