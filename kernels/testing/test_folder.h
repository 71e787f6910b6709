#pragma once
// Test helper for code that reads files: a folder that is deleted when the test ends, and the
// message of a LoadError.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "kernels/base/errors.h"

namespace troupe::kernels {

class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "troupe-kernels-XXXXXX").string();
    if (!mkdtemp(name.data())) std::abort();
    path_ = name;
  }
  TestFolder(const TestFolder&) = delete;
  ~TestFolder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }
  std::string read(const std::string& name) const {
    std::ostringstream bytes;
    bytes << std::ifstream(path_ / name, std::ios::binary).rdbuf();
    return bytes.str();
  }

 private:
  std::filesystem::path path_;
};

// Returns the message of the LoadError that `load` throws; empty if it succeeds. Other exceptions
// pass through.
template <class Load>
std::string load_error_of(Load load) {
  try {
    load();
  } catch (const LoadError& error) {
    return error.what();
  }
  return "";
}

}  // namespace troupe::kernels
