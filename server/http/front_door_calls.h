#pragma once
// A request that came another way than HTTP, and goes the same way from the door on: keys, rates, pauses,
// models, the router, the access log and spans are those of all requests.
#include <functional>
#include <optional>
#include <string>

#include "server/http/front_door_routes.h"

namespace troupe::server {

struct DoorCall {
  std::string route;                  // as metrics and log lines name it
  std::string kind;                   // of requests that a model has to serve, in the words of /v1/models
  std::string model;                  // that is asked; "": whichever serves them
  Shaped asked;                       // without tenant
  std::optional<Refusal> fault = {};  // why it is not asked; its key and rate come first
  std::string authorization, tenant, traceparent, request_id;  // as the headers of those names
  std::uint64_t bytes_in = 0;
};

struct DoorReply {
  unsigned status = 200;  // HTTP's
  std::string body;       // in the form of `asked`, or a refusal in JSON
  std::string code;       // of a refusal
  unsigned retry_after_s = 0;
};
using OnDoorReply = std::function<void(DoorReply)>;  // called once, from the door's thread or the caller's

}  // namespace troupe::server
