#pragma once
// A user name and password for a store. They are in a file of their own, since the configuration is
// shown and logged.
#include <string>

namespace troupe {

struct Login {
  std::string user, password;
  bool operator==(const Login&) const = default;
};

// Reads a file with one line "user:password" (for Redis also ":password", for its default user).
// Throws ConfigError, which never contains the file's text.
Login read_login(const std::string& path);

}  // namespace troupe
