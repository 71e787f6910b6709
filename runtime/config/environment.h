#pragma once
// Settings from environment variables: TROUPE_HTTP_PORT is http.port, TROUPE_POOL_PAGE_TOKENS is
// pool.page_tokens. They override a configuration file, and the command line overrides them. Only the
// main function reads the environment; here its entries are plain values.
//
// A variable that begins with TROUPE_ and names no setting is refused, except
//   - those of `other_variables`, which the project's scripts and tests read;
//   - those that Kubernetes sets for a service named troupe-…, such as TROUPE_HTTP_SERVICE_HOST and
//     TROUPE_HTTP_PORT=tcp://10.0.0.1:8080.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/model_list.h"

namespace troupe {

constexpr std::string_view variable_prefix = "TROUPE_";

// Returns the variable of a setting: "TROUPE_HTTP_PORT" of "http.port".
std::string variable_of(std::string_view setting);

// Variables with the prefix that are no settings.
struct OtherVariable {
  std::string_view name, meaning;
};
std::span<const OtherVariable> other_variables();

// A setting that the environment gives.
struct SettingVariable {
  std::string variable, value;
  std::string_view setting;
};

// Returns the settings among the entries "NAME=VALUE" of an environment, in the table's order. Of a name
// that is there twice the first counts. Throws ConfigError for an unknown variable with the prefix.
std::vector<SettingVariable> settings_of_environment(std::span<const std::string> entries);

// Overrides settings of the file, for the node and all of its models. An error names the variable.
// Throws ConfigError.
void apply_environment(SingleNodeFile& box, std::span<const std::string> entries);

}  // namespace troupe
