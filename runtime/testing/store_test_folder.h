#pragma once
// Test helper: a folder that is deleted afterwards, optionally on a small disk of its own. Small
// disks require the right to mount; `mounted()` tells whether it worked.
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
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
  // Returns the newest file in `folder` with this extension, such as ".log".
  std::filesystem::path newest(const std::string& folder, const std::string& extension) const {
    std::filesystem::path found;
    for (const auto& entry : std::filesystem::directory_iterator(path_ / folder))
      if (entry.path().extension() == extension && entry.path() > found) found = entry.path();
    return found;
  }
  bool make_read_only() const {
    return mount("none", path_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
};

inline std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void overwrite_with(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

inline void flip_byte(const std::filesystem::path& file, std::size_t at) {
  std::string bytes = bytes_of(file);
  bytes.at(at) = static_cast<char>(bytes[at] ^ 0x10);
  overwrite_with(file, bytes);
}

}  // namespace troupe
