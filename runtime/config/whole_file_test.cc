#include "runtime/config/whole_file.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "runtime/testing/store_test_folder.h"

using namespace troupe;

namespace {

std::string error_of(const std::filesystem::path& file, std::size_t bytes_max) {
  try {
    read_whole_file(file.string(), bytes_max, "a poem");
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("whole file: a file is read up to its bound, whatever size it reports") {
  const TestFolder folder;
  const std::string text(100'000, 'a');
  folder.write("poem", text);
  const std::string file = (folder.path() / "poem").string();
  CHECK(read_whole_file(file, text.size(), "a poem") == text);
  CHECK(error_of(file, text.size() - 1) == file + ": is larger than 99999 bytes; expected a poem");
  CHECK(error_of(file, 64 << 10) == file + ": is larger than 64 KiB; expected a poem");
  CHECK(error_of("/dev/zero", 1 << 20) == "/dev/zero: is larger than 1 MiB; expected a poem");
  CHECK(read_whole_file("/dev/null", 10, "a poem").empty());
}

TEST_CASE("whole file: a missing file or a folder is refused") {
  const TestFolder folder;
  for (const std::filesystem::path& path : {folder.path(), folder.path() / "none"})
    CHECK(error_of(path, 10) == path.string() + ": cannot be read; expected a poem");
}
