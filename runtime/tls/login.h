#pragma once
// A user's name and password for a store, in a file of their own: the configuration is shown and logged, this
// is not.
#include <string>

namespace troupe {

struct Login {
  std::string user, password;
  bool operator==(const Login&) const = default;
};

// The one line "user:password" (of a Redis also ":password", for its default user). Throws ConfigError, which
// has nothing of what stands in the file.
Login read_login(const std::string& path);

}  // namespace troupe
