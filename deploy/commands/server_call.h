#pragma once
// Client of a running server over HTTP, for commands such as `troupe rank` and `troupe status`.
#include <nlohmann/json.hpp>
#include <string>

#include "deploy/commands/command_line.h"
#include "server/http/http_client.h"

namespace troupe::deploy {

struct ServerOptions {
  std::string server = "127.0.0.1:8080", tenant, key_file, authority_file;

  void add_to(Command command, const std::string& name = "--server");
  server::HttpCall call() const;  // reads the key and authority files
};

// Returns the reply's body. Sends no body if `body` is null. Throws std::runtime_error if the
// server refuses the request or is not a troupe server.
nlohmann::json call(const ServerOptions& server, const std::string& method, const std::string& target,
                    const nlohmann::json& body);

}  // namespace troupe::deploy
