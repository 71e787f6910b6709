#pragma once
// What an HTTP request asks for: method, target and body → a message for the router, a question that the door
// answers itself, or a refusal. Pure, so that hostile input is tested without sockets.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "kernels/checkpoint/vocabulary.h"
#include "runtime/actor/messages.h"

namespace troupe::router {

enum class DoorQuestion : std::uint8_t { live, ready, metrics, cluster, models, page, slowest, openapi };

struct DoorRequest {
  std::string_view method, target, body;
  std::string_view tenant;  // header x-troupe-tenant
};

struct DoorLimits {
  std::uint32_t candidates_max = 1000;  // these are of lists, and hold while the body is parsed
  std::uint32_t history_events_max = 10'000;
  std::uint32_t score_items_max = 1024;
  std::uint32_t score_labels_max = 256;
  std::uint32_t request_tokens_max = 262'144;
  std::uint32_t prompt_tokens_max = 262'144;  // that a model has positions for
  std::uint32_t pass_tokens_max = 262'144;    // that a worker has memory for
  std::uint32_t id_bytes_max = 256;
  bool admin_routes = false;   // whether models and catalogs can be changed through this door
  std::string catalog_tenant;  // who may change items even without; "": the default tenant
};

using DoorRoute = std::variant<Message, DoorQuestion, Refusal>;

// What is asked for, without what its client chose: "/v1/users/{id}"; "other": nothing is served there.
std::string_view route_name(std::string_view target);

bool is_ranking(std::string_view method, std::string_view target);  // POST of what is computed

// What a model has to serve that this is asked of, in the words of /v1/models; "": any model has it; none: no model is asked.
std::optional<std::string_view> asked_of_model(std::string_view method, std::string_view target);

// The message's id is 0; the door gives it one. `words`: of the model; null: it names none.
DoorRoute route(const DoorRequest& request, const DoorLimits& limits, const kernels::Vocabulary* words = nullptr);

}  // namespace troupe::router
