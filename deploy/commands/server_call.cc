#include "deploy/commands/server_call.h"

#include <algorithm>
#include <stdexcept>

#include "router/door/front_door_client.h"

namespace troupe::deploy {

using nlohmann::json;

json call(const std::string& server, const std::string& method, const std::string& target,
          const std::string& tenant, const json& body) {
  router::HttpCall request;
  request.server = server;
  request.method = method;
  request.target = target;
  request.tenant = tenant;
  if (!body.is_null()) request.body = body.dump();
  const router::HttpReply reply = router::http_call(request);
  json parsed = json::parse(reply.body, nullptr, false);
  if (reply.status == 200 && parsed.is_object()) return parsed;
  const json error = parsed.is_object() ? parsed.value("error", json::object()) : json::object();
  if (!error.contains("message"))
    throw std::runtime_error("http://" + server + ": answered " + target + " with status " +
                             std::to_string(reply.status) + " and \"" +
                             reply.body.substr(0, std::min<std::size_t>(60, reply.body.find('\n'))) +
                             "\"; expected a troupe server");
  throw std::runtime_error(error.value("where", target) + ": " + error.value("message", "") + "; expected " +
                           error.value("expected", "a request that the server accepts"));
}

}  // namespace troupe::deploy
