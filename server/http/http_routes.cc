// Maps an HTTP method, path and body to a message for the router, to a question that the server
// answers itself, or to a refusal.
#include "server/http/http_routes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <concepts>
#include <optional>
#include <type_traits>
#include <vector>

#include "runtime/wire/json.h"
#include "runtime/wire/json_bounds.h"
#include "runtime/wire/json_text.h"
#include "server/formats/entity_tags.h"
#include "server/formats/event_list.h"
#include "server/formats/json_tree.h"
#include "server/formats/row_bodies.h"
#include "server/formats/score_forms.h"
#include "server/http/completions.h"
#include "server/http/dialect_routes.h"
#include "server/http/request_body.h"

namespace troupe::server {

namespace {

constexpr std::string_view users_path = "/v1/users/", items_path = "/v1/items/", events_end = "/events",
                           models_path = "/v2/models/";

Refusal not_found(std::string_view target) {
  return {RefusalKind::not_found, "no_such_path",
          "nothing is served at " + std::string(target.substr(0, 100)), "path",
          "/v1/rank, /v1/score, /score, /generative_scoring, /v1/generate, /v1/completions, /v1/rerank, "
          "/rerank, /tokenize, /v1/users/{id}, /v1/users/{id}/events, "
          "/v1/items/{id}, /v1/users, /v1/items, /v1/events, /v1/models, "
          "/v1/models/reload, /v1/catalog/reload, /v1/replay, "
          "/v1/cluster, /v1/slowest, /openapi.json, /, /v2, /v2/models/{model}, /v2/models/{model}/infer, "
          "/info, /health, /livez, /readyz, /v2/health/live, /v2/health/ready or /metrics"};
}

Refusal wrong_method(std::string_view method, std::string_view expected) {
  return {RefusalKind::wrong_method, "wrong_method", "method is " + std::string(method.substr(0, 20)),
          "method", std::string(expected)};
}

// Strips scheme and host from an absolute target, which a client sends if it takes the server for a
// proxy (RFC 9112 §3.2.2).
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

// Parses the id at the end of a path. Bodies are UTF-8, so an id that is not UTF-8 could be stored
// but never requested.
std::variant<std::string, Refusal> id_in_path(std::string_view text, const ServerLimits& limits) {
  std::optional<std::string> id = percent_decoded(text);
  if (!id || id->empty() || id->size() > limits.id_bytes_max || !is_utf8(*id) || text.find('/') != text.npos)
    return Refusal{RefusalKind::malformed, "bad_id",
                   "the id in the path is empty, too long or not percent-encoded UTF-8", "path",
                   "1.." + std::to_string(limits.id_bytes_max) + " bytes of UTF-8, percent-encoded"};
  return *std::move(id);
}

// The body may repeat the id of the path.
std::optional<Refusal> take_id(std::string& in_body, const std::string& in_path) {
  if (!in_body.empty() && in_body != in_path)
    return Refusal{RefusalKind::malformed, "id_mismatch", "the body names a different id than the path",
                   "body", "the id in the path, or none"};
  in_body = in_path;
  return std::nullopt;
}

}  // namespace

template <class M>
std::vector<ListLimit> list_limits(const ServerLimits& limits) {
  const ListLimit of_prompt{"tokens", limits.prompt_tokens_max, "the model's positions", "tokens"};
  if constexpr (requires(M request) { request.own_history; }) {
    std::vector<ListLimit> lists = history_limits(limits.history_events_max, "event_features");
    if constexpr (std::same_as<M, RankRequest>) {
      lists.push_back({"candidates", limits.candidates_max, "router.candidates_max", "candidates"});
    } else {
      lists.push_back({"allow", limits.candidates_max, "router.candidates_max", "items"});
      lists.push_back({"deny", limits.candidates_max, "router.candidates_max", "items"});
    }
    return lists;
  }
  if constexpr (std::same_as<M, ScoreRequest>) {
    const bool by_memory = limits.pass_tokens_max < limits.request_tokens_max;
    return {{"items", limits.score_items_max, "router.score_items_max", "items"},
            {"label_tokens", limits.score_labels_max, "router.score_labels_max", "labels"},
            {"query", of_prompt.max, of_prompt.setting, of_prompt.things},
            {"tokens", by_memory ? limits.pass_tokens_max : limits.request_tokens_max,
             by_memory ? "inference.memory_max" : "router.request_tokens_max", "tokens",
             by_memory ? "too_much_memory" : ""}};
  }
  return {};
}

template std::vector<ListLimit> list_limits<RankRequest>(const ServerLimits& limits);
template std::vector<ListLimit> list_limits<ScoreRequest>(const ServerLimits& limits);
template std::vector<ListLimit> list_limits<GenerateRequest>(const ServerLimits& limits);

RowLimits row_limits(const ServerLimits& limits) {
  return {limits.history_events_max, limits.prompt_tokens_max, limits.event_features};
}

namespace {

// Adds an explanation to a frequent mistake.
template <class M>
Refusal explained(Refusal refusal) {
  if constexpr (requires(M m) { m.tenant; })
    if (refusal.code == "unknown_field" && refusal.where == "tenant")
      return {RefusalKind::malformed, "tenant_in_body", "the body names a tenant", "tenant",
              "the header x-troupe-tenant"};
  return refusal;
}

template <class M>
HttpRoute parsed(const HttpRequest& request, const ServerLimits& limits, const ModelText& text = {}) {
  M message;
  std::optional<Refusal> refusal;
  if constexpr (std::same_as<M, PutUser>)
    refusal = read_user(request.body, message, row_limits(limits), text);
  else if constexpr (std::same_as<M, PutItem>)
    refusal = read_item(request.body, message, row_limits(limits), text);
  else if constexpr (std::same_as<M, RankRequest> || std::same_as<M, GenerateRequest>)
    refusal = read_request(request.body, message, list_limits<M>(limits), row_limits(limits), text);
  else
    refusal = from_json(request.body, message, list_limits<M>(limits));
  if (refusal) return explained<M>(*refusal);
  if constexpr (requires { message.tenant; }) message.tenant = request.tenant;
  return Message{std::move(message)};
}

HttpRoute route_completion(const HttpRequest& request, const ServerLimits& limits, const ModelText& text) {
  if (request.body.starts_with("\x1f\x8b"))
    return Refusal{RefusalKind::unsupported_media, "content_encoding", "the body is compressed (gzip)",
                   "body", "JSON as plain text"};
  auto read = read_completion(request.body, text, limits.prompt_tokens_max);
  if (auto* refusal = std::get_if<Refusal>(&read)) return std::move(*refusal);
  auto& message = std::get<CompleteRequest>(read);
  message.tenant = request.tenant;
  return Message{std::move(message)};
}

// Routes PUT, GET and DELETE of one user or item. The member pointers say where the path's id goes.
template <class Put, class Get, class Delete>
HttpRoute route_entry(const HttpRequest& request, std::string_view path_id, const ServerLimits& limits,
                      const ModelText& text, std::string Put::*put_id, std::string Get::*get_id,
                      std::string Delete::*delete_id) {
  const auto decoded = id_in_path(path_id, limits);
  if (const auto* refusal = std::get_if<Refusal>(&decoded)) return *refusal;
  const std::string& id = std::get<std::string>(decoded);
  if (request.method == "GET" || request.method == "HEAD") {
    Get wanted;
    wanted.*get_id = id;
    if constexpr (requires { wanted.tenant; }) wanted.tenant = request.tenant;
    return Message{std::move(wanted)};
  }
  const auto condition = condition_of(request.if_match, request.if_none_match);
  if (const auto* refusal = std::get_if<Refusal>(&condition)) return *refusal;
  if (request.method == "DELETE") {
    Delete gone;
    gone.*delete_id = id;
    gone.condition = std::get<Condition>(condition);
    if constexpr (requires { gone.tenant; }) gone.tenant = request.tenant;
    return Message{std::move(gone)};
  }
  if (request.method != "PUT") return wrong_method(request.method, "PUT, GET, HEAD, DELETE");
  HttpRoute routed = parsed<Put>(request, limits, text);
  if (auto* message = std::get_if<Message>(&routed)) {
    auto& put = std::get<Put>(*message);
    if (auto fault = take_id(put.*put_id, id)) return *fault;
    put.condition = std::get<Condition>(condition);
  }
  return routed;
}

HttpRoute route_events(const HttpRequest& request, std::string_view path_id, const ServerLimits& limits,
                       const ModelText& text) {
  const auto decoded = id_in_path(path_id, limits);
  if (const auto* refusal = std::get_if<Refusal>(&decoded)) return *refusal;
  if (request.method != "POST") return wrong_method(request.method, "POST");
  const auto condition = condition_of(request.if_match, request.if_none_match);
  if (const auto* refusal = std::get_if<Refusal>(&condition)) return *refusal;
  auto read = read_events(request.body, limits.history_events_max, text);
  if (auto* refusal = std::get_if<Refusal>(&read)) return std::move(*refusal);
  auto& events = std::get<AppendEvents>(read);
  if (auto fault = take_id(events.user, std::get<std::string>(decoded))) return *fault;
  events.tenant = request.tenant;
  events.condition = std::get<Condition>(condition);
  return Message{std::move(events)};
}

HttpRoute route_user(const HttpRequest& request, std::string_view rest, const ServerLimits& limits,
                     const ModelText& text) {
  if (rest.ends_with(events_end))
    return route_events(request, rest.substr(0, rest.size() - events_end.size()), limits, text);
  return route_entry(request, rest, limits, text, &PutUser::user, &GetUser::user, &DeleteUser::user);
}

HttpRoute route_score(std::string_view path, const HttpRequest& request, const ServerLimits& limits,
                      const ModelText& text) {
  const ScoreForm form = score_form(path, request.body);
  return form == ScoreForm::ours ? parsed<ScoreRequest>(request, limits)
                                 : route_foreign_score(form, request, limits, text);
}

// Matches /v2/models/{model}[/versions/{version}][/ready|/infer]
struct ModelPath {
  std::string model, what;
};
std::optional<ModelPath> model_path(std::string_view path) {
  if (!path.starts_with(models_path)) return std::nullopt;
  path.remove_prefix(models_path.size());
  const std::size_t end = std::min(path.find('/'), path.size());
  const auto model = percent_decoded(path.substr(0, end));
  if (!model || model->empty() || !is_utf8(*model)) return std::nullopt;
  path.remove_prefix(end);
  constexpr std::string_view versions = "/versions/";
  if (path.starts_with(versions)) path.remove_prefix(std::min(path.find('/', versions.size()), path.size()));
  return ModelPath{*model, std::string(path)};
}

HttpRoute route_model(const HttpRequest& request, ModelPath path, const ServerLimits& limits) {
  const bool infers = path.what == "/infer";
  if (!infers && !path.what.empty() && path.what != "/ready") return not_found(request.target);
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (infers && request.method != "POST") return wrong_method(request.method, "POST");
  if (infers) return route_infer(request, std::move(path.model), limits);
  if (!reads) return wrong_method(request.method, "GET, HEAD");
  return ModelQuestion{std::move(path.model), path.what == "/ready"};
}

// Either body may also name the other version; then both change in one step.
HttpRoute route_reload(const HttpRequest& request, const ServerLimits& limits, std::string Reload::*named,
                       const char* field) {
  if (!limits.admin_routes)
    return Refusal{RefusalKind::forbidden, "admin_routes_off",
                   "this server does not change models and catalogs", "path", "http.admin_routes: true"};
  if (request.method != "POST") return wrong_method(request.method, "POST");
  HttpRoute routed = parsed<Reload>(request, limits);
  const auto* message = std::get_if<Message>(&routed);
  if (message && (std::get<Reload>(*message).*named).empty())
    return Refusal{RefusalKind::malformed, "empty_reload", "the body does not name what this path changes",
                   field, "the version to serve from now on"};
  return routed;
}

// A record belongs to the tenant of its request, like its user's profile.
HttpRoute route_replay(const HttpRequest& request, const ServerLimits& limits) {
  if (request.method != "POST") return wrong_method(request.method, "POST");
  HttpRoute routed = parsed<ReplayRequest>(request, limits);
  auto* message = std::get_if<Message>(&routed);
  if (!message) return routed;
  return ShapedRequest{
      std::move(*message),
      [](const Message& reply, const AnsweringModel&, std::int64_t) -> std::variant<std::string, Refusal> {
        const auto* replayed = std::get_if<ReplayReply>(&reply);
        if (!replayed) return other_answer();
        return to_json(*replayed);
      }};
}

bool may_change_items(const HttpRequest& request, const ServerLimits& limits) {
  const bool changes = request.method != "GET" && request.method != "HEAD" && request.method != "OPTIONS";
  return !changes || limits.admin_routes || request.tenant == limits.catalog_tenant;
}

struct QuestionPath {
  std::string_view path;
  ServerQuestion question;
  // KeyRight::none only for a text that is the same everywhere; KeyRight::ask only if the answer shows no
  // other tenant's names or load
  KeyRight right;
};
struct ComputedPath {
  std::string_view path, kind;
};
constexpr std::array computed_paths{
    ComputedPath{"/v1/rank", "rank"},         ComputedPath{"/v1/score", "score"},
    ComputedPath{"/score", "score"},          ComputedPath{"/generative_scoring", "score"},
    ComputedPath{"/v1/generate", "generate"}, ComputedPath{"/v1/completions", "complete"},
    ComputedPath{"/v1/rerank", "rank"},       ComputedPath{"/v2/rerank", "rank"},
    ComputedPath{"/rerank", "rank"},          ComputedPath{"/v1/embeddings", "embed"}};
constexpr std::array<std::string_view, 2> tokenize_paths{"/tokenize", "/v1/tokenize"};
bool is_tokenize(std::string_view path) { return std::ranges::count(tokenize_paths, path) > 0; }

const ComputedPath* find_computed(std::string_view path) {
  const auto at = std::ranges::find(computed_paths, path, &ComputedPath::path);
  return at == computed_paths.end() ? nullptr : &*at;
}
bool is_computed(std::string_view path) { return find_computed(path) != nullptr; }

struct BulkPath {
  std::string_view path;
  BulkKind kind;
};
constexpr std::array bulk_paths{BulkPath{"/v1/users", BulkKind::users},
                                BulkPath{"/v1/items", BulkKind::items},
                                BulkPath{"/v1/events", BulkKind::events}};
const BulkPath* find_bulk(std::string_view path) {
  const auto at = std::ranges::find(bulk_paths, path, &BulkPath::path);
  return at == bulk_paths.end() ? nullptr : &*at;
}

Refusal not_your_catalog() {
  return {RefusalKind::forbidden, "not_your_catalog",
          "this tenant may not change items, which all tenants share", "tenant",
          "the tenant of http.catalog_tenant, or http.admin_routes: true"};
}

// Parses {"user":"ana","delete":true}, or with "id"; nullopt for any other line. Throws Refusal for a
// malformed one.
template <class Delete>
std::optional<Delete> deletion_in(std::string_view line, std::string Delete::*id, const char* member) {
  if (line.find("\"delete\"") == line.npos ||
      !exceeded_bound(line, {.values_max = 16, .depth_max = 2}).empty())
    return std::nullopt;
  const JsonTree object = parse_tree(line, {.values_max = 16, .depth_max = 2}, member);
  if (!object.is_object() || object.size() != 2 || object.value("delete", JsonTree()) != true)
    return std::nullopt;
  const auto named = object.contains("id") ? object.find("id") : object.find(member);
  if (named == object.end() || !named->is_string()) return std::nullopt;
  Delete gone;
  gone.*id = tree_text(*named, member);
  return gone;
}

template <class Put, class Delete>
HttpRoute route_change(const HttpRequest& request, const ServerLimits& limits, const ModelText& text,
                       std::string Delete::*delete_id, const char* member) {
  try {
    auto gone = deletion_in(request.body, delete_id, member);
    if (!gone) return parsed<Put>(request, limits, text);
    if constexpr (requires { gone->tenant; }) gone->tenant = request.tenant;
    return Message{*std::move(gone)};
  } catch (const Refusal& refusal) {
    return refusal;
  }
}

// Orchestrators restart what is not live, so the paths of their liveness probes never ask for more.
// /health and /ping are of inference servers, whose callers wait until a model can answer.
constexpr std::array question_paths{
    QuestionPath{"/v2/health/live", ServerQuestion::live, KeyRight::none},
    QuestionPath{"/v2/health/ready", ServerQuestion::ready, KeyRight::none},
    QuestionPath{"/livez", ServerQuestion::live, KeyRight::none},
    QuestionPath{"/healthz", ServerQuestion::live, KeyRight::none},
    QuestionPath{"/readyz", ServerQuestion::ready, KeyRight::none},
    QuestionPath{"/health", ServerQuestion::ready, KeyRight::none},
    QuestionPath{"/ping", ServerQuestion::ready, KeyRight::none},
    QuestionPath{"/info", ServerQuestion::info, KeyRight::ask},
    QuestionPath{"/metrics", ServerQuestion::metrics, KeyRight::metrics},
    QuestionPath{"/v1/cluster", ServerQuestion::cluster, KeyRight::admin},
    QuestionPath{"/v1/models", ServerQuestion::models, KeyRight::ask},
    QuestionPath{"/v2", ServerQuestion::server, KeyRight::ask},
    QuestionPath{"/", ServerQuestion::page, KeyRight::none},
    QuestionPath{"/v1/slowest", ServerQuestion::slowest, KeyRight::ask},  // of the key's tenant
    QuestionPath{"/openapi.json", ServerQuestion::openapi, KeyRight::ask}};

// haproxy's default check is OPTIONS /. It needs no key, and its answer is that of readiness.
bool asks_for_options(std::string_view method, std::string_view path) {
  return method == "OPTIONS" && (path == "/" || path == "*");
}

}  // namespace

std::optional<Refusal> reject_if_other_model(const std::string& asked, const AnsweringModel& known,
                                             const std::string& version) {
  std::vector<std::string> names{known.name};
  if (known.name.empty()) {
    names = known.versions;
    if (std::ranges::count(names, version) == 0) names.push_back(version);
    names.push_back("troupe");
    names.insert(names.begin(), known.aliases.begin(), known.aliases.end());
  }
  if (asked.empty() || std::ranges::count(names, asked) > 0) return std::nullopt;
  std::string expected;
  for (const std::string& name : names) expected += name + ", ";
  return Refusal{RefusalKind::not_found, "unknown_model", "the requested model is not served", "model",
                 expected + "or none"};
}

bool asks_health(std::string_view method, std::string_view target) {
  const std::string_view whole = origin_form(target), path = whole.substr(0, whole.find('?'));
  if (path.starts_with("/v2/health/") || asks_for_options(method, path)) return true;
  const auto question = std::ranges::find(question_paths, path, &QuestionPath::path);
  return question != question_paths.end() &&
         (question->question == ServerQuestion::live || question->question == ServerQuestion::ready);
}

bool is_open(std::string_view method, std::string_view target) {
  return asks_health(method, target) || needed_right(target) == KeyRight::none;
}

KeyRight needed_right(std::string_view target) {
  const std::string_view whole = origin_form(target), path = whole.substr(0, whole.find('?'));
  const auto question = std::ranges::find(question_paths, path, &QuestionPath::path);
  return question == question_paths.end() ? KeyRight::ask : question->right;
}

std::string_view route_name(std::string_view target) {
  const std::string_view whole = origin_form(target), path = whole.substr(0, whole.find('?'));
  if (path.starts_with(users_path))
    return path.ends_with(events_end) ? "/v1/users/{id}/events" : "/v1/users/{id}";
  if (path.starts_with(items_path)) return "/v1/items/{id}";
  for (const QuestionPath& q : question_paths)
    if (path == q.path) return q.path;
  for (const std::string_view command : {"/v1/models/reload", "/v1/catalog/reload", "/v1/replay"})
    if (path == command) return command;
  if (const BulkPath* bulk = find_bulk(path)) return bulk->path;
  if (path.starts_with(models_path))
    return path.ends_with("/ready")   ? "/v2/models/{model}/ready"
           : path.ends_with("/infer") ? "/v2/models/{model}/infer"
                                      : "/v2/models/{model}";
  for (const std::string_view tokenize : tokenize_paths)
    if (path == tokenize) return tokenize;
  const ComputedPath* computed = find_computed(path);
  return computed ? computed->path : "other";
}

bool is_ranking(std::string_view method, std::string_view target) {
  const std::string_view whole = origin_form(target), path = whole.substr(0, whole.find('?'));
  return method == "POST" && (is_computed(path) || path.starts_with(models_path));
}

std::optional<std::string> model_in_path(std::string_view target) {
  const std::string_view whole = origin_form(target);
  const auto named = model_path(whole.substr(0, whole.find('?')));
  return named ? std::optional(named->model) : std::nullopt;
}

std::optional<std::string_view> asked_of_model(std::string_view method, std::string_view target) {
  const std::string_view whole = origin_form(target), path = whole.substr(0, whole.find('?'));
  const bool of_entry = path.starts_with(users_path) || path.starts_with(items_path);
  if (of_entry && (method != "POST" || path.ends_with(events_end))) return "";
  if (path.starts_with(models_path) || find_bulk(path)) return "";
  if (method != "POST") return std::nullopt;
  if (is_tokenize(path)) return "tokenize";
  if (path == "/v1/models/reload" || path == "/v1/catalog/reload" || path == "/v1/replay") return "";
  const ComputedPath* computed = find_computed(path);
  return computed ? std::optional(computed->kind) : std::nullopt;
}

std::optional<BulkKind> bulk_kind(std::string_view method, std::string_view target,
                                  std::string_view content_type) {
  const std::string_view whole = origin_form(target), path = whole.substr(0, whole.find('?'));
  if (method != "POST") return std::nullopt;
  if (const BulkPath* bulk = find_bulk(path)) return bulk->kind;
  const bool by_lines = content_type.substr(0, content_type.find(';')) == "application/x-ndjson";
  return path == "/v1/rank" && by_lines ? std::optional(BulkKind::rankings) : std::nullopt;
}

std::optional<Refusal> reject_if_bulk_not_allowed(BulkKind kind, const HttpRequest& request,
                                                  const ServerLimits& limits) {
  if (kind == BulkKind::items && !may_change_items(request, limits)) return not_your_catalog();
  return std::nullopt;
}

HttpRoute route_line(BulkKind kind, const HttpRequest& request, const ServerLimits& limits,
                     const ModelText& text) {
  if (kind == BulkKind::users) return route_change<PutUser>(request, limits, text, &DeleteUser::user, "user");
  if (kind == BulkKind::items) return route_change<PutItem>(request, limits, text, &DeleteItem::item, "item");
  if (kind == BulkKind::rankings) return parsed<RankRequest>(request, limits, text);
  auto read = read_events(request.body, limits.history_events_max, text);
  if (auto* refusal = std::get_if<Refusal>(&read)) return std::move(*refusal);
  auto& events = std::get<AppendEvents>(read);
  events.tenant = request.tenant;
  return Message{std::move(events)};
}

namespace {

HttpRoute route_method(const HttpRequest& request, const ServerLimits& limits, const ModelText& text) {
  const std::string_view target = origin_form(request.target);
  const std::string_view path = target.substr(0, target.find('?'));
  for (const QuestionPath& q : question_paths)
    if (path == q.path)
      return request.method == "GET" || request.method == "HEAD"
                 ? HttpRoute{q.question}
                 : HttpRoute{wrong_method(request.method, "GET, HEAD")};
  if (is_computed(path)) {
    if (request.method != "POST") return wrong_method(request.method, "POST");
    if (path.ends_with("/score") || path == "/generative_scoring")
      return route_score(path, request, limits, text);
    if (path == "/v1/generate") return parsed<GenerateRequest>(request, limits, text);
    if (path == "/v1/completions") return route_completion(request, limits, text);
    if (path.ends_with("/rerank")) return route_rerank(request, limits, text);
    if (path == "/v1/embeddings") return route_embeddings(request, limits, text);
    return parsed<RankRequest>(request, limits, text);
  }
  if (is_tokenize(path))
    return request.method == "POST" ? route_tokenize(request, limits, text)
                                    : wrong_method(request.method, "POST");
  if (path == "/v2/") return ServerQuestion::server;
  if (path == "/v1/models/reload") return route_reload(request, limits, &Reload::model_version, "model");
  if (path == "/v1/catalog/reload") return route_reload(request, limits, &Reload::catalog_version, "catalog");
  if (path == "/v1/replay") return route_replay(request, limits);
  if (path.starts_with(users_path)) return route_user(request, path.substr(users_path.size()), limits, text);
  if (path.starts_with(items_path) && !may_change_items(request, limits)) return not_your_catalog();
  if (find_bulk(path)) return wrong_method(request.method, "POST");
  if (auto named = model_path(path)) return route_model(request, *std::move(named), limits);
  if (path.starts_with(items_path))
    return route_entry(request, path.substr(items_path.size()), limits, text, &PutItem::item, &GetItem::item,
                       &DeleteItem::item);
  return not_found(path);
}

}  // namespace

// OPTIONS is answered with the methods of the path, which a request of another method is refused
// with. There are no CORS fields, so a browser keeps pages of other sites away.
HttpRoute route(const HttpRequest& request, const ServerLimits& limits, const ModelText& text) {
  const std::string_view target = origin_form(request.target);
  if (asks_for_options(request.method, target.substr(0, target.find('?')))) return ServerQuestion::ready;
  HttpRoute routed = route_method(request, limits, text);
  const auto* refusal = std::get_if<Refusal>(&routed);
  if (request.method != "OPTIONS" || !refusal || refusal->kind != RefusalKind::wrong_method) return routed;
  return KnownAnswer{.body = "{\"allow\":\"" + refusal->expected + ", OPTIONS\"}",
                     .allow = refusal->expected + ", OPTIONS"};
}

}  // namespace troupe::server
