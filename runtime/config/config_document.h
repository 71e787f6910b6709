#pragma once
// Parses the text of a YAML configuration file. The number of values is bounded before the library
// keeps any, since each takes some hundred bytes.
#include <yaml-cpp/yaml.h>

#include <string>

#include "runtime/config/config.h"

namespace troupe {

// Throws a ConfigError that names the file and, unless the mark is null, the line.
[[noreturn]] void fail_at(const std::string& path, const YAML::Mark& mark, const std::string& what);

// Returns the one document of the text, null if it is empty. `path` is for errors. Throws ConfigError.
YAML::Node parse_document(const std::string& path, const std::string& text);

}  // namespace troupe
