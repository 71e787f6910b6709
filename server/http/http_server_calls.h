#pragma once
// A request that came by another protocol than HTTP. From here on it is treated like any other:
// keys, rate limits, pauses, models, the router, the access log and spans.
#include <functional>
#include <optional>
#include <string>

#include "server/http/http_routes.h"

namespace troupe::server {

struct ServerCall {
  std::string route;                  // route name in metrics and log lines
  std::string kind;                   // request kind that the model has to serve, as in /v1/models
  std::string model;                  // requested model; "" = any that serves the kind
  ShapedRequest asked;                // without tenant
  std::optional<Refusal> fault = {};  // refusal found by the caller; sent after the checks of key and rate
  std::string authorization, tenant, traceparent, request_id;  // values of the headers of those names
  std::uint64_t bytes_in = 0;
};

struct ServerReply {
  std::optional<RefusalKind> refused = {};  // nullopt = answered
  std::string body;                         // in the form of `asked`, or a refusal in JSON
  std::string code;                         // error code of a refusal
  unsigned retry_after_s = 0;
};
using OnServerReply =
    std::function<void(ServerReply)>;  // called once, on the server's thread or the caller's

}  // namespace troupe::server
