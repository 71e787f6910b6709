// Sends one HTTP request of a command, such as `troupe rank`, to a running server and parses the
// JSON of the reply.
#include "deploy/commands/server_call.h"

#include <algorithm>
#include <stdexcept>

#include "runtime/config/whole_file.h"
#include "runtime/network/certificates.h"

namespace troupe::deploy {

using nlohmann::json;

namespace {

constexpr std::size_t key_bytes_max = 4096;

std::string key_in(const std::string& file) {
  std::string key = read_whole_file(file, key_bytes_max, "a file with one API key");
  key.erase(key.find_last_not_of(" \t\r\n") + 1);
  return key;
}

}  // namespace

void ServerOptions::add_to(Command command, const std::string& name) {
  command.add_option(name, server, "Server as host:port, with https:// before it for TLS").default_shown();
  command.add_option("--tenant", tenant, "Tenant of the requests; default: the default tenant");
  command.add_option("--key-file", key_file, "File with the API key (troupe keys)");
  command.add_option("--authority", authority_file,
                     "With https://: PEM file of the authority that signed the server's certificate; "
                     "default: the system's authorities");
}

server::HttpCall ServerOptions::call() const {
  server::HttpCall call{.server = server, .tenant = tenant};
  if (!key_file.empty()) call.key = key_in(key_file);
  if (!authority_file.empty()) call.authority = read_pem(authority_file);
  return call;
}

json call(const ServerOptions& server, const std::string& method, const std::string& target,
          const json& body) {
  server::HttpCall request = server.call();
  request.method = method;
  request.target = target;
  if (!body.is_null()) request.body = body.dump();
  const server::HttpReply reply = server::http_call(request);
  json parsed = json::parse(reply.body, nullptr, false);
  if (reply.status == 200 && parsed.is_object()) return parsed;
  const json error = parsed.is_object() ? parsed.value("error", json::object()) : json::object();
  if (!error.contains("message"))
    throw std::runtime_error((server.server.starts_with("http") ? "" : "http://") + server.server +
                             ": answered " + target + " with status " + std::to_string(reply.status) +
                             " and \"" +
                             reply.body.substr(0, std::min<std::size_t>(60, reply.body.find('\n'))) +
                             "\"; expected a troupe server");
  throw std::runtime_error(error.value("where", target) + ": " + error.value("message", "") + "; expected " +
                           error.value("expected", "a request that the server accepts"));
}

}  // namespace troupe::deploy
