// Replaces a file by a new one with a unique name beside it, which is flushed before it replaces the old
// file.
#include "deploy/verify/replace_text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace troupe::deploy {
namespace {

constexpr int links_max = 40;  // as many as the kernel follows
constexpr mode_t mode_bits = 07777;

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& step) {
  const std::string why = std::strerror(errno);
  throw std::runtime_error(file.string() + ": cannot be written (" + step + ": " + why +
                           "); expected a file in a folder that may be written, or another file");
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : ".";
}

// Returns the file that a chain of symbolic links names; it need not exist.
std::filesystem::path linked_file(std::filesystem::path file) {
  std::error_code failed;
  for (int links = 0; std::filesystem::is_symlink(std::filesystem::symlink_status(file, failed)); ++links) {
    errno = ELOOP;
    if (links == links_max) fail(file, "symbolic link");
    file = folder_of(file) / std::filesystem::read_symlink(file);
  }
  return file;
}

// Returns the mode of files that this process creates.
mode_t new_mode() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

// A file with a name of its own beside the one that it replaces. It is removed unless it takes the place.
class NextFile {
 public:
  explicit NextFile(std::filesystem::path target)
      : target_(std::move(target)), name_(target_.string() + ".XXXXXX") {
    file_ = mkostemp(name_.data(), O_CLOEXEC);
    if (file_ < 0) fail(target_, "creation of a file beside it");
  }
  NextFile(const NextFile&) = delete;
  ~NextFile() {
    if (file_ >= 0) close(file_);
    if (!placed_) unlink(name_.c_str());
  }

  void write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t wrote = ::write(file_, text.data(), text.size());
      if (wrote < 0 && errno != EINTR) fail(target_, "writing");
      if (wrote > 0) text.remove_prefix(static_cast<std::size_t>(wrote));
    }
  }

  // Gives it the owner, group and mode of the file that it replaces.
  void take_rights() const {
    struct stat old {
    }, own{};
    mode_t mode = new_mode();
    if (stat(target_.c_str(), &old) == 0) {
      mode = old.st_mode & mode_bits;
      if (fstat(file_, &own) != 0) fail(target_, "reading of the owner");
      const bool same = own.st_uid == old.st_uid && own.st_gid == old.st_gid;
      if (!same && fchown(file_, old.st_uid, old.st_gid) != 0) fail(target_, "keeping of the owner");
    }
    if (fchmod(file_, mode) != 0) fail(target_, "keeping of the mode");
  }

  std::string replace() {
    if (fsync(file_) != 0) fail(target_, "flushing");
    if (rename(name_.c_str(), target_.c_str()) != 0) fail(target_, "replacing");
    placed_ = true;
    const int folder = open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool flushed = folder >= 0 && fsync(folder) == 0;
    if (folder >= 0) close(folder);
    if (flushed) return "";
    return target_.string() +
           ": was replaced, but a loss of power may undo it, because its folder cannot be flushed; expected "
           "a folder that may be read";
  }

 private:
  std::filesystem::path target_;
  std::string name_;
  int file_ = -1;
  bool placed_ = false;
};

}  // namespace

std::string replace_text_file(const std::filesystem::path& file, const std::string& text) {
  NextFile next(linked_file(file));
  next.write(text);
  next.take_rights();
  return next.replace();
}

}  // namespace troupe::deploy
