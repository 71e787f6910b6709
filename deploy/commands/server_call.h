#pragma once
// What commands ask of a running server over HTTP.
#include <nlohmann/json.hpp>
#include <string>

namespace troupe::deploy {

// The answer's body; no body is sent if `body` is null. Throws std::runtime_error with what the server refused, or that
// it is none of ours.
nlohmann::json call(const std::string& server, const std::string& method, const std::string& target,
                    const std::string& tenant, const nlohmann::json& body);

}  // namespace troupe::deploy
