#include "deploy/verify/replace_text_file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "kernels/testing/test_folder.h"

using troupe::deploy::replace_text_file;

namespace {

// Limits the size of files that the process writes, for its lifetime.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

std::ptrdiff_t files_in(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

struct stat status_of(const std::filesystem::path& file) {
  struct stat status {};
  REQUIRE(stat(file.c_str(), &status) == 0);
  return status;
}

}  // namespace

TEST_SUITE("replace_text_file") {
  TEST_CASE("replace_text_file: it leaves no other file and touches none") {
    const troupe::kernels::TestFolder folder;
    folder.write("a.new", "mine");
    replace_text_file(folder.path() / "a", "one");
    replace_text_file(folder.path() / "a", "two");
    CHECK(folder.read("a") == "two");
    CHECK(folder.read("a.new") == "mine");
    CHECK(files_in(folder.path()) == 2);
  }

  TEST_CASE("replace_text_file: mode and owner stay, and a new file has the mode of created files") {
    const troupe::kernels::TestFolder folder;
    const auto file = folder.path() / "a";
    const mode_t before = umask(027);
    replace_text_file(file, "one");
    umask(before);
    CHECK((status_of(file).st_mode & 0777) == 0640);
    REQUIRE(chmod(file.c_str(), 0604) == 0);
    const bool is_root = geteuid() == 0;  // only root gives a file away
    if (is_root) REQUIRE(chown(file.c_str(), 12345, 54321) == 0);
    replace_text_file(file, "two");
    CHECK(folder.read("a") == "two");
    CHECK((status_of(file).st_mode & 0777) == 0604);
    CHECK(status_of(file).st_uid == (is_root ? 12345 : geteuid()));
    if (is_root) CHECK(status_of(file).st_gid == 54321);
  }

  TEST_CASE(
      "replace_text_file: a link stays, and the file that it names is replaced, also one that is not there") {
    const troupe::kernels::TestFolder folder;
    std::filesystem::create_directory(folder.path() / "in");
    folder.write("in/a", "old");
    std::filesystem::create_symlink("in/a", folder.path() / "link");
    std::filesystem::create_symlink("link", folder.path() / "second");
    std::filesystem::create_symlink(folder.path() / "in" / "b", folder.path() / "dangling");
    replace_text_file(folder.path() / "second", "new");
    replace_text_file(folder.path() / "dangling", "made");
    CHECK(folder.read("in/a") == "new");
    CHECK(folder.read("in/b") == "made");
    for (const char* name : {"link", "second", "dangling"})
      CHECK(std::filesystem::is_symlink(folder.path() / name));
    CHECK(files_in(folder.path()) == 4);
    std::filesystem::create_symlink("round", folder.path() / "round");
    CHECK_THROWS_WITH_AS(replace_text_file(folder.path() / "round", "x"), doctest::Contains("symbolic link"),
                         std::runtime_error);
  }

  TEST_CASE("replace_text_file: if it fails, the old file is unchanged and nothing is left beside it") {
    const troupe::kernels::TestFolder folder;
    CHECK_THROWS_WITH_AS(replace_text_file(folder.path() / "none" / "a", "x"),
                         doctest::Contains("cannot be written (creation of a file beside it: No such file"),
                         std::runtime_error);
    std::filesystem::create_directory(folder.path() / "folder");
    CHECK_THROWS_WITH_AS(replace_text_file(folder.path() / "folder", "x"), doctest::Contains("(replacing: "),
                         std::runtime_error);
    folder.write("a", "old");
    {
      const FileSizeLimit limit(1000);
      CHECK_THROWS_WITH_AS(replace_text_file(folder.path() / "a", std::string(2000, 'x')),
                           doctest::Contains("(writing: File too large)"), std::runtime_error);
    }
    CHECK(folder.read("a") == "old");
    CHECK(files_in(folder.path()) == 2);
  }
}
