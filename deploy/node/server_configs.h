#pragma once
// Configuration of a node's server of HTTP and gRPC, made of settings and of the models that the node
// serves.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/node/local_node.h"
#include "server/auth/api_keys.h"
#include "server/http/http_server.h"

namespace troupe::deploy {

// Both read the named files. Throw ConfigError, FileError or KeysError.
server::ServerCertificate http_certificate(const HttpSettings& settings);  // empty: plain HTTP
// Returns null without keys, and if they are in a Redis.
std::shared_ptr<const server::ApiKeys> http_keys(const HttpSettings& settings);

// Splits the names of model.name. Throws ConfigError.
std::vector<std::string> model_names(std::string_view list);

// `obstacle` says why the node cannot serve yet; "" = it can.
server::HttpServerConfig http_config(const Config& config, const NodeRoles& roles, const LocalNode& node,
                                     std::function<std::string()> obstacle);
}  // namespace troupe::deploy
