#pragma once
// The tracked kinds of text file below the root of the tree, line by line, for the tests that read the tree.
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace troupe::tidy {

struct SourceFile {
  std::string path;  // relative to the root, with '/'
  std::vector<std::string> lines;
};

inline bool is_code(const std::string& path) {
  static const std::set<std::string> extensions{".h", ".cc", ".cu", ".cuh"};
  return extensions.contains(std::filesystem::path(path).extension().string());
}

// Returns all files with such extensions, without build folders, data folders and hidden folders.
inline std::vector<SourceFile> read_tree(const std::filesystem::path& root) {
  namespace fs = std::filesystem;
  static const std::set<std::string> extensions{".h",   ".cc",   ".cu",    ".cuh",   ".md",  ".sh",  ".py",
                                                ".txt", ".yaml", ".capnp", ".cmake", ".yml", ".json"};
  std::vector<SourceFile> files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator(); ++it) {
    const std::string path = fs::relative(it->path(), root).generic_string();
    if (it->is_directory() && (path.starts_with(".") || path.starts_with("build") || path.ends_with("-data")))
      it.disable_recursion_pending();
    if (!it->is_regular_file() || !extensions.contains(it->path().extension().string())) continue;
    SourceFile file{path, {}};
    std::ifstream in(it->path());
    for (std::string line; std::getline(in, line);) file.lines.push_back(line);
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace troupe::tidy
