// Reads a small file, such as a certificate or a configuration, as a whole. A file over the
// bound is an error, so a device or a growing file cannot fill the memory.
#include "runtime/config/whole_file.h"

#include <algorithm>
#include <fstream>

namespace troupe {
namespace {

constexpr std::size_t piece_bytes = 64 << 10, kibibyte = 1 << 10, mebibyte = 1 << 20;

std::string shown(std::size_t bytes) {
  if (bytes % mebibyte == 0) return std::to_string(bytes / mebibyte) + " MiB";
  if (bytes % kibibyte == 0) return std::to_string(bytes / kibibyte) + " KiB";
  return std::to_string(bytes) + " bytes";
}

}  // namespace

std::string read_whole_file(const std::string& path, std::size_t bytes_max, std::string_view expected) {
  const auto fail = [&](const std::string& what) {
    throw FileError(path + ": " + what + "; expected " + std::string(expected));
  };
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) fail("cannot be read");
  std::string text;
  while (file && text.size() <= bytes_max) {
    const std::size_t before = text.size(), more = std::min(piece_bytes, bytes_max + 1 - before);
    text.resize(before + more);
    file.read(text.data() + before, static_cast<std::streamsize>(more));
    text.resize(before + static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) fail("cannot be read");
  if (text.size() > bytes_max) fail("is larger than " + shown(bytes_max));
  return text;
}

}  // namespace troupe
