#pragma once
// Routes an HTTP request: method, target and body become a message for the router, a question that
// the server answers itself, or a refusal. Pure, so hostile input is tested without sockets.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/actor/row_rules.h"
#include "runtime/wire/json.h"
#include "server/auth/api_keys.h"
#include "server/formats/model_text.h"
#include "server/formats/own_names.h"
#include "server/formats/row_bodies.h"

namespace troupe::server {

enum class ServerQuestion : std::uint8_t {
  live,
  ready,
  metrics,
  cluster,
  models,
  server,
  page,
  slowest,
  openapi,
  info  // the model, in the form of TEI
};

// Question for a model's metadata (Open Inference Protocol), or for its readiness.
struct ModelQuestion {
  std::string model;
  bool ready = false;
};

// The model that was asked, by the names that clients may use.
struct AnsweringModel {
  std::string name;  // "" = the node's one model has no name
  // its versions, if they were requested: the current one, and the next one while a share of
  // users has it
  std::vector<std::string> versions;
  std::vector<std::string> aliases = {};  // further names of the node's one model (model.name)

  // Returns the name that answers show; "" = the version.
  std::string shown() const { return name.empty() && !aliases.empty() ? aliases.front() : name; }
};

// A message whose answer has its own form. `body` writes it, or returns a refusal. `now_s`: seconds
// since 1970.
struct ShapedRequest {
  Message message;
  std::function<std::variant<std::string, Refusal>(const Message& reply, const AnsweringModel& model,
                                                   std::int64_t now_s)>
      body;
  OwnNames names = {};  // in refusals
};

// An answer that needs no actor.
struct KnownAnswer {
  std::string body;
  std::string allow;  // methods of the path, for OPTIONS; "" = not said
};

struct HttpRequest {
  std::string_view method, target, body;
  std::string_view tenant;                             // header x-troupe-tenant
  std::string_view if_match = {}, if_none_match = {};  // headers; "" = absent
};

struct ServerLimits {
  std::uint32_t candidates_max = 1000;  // limits of lists, enforced while the body is parsed
  std::uint32_t history_events_max = 10'000;
  std::uint32_t score_items_max = 1024;
  std::uint32_t score_labels_max = 256;
  std::uint32_t request_tokens_max = 262'144;
  std::uint32_t prompt_tokens_max = 262'144;  // positions of the model
  std::uint32_t pass_tokens_max = 262'144;    // tokens that a worker has memory for
  std::uint32_t id_bytes_max = row_id_bytes_max;
  std::vector<std::string> event_features;  // of the model, such as "timestamps"
  bool admin_routes = false;                // true = models and catalogs can be changed here
  std::string catalog_tenant;  // tenant that may change items without admin routes; "" = the default tenant
};

RowLimits row_limits(const ServerLimits& limits);

// Returns the limits of the lists in each body. A message without limits may have lists of any
// length.
template <class M>
std::vector<ListLimit> list_limits(const ServerLimits& limits);

using HttpRoute = std::variant<Message, ServerQuestion, Refusal, ModelQuestion, ShapedRequest, KnownAnswer>;

// Returns true for the probes of orchestrators and load balancers, which are served without a key.
bool asks_health(std::string_view method, std::string_view target);
// Returns true for what is served without a key: these probes and the live page.
bool is_open(std::string_view method, std::string_view target);
KeyRight needed_right(std::string_view target);  // of the key, where the server has keys
// Returns the route without the parts that the client chose: "/v1/users/{id}"; "other" = no such
// route.
std::string_view route_name(std::string_view target);

bool is_ranking(std::string_view method, std::string_view target);  // POST to a route that a model computes

// Returns the request kind that the model has to serve, as in /v1/models; "" = any model; nullopt =
// no model is involved.
std::optional<std::string_view> asked_of_model(std::string_view method, std::string_view target);

// Returns the model named in a path of the Open Inference Protocol (/v2/models/{model}/infer);
// nullopt for other paths.
std::optional<std::string> model_in_path(std::string_view target);

// Routes a request. The message's id is 0; the server assigns it. `text`: of the model.
HttpRoute route(const HttpRequest& request, const ServerLimits& limits, const ModelText& text = {});

// Kinds of requests of many lines. Each line is a JSON object and has a line in the response: users
// and items to put or delete, events to append, rankings.
enum class BulkKind : std::uint8_t { users, items, events, rankings };

// Returns the kind, or nullopt for a single body. Rankings come by lines if the content type says
// so (application/x-ndjson).
std::optional<BulkKind> bulk_kind(std::string_view method, std::string_view target,
                                  std::string_view content_type);
// Refuses a whole request of many lines: wrong method, or no permission to change items.
std::optional<Refusal> reject_if_bulk_not_allowed(BulkKind kind, const HttpRequest& request,
                                                  const ServerLimits& limits);
// Refuses if the answering model is not the one that the request named. If the node's one model has
// no name, its version is the name. If two versions share the users, both names are accepted.
// `version`: the one that answered.
std::optional<Refusal> reject_if_other_model(const std::string& asked, const AnsweringModel& known,
                                             const std::string& version);

// Routes one line like the body of a request.
HttpRoute route_line(BulkKind kind, const HttpRequest& request, const ServerLimits& limits,
                     const ModelText& text);

}  // namespace troupe::server
