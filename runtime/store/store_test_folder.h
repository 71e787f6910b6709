#pragma once
// For tests of what writes files: a folder that is gone afterwards, if wanted on a small disk of its own.
// Small disks need the right to mount; `mounted()` says whether there was one.
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace troupe {

class TestFolder {
 public:
  explicit TestFolder(const char* disk_size = nullptr) {
    std::string name = (std::filesystem::temp_directory_path() / "troupe-test-XXXXXX").string();
    if (!mkdtemp(name.data())) std::abort();
    path_ = name;
    if (disk_size)
      mounted_ = mount("none", name.c_str(), "tmpfs", 0, ("size=" + std::string(disk_size)).c_str()) == 0;
  }
  ~TestFolder() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, std::string_view text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }
  bool mounted() const { return mounted_; }
  bool make_read_only() const {
    return mount("none", path_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
};

}  // namespace troupe
