#pragma once
// Versions of a model that a router serves, as its status tells. The status may also have names of them
// (model_version_name, next_model_name), by which clients may call them.
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe::server {

// Returns the value of the first field of that name; "" = there is none.
std::string field_of(const StatusReply& reply, std::string_view name);

// Returns the served versions by the names of each, of which the version itself is the first: the current
// one, and the next one while a share of users has it.
std::vector<std::vector<std::string>> named_versions(const StatusReply& router);

// Returns the served versions and their names.
std::vector<std::string> versions_of(const StatusReply& router);

}  // namespace troupe::server
