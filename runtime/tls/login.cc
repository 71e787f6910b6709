// Reads the user name and password for a store, such as Redis or etcd, from a file of one line.
#include "runtime/tls/login.h"

#include "runtime/config/config.h"
#include "runtime/config/whole_file.h"

namespace troupe {
namespace {

constexpr std::size_t login_bytes_max = 4 << 10;

}  // namespace

Login read_login(const std::string& path) {
  std::string line;
  try {
    line = read_whole_file(path, login_bytes_max, "one line user:password");
  } catch (const std::exception& error) {
    throw ConfigError(error.what());
  }
  if (line.ends_with('\n')) line.pop_back();
  if (line.ends_with('\r')) line.pop_back();
  const std::size_t colon = line.find(':');
  const bool is_line = line.find_first_of(std::string_view("\n\r\0", 3)) == line.npos;
  if (!is_line || colon == line.npos || colon + 1 == line.size())
    throw ConfigError(path + ": is not a login; expected one line user:password");
  return {line.substr(0, colon), line.substr(colon + 1)};
}

}  // namespace troupe
