#pragma once
// Checks the name of a tenant as requests give it.
#include <optional>
#include <string_view>

#include "runtime/actor/refusal.h"

namespace troupe::server {

// Refuses a name that is no UTF-8 or has control characters: it stands in logs, metrics and keys of
// stores. `where`: the header or metadata that gave it.
std::optional<Refusal> find_tenant_fault(std::string_view name, const char* where = "x-troupe-tenant");

}  // namespace troupe::server
