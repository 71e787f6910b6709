#pragma once
// Reads a small file as a whole, up to a bound. The bound holds whatever length the file reports: a
// pipe or a device reports none, and a file may grow meanwhile.
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace troupe {

struct FileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws FileError, e.g. "ca.pem: is larger than 1 MiB; expected a PEM file".
std::string read_whole_file(const std::string& path, std::size_t bytes_max, std::string_view expected);

}  // namespace troupe
