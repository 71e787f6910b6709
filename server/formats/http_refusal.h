#pragma once
// HTTP form of refusals: the status of each kind, and the body of an error.
#include <cstdint>
#include <string>

#include "runtime/actor/refusal.h"

namespace troupe::server {

std::uint16_t http_status(RefusalKind kind);

// Returns {"error":{"status":404,"code":…,"message":…,"where":…,"expected":…,"type":…,
// "param":…}}. The last two are members of OpenAI's errors.
std::string to_json(const Refusal& refusal);

}  // namespace troupe::server
