#include "router/door/front_door_routes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <concepts>
#include <optional>
#include <type_traits>
#include <vector>

#include "router/door/completions.h"
#include "router/door/request_body.h"
#include "runtime/wire/json.h"
#include "runtime/wire/json_text.h"

namespace troupe::router {

namespace {

constexpr std::string_view users_path = "/v1/users/", items_path = "/v1/items/";

Refusal not_found(std::string_view target) {
  return {404, "no_such_path", "nothing is served at " + std::string(target.substr(0, 100)), "path",
          "/v1/rank, /v1/score, /v1/generate, /v1/completions, /v1/users/{id}, /v1/items/{id}, /v1/models, "
          "/v1/models/reload, /v1/catalog/reload, "
          "/v1/cluster, /v1/slowest, /openapi.json, /, /v2/health/live, /v2/health/ready or /metrics"};
}

Refusal wrong_method(std::string_view method, std::string_view expected) {
  return {405, "wrong_method", "method is " + std::string(method.substr(0, 20)), "method",
          std::string(expected)};
}

// A client that takes us for a proxy sends the whole address (RFC 9112 §3.2.2): what stands behind the host
// is asked for.
std::string_view origin_form(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    const bool same = std::ranges::equal(target.substr(0, scheme.size()), scheme, {},
                                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (!same) continue;
    const std::size_t end = std::min(target.find_first_of("/?", scheme.size()), target.size());
    return end == scheme.size() ? target : end == target.size() ? "/" : target.substr(end);
  }
  return target;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

// The id that a path ends in. Bodies are UTF-8, so an id that is not could be stored but never asked for.
std::variant<std::string, Refusal> id_in_path(std::string_view text, const DoorLimits& limits) {
  std::optional<std::string> id = percent_decoded(text);
  if (!id || id->empty() || id->size() > limits.id_bytes_max || !is_utf8(*id) || text.find('/') != text.npos)
    return Refusal{400, "bad_id", "the id in the path is empty, too long or not percent-encoded UTF-8",
                   "path", "1.." + std::to_string(limits.id_bytes_max) + " bytes of UTF-8, percent-encoded"};
  return *std::move(id);
}

// The lists of each body. Of a message that is not named here, none is too long.
template <class M>
std::vector<ListLimit> list_limits(const DoorLimits& limits) {
  const ListLimit of_prompt{"tokens", limits.prompt_tokens_max, "the model's positions", "tokens"};
  if constexpr (std::same_as<M, RankRequest>)
    return {{"candidates", limits.candidates_max, "router.candidates_max", "candidates"}};
  if constexpr (std::same_as<M, GenerateRequest>)
    return {{"allow", limits.candidates_max, "router.candidates_max", "items"},
            {"deny", limits.candidates_max, "router.candidates_max", "items"}};
  if constexpr (std::same_as<M, ScoreRequest>) {
    const bool by_memory = limits.pass_tokens_max < limits.request_tokens_max;
    return {{"items", limits.score_items_max, "router.score_items_max", "items"},
            {"label_tokens", limits.score_labels_max, "router.score_labels_max", "labels"},
            {"query", of_prompt.max, of_prompt.knob, of_prompt.things},
            {"tokens", by_memory ? limits.pass_tokens_max : limits.request_tokens_max,
             by_memory ? "inference.memory_max" : "router.request_tokens_max", "tokens",
             by_memory ? "too_much_memory" : ""}};
  }
  if constexpr (std::same_as<M, PutUser>)
    return {{"history", limits.history_events_max, "router.history_events_max", "events"},
            {"tokens", limits.history_events_max, "router.history_events_max", "events"},
            {"features", 16, "as many as any model has", "features"},
            {"values", 16 * limits.history_events_max, "16 times router.history_events_max", "events"}};
  if constexpr (std::same_as<M, PutItem>) return {of_prompt};
  return {};
}

// Mistakes that are made again and again get an answer of their own.
template <class M>
Refusal explained(Refusal refusal) {
  if constexpr (requires(M m) { m.tenant; })
    if (refusal.code == "unknown_field" && refusal.where == "tenant")
      return {400, "tenant_in_body", "the body names a tenant", "tenant", "the header x-troupe-tenant"};
  if constexpr (std::is_same_v<M, PutItem>) {
    const bool of_tokens = refusal.where.starts_with("tokens[") || refusal.where == "identifier";
    if (refusal.code == "wrong_type" && of_tokens)
      refusal.expected +=
          "; names of tokens are read by troupe import alone, here they are numbers of vocab.json";
    if (refusal.code == "unknown_field" && refusal.where == "id")
      refusal.expected += "; the id stands in the path, /v1/items/{id}";
  }
  return refusal;
}

template <class M>
DoorRoute parsed(const DoorRequest& request, const DoorLimits& limits) {
  M message;
  if (std::optional<Refusal> refusal = from_json(request.body, message, list_limits<M>(limits)))
    return explained<M>(*refusal);
  if constexpr (requires { message.tenant; }) message.tenant = request.tenant;
  return Message{std::move(message)};
}

DoorRoute route_completion(const DoorRequest& request, const DoorLimits& limits,
                           const kernels::Vocabulary* words) {
  if (request.body.starts_with("\x1f\x8b"))
    return Refusal{415, "content_encoding", "the body is compressed (gzip)", "body", "JSON as plain text"};
  auto read = read_completion(request.body, words, limits.prompt_tokens_max);
  if (auto* refusal = std::get_if<Refusal>(&read)) return std::move(*refusal);
  auto& message = std::get<CompleteRequest>(read);
  message.tenant = request.tenant;
  return Message{std::move(message)};
}

// PUT and DELETE of one user or item. `put_id` and `delete_id` are the members that the path's id goes to.
template <class Put, class Delete>
DoorRoute route_entry(const DoorRequest& request, std::string_view path_id, const DoorLimits& limits,
                      std::string Put::*put_id, std::string Delete::*delete_id) {
  const auto decoded = id_in_path(path_id, limits);
  if (const auto* refusal = std::get_if<Refusal>(&decoded)) return *refusal;
  const std::string& id = std::get<std::string>(decoded);
  if (request.method == "DELETE") {
    Delete gone;
    gone.*delete_id = id;
    if constexpr (requires { gone.tenant; }) gone.tenant = request.tenant;
    return Message{std::move(gone)};
  }
  if (request.method != "PUT") return wrong_method(request.method, "PUT, DELETE");
  DoorRoute routed = parsed<Put>(request, limits);
  if (auto* message = std::get_if<Message>(&routed)) {
    std::string& in_body = std::get<Put>(*message).*put_id;
    if (!in_body.empty() && in_body != id)
      return Refusal{400, "id_mismatch", "the body names another id than the path", "body",
                     "the id in the path, or none"};
    in_body = id;
  }
  return routed;
}

// Either body may name the other version too: then both change in one step.
DoorRoute route_reload(const DoorRequest& request, const DoorLimits& limits, std::string Reload::*named,
                       const char* field) {
  if (!limits.admin_routes)
    return Refusal{403, "admin_routes_off", "this door changes no models and catalogs", "path",
                   "http.admin_routes: true"};
  if (request.method != "POST") return wrong_method(request.method, "POST");
  DoorRoute routed = parsed<Reload>(request, limits);
  const auto* message = std::get_if<Message>(&routed);
  if (message && (std::get<Reload>(*message).*named).empty())
    return Refusal{400, "empty_reload", "the body does not name what this path changes", field,
                   "the version to be served from now on"};
  return routed;
}

bool may_change_items(const DoorRequest& request, const DoorLimits& limits) {
  const bool changes = request.method == "PUT" || request.method == "DELETE";
  return !changes || limits.admin_routes || request.tenant == limits.catalog_tenant;
}

struct QuestionPath {
  std::string_view path;
  DoorQuestion question;
};
struct ComputedPath {
  std::string_view path, kind;
};
constexpr std::array computed_paths{ComputedPath{"/v1/rank", "rank"}, ComputedPath{"/v1/score", "score"},
                                    ComputedPath{"/v1/generate", "generate"}, ComputedPath{"/v1/completions", "complete"}};
const ComputedPath* find_computed(std::string_view path) {
  const auto at = std::ranges::find(computed_paths, path, &ComputedPath::path);
  return at == computed_paths.end() ? nullptr : &*at;
}
bool is_computed(std::string_view path) { return find_computed(path) != nullptr; }

constexpr std::array question_paths{QuestionPath{"/v2/health/live", DoorQuestion::live},
                                    QuestionPath{"/v2/health/ready", DoorQuestion::ready},
                                    QuestionPath{"/metrics", DoorQuestion::metrics},
                                    QuestionPath{"/v1/cluster", DoorQuestion::cluster},
                                    QuestionPath{"/v1/models", DoorQuestion::models},
                                    QuestionPath{"/", DoorQuestion::page},
                                    QuestionPath{"/v1/slowest", DoorQuestion::slowest},
                                    QuestionPath{"/openapi.json", DoorQuestion::openapi}};

}  // namespace

std::string_view route_name(std::string_view target) {
  const std::string_view whole = origin_form(target), path = whole.substr(0, whole.find('?'));
  if (path.starts_with(users_path)) return "/v1/users/{id}";
  if (path.starts_with(items_path)) return "/v1/items/{id}";
  for (const QuestionPath& q : question_paths)
    if (path == q.path) return q.path;
  for (const std::string_view reload : {"/v1/models/reload", "/v1/catalog/reload"})
    if (path == reload) return reload;
  const ComputedPath* computed = find_computed(path);
  return computed ? computed->path : "other";
}

bool is_ranking(std::string_view method, std::string_view target) {
  const std::string_view whole = origin_form(target), path = whole.substr(0, whole.find('?'));
  return method == "POST" && is_computed(path);
}

std::optional<std::string_view> asked_of_model(std::string_view method, std::string_view target) {
  const std::string_view whole = origin_form(target), path = whole.substr(0, whole.find('?'));
  const bool changes = method == "PUT" || method == "DELETE";
  if (changes && (path.starts_with(users_path) || path.starts_with(items_path))) return "";
  if (method != "POST") return std::nullopt;
  if (path == "/v1/models/reload" || path == "/v1/catalog/reload") return "";
  const ComputedPath* computed = find_computed(path);
  return computed ? std::optional(computed->kind) : std::nullopt;
}

DoorRoute route(const DoorRequest& request, const DoorLimits& limits, const kernels::Vocabulary* words) {
  const std::string_view target = origin_form(request.target);
  const std::string_view path = target.substr(0, target.find('?'));
  for (const QuestionPath& q : question_paths)
    if (path == q.path)
      return request.method == "GET" || request.method == "HEAD"
                 ? DoorRoute{q.question}
                 : DoorRoute{wrong_method(request.method, "GET, HEAD")};
  if (is_computed(path)) {
    if (request.method != "POST") return wrong_method(request.method, "POST");
    if (path == "/v1/score") return parsed<ScoreRequest>(request, limits);
    if (path == "/v1/generate") return parsed<GenerateRequest>(request, limits);
    if (path == "/v1/completions") return route_completion(request, limits, words);
    return parsed<RankRequest>(request, limits);
  }
  if (path == "/v1/models/reload") return route_reload(request, limits, &Reload::model_version, "model");
  if (path == "/v1/catalog/reload") return route_reload(request, limits, &Reload::catalog_version, "catalog");
  if (path.starts_with(users_path))
    return route_entry(request, path.substr(users_path.size()), limits, &PutUser::user, &DeleteUser::user);
  if (path.starts_with(items_path) && !may_change_items(request, limits))
    return Refusal{403, "not_your_catalog", "this tenant may not change items, which all tenants share",
                   "tenant", "the tenant of http.catalog_tenant, or http.admin_routes: true"};
  if (path.starts_with(items_path))
    return route_entry(request, path.substr(items_path.size()), limits, &PutItem::item, &DeleteItem::item);
  return not_found(path);
}

}  // namespace troupe::router
