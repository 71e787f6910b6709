#pragma once
// What an HTTP request asks for: method, target and body → a message for the router, a question that the door
// answers itself, or a refusal. Pure, so that hostile input is tested without sockets.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/wire/json.h"
#include "server/formats/model_text.h"

namespace troupe::server {

enum class DoorQuestion : std::uint8_t {
  live,
  ready,
  metrics,
  cluster,
  models,
  server,
  page,
  slowest,
  openapi
};

// What a model is (the Open Inference Protocol's metadata), or whether it is ready.
struct ModelQuestion {
  std::string model;
  bool ready = false;
};

// The model that was asked, as clients may name it.
struct KnownModel {
  std::string name;  // "": of a box whose one model has none
  std::vector<std::string>
      versions;  // of that one, where they were asked for: the present one, the next one while a share has it
};

// A message whose answer has another form than its own: what that is, or why there is none. `now_s`: seconds
// since 1970.
struct Shaped {
  Message message;
  std::function<std::variant<std::string, Refusal>(const Message& reply, const KnownModel& model,
                                                   std::int64_t now_s)>
      body;
};

struct DoorRequest {
  std::string_view method, target, body;
  std::string_view tenant;                             // header x-troupe-tenant
  std::string_view if_match = {}, if_none_match = {};  // headers; "": absent
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

// The lists of each body. Of a message that has no limits none is too long.
template <class M>
std::vector<ListLimit> list_limits(const DoorLimits& limits);

using DoorRoute = std::variant<Message, DoorQuestion, Refusal, ModelQuestion, Shaped>;

bool asks_health(std::string_view target);  // for everybody, also without a key
// What is asked for, without what its client chose: "/v1/users/{id}"; "other": nothing is served there.
std::string_view route_name(std::string_view target);

bool is_ranking(std::string_view method, std::string_view target);  // POST of what is computed

// What a model has to serve that this is asked of, in the words of /v1/models; "": any model has it; none: no
// model is asked.
std::optional<std::string_view> asked_of_model(std::string_view method, std::string_view target);

// The model that a path of the Open Inference Protocol names (/v2/models/{model}/infer); none: it is no such
// path.
std::optional<std::string> model_in_path(std::string_view target);

// The message's id is 0; the door gives it one. `text`: the model's.
DoorRoute route(const DoorRequest& request, const DoorLimits& limits, const ModelText& text = {});

// Requests of many lines, each a JSON object of its own, with a line for each in the answer: users and items
// to put or delete, events to append, rankings.
enum class BulkKind : std::uint8_t { users, items, events, rankings };

// None: it has one body. Rankings come by lines where the content type says so (application/x-ndjson).
std::optional<BulkKind> bulk_kind(std::string_view method, std::string_view target,
                                  std::string_view content_type);
// Why not one of its lines may be served.
std::optional<Refusal> find_bulk_fault(BulkKind kind, const DoorRequest& request, const DoorLimits& limits);
// Who is asked must be the model that was named, where the box's one model has no name but its version. Of
// two versions that share the users either may be named, whichever answers: its user's. `version`: that has
// answered.
std::optional<Refusal> find_other_model(const std::string& asked, const KnownModel& known,
                                        const std::string& version);

// As route(), of a line in the place of the body.
DoorRoute route_line(BulkKind kind, const DoorRequest& request, const DoorLimits& limits,
                     const ModelText& text);

}  // namespace troupe::server
