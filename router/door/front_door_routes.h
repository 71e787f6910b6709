#pragma once
// What an HTTP request asks for: method, target and body → a message for the router, a question that the door
// answers itself, or a refusal. Pure, so that hostile input is tested without sockets.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/messages.h"

namespace troupe::router {

enum class DoorQuestion : std::uint8_t { live, ready, metrics, cluster };

struct DoorRequest {
  std::string_view method, target, body;
  std::string_view tenant;  // header x-troupe-tenant
};

struct DoorLimits {
  std::uint32_t candidates_max = 1000;  // checked before the body is turned into a message
  std::uint32_t id_bytes_max = 256;
  bool admin_routes = false;  // whether models and catalogs can be changed through this door
};

using DoorRoute = std::variant<Message, DoorQuestion, Refusal>;

// The message's id is 0; the door gives it one.
DoorRoute route(const DoorRequest& request, const DoorLimits& limits);

// Elements of the JSON body's longest array, counted without building anything: a cheap upper bound that
// refuses a body of a million candidates before memory is spent on it.
std::size_t longest_array(std::string_view json);

}  // namespace troupe::router
