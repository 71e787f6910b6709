// Checks, counts, routes, asks and logs one request, whatever protocol carries it.
#include <algorithm>
#include <chrono>
#include <utility>

#include "server/formats/entity_tags.h"
#include "server/http/http_server_state.h"

namespace troupe::server {

using std::chrono::microseconds;

namespace {

constexpr unsigned retry_after_s = 1;  // default

}  // namespace

Refusal only_rpc() {
  return {RefusalKind::not_found, "only_grpc", "this address serves only gRPC", "request",
          "gRPC (content-type: application/grpc), or the address of http.address and http.port"};
}

Refusal full(const HttpServerConfig& config) {
  return {RefusalKind::unavailable, "too_many_connections", "every connection is being served", "connection",
          "at most " + std::to_string(config.connections_max) + " connections (http.connections_max), " +
              std::to_string(config.connections_per_address_max) +
              " from one address (http.connections_per_address_max)"};
}

Refusal too_much_kept(const HttpServerConfig& config) {
  return {RefusalKind::unavailable, "overloaded", "the memory for requests is at its limit", "body",
          "at most " + std::to_string(config.memory_bytes_max) + " bytes of all requests (http.memory_max)"};
}

void set_client_request_id(Message& message, std::string_view id) {
  std::visit(
      [&](auto& m) {
        if constexpr (requires { m.client_request_id; }) m.client_request_id = id;
      },
      message);
}

// From here on it counts as a request and has its own name.
void HttpServer::Exchange::begin_request() {
  began = std::chrono::steady_clock::now();
  seen = {.method = asked.method, .route = std::string(route_name(asked.target))};
  seen.began_us =
      std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  seen.trace = server.new_trace(asked.traceparent, seen.parent);
  seen.request_id = asked.request_id.empty() ? trace_id(seen.trace) : asked.request_id;
}

// Load balancers ask for health by any name.
std::optional<Refusal> HttpServer::Exchange::reject_if_of_other_site(const ServedHosts& served,
                                                                     bool for_health) const {
  if (!for_health)
    if (auto refusal = reject_if_unknown_host(asked.browser.host, served)) return refusal;
  if (auto refusal = reject_if_foreign_origin(asked.method, asked.browser, served)) return refusal;
  return reject_if_form_body(asked.method, asked.content_type, asked.browser);
}

// Without a key, a tenant's name proves nothing: the request counts for no tenant.
std::optional<Refusal> HttpServer::Exchange::identify_caller() {
  if (!server.keys) return std::nullopt;
  if (is_open(asked.method, asked.target)) return asked.tenant.clear(), std::nullopt;
  auto found = server.keys->find(asked.authorization, asked.tenant);
  if (auto* refusal = std::get_if<Refusal>(&found)) return std::move(*refusal);
  auto& asker = std::get<ApiKeys::Caller>(found);
  if (auto refusal = reject_without_right(*asker.key, needed_right(asked.target))) return refusal;
  key = *asker.key;
  asked.tenant = std::move(asker.tenant);
  return std::nullopt;
}

// Without keys an operator keeps such paths from strangers; an admin sees all tenants.
std::optional<std::string> HttpServer::Exchange::visible_tenant() const {
  return key && !key->admin ? std::optional(asked.tenant) : std::nullopt;
}

std::variant<std::string, Refusal> HttpServer::Exchange::count() {
  if (asks_health(asked.method, asked.target) || (server.keys && is_open(asked.method, asked.target)))
    return "";
  return server.begin_count(key ? &*key : nullptr, asked.tenant);
}

std::optional<Refusal> HttpServer::Exchange::begin_count() {
  auto begun = count();
  if (auto* refusal = std::get_if<Refusal>(&begun)) return std::move(*refusal);
  counted.push_back(std::get<std::string>(std::move(begun)));
  return std::nullopt;
}

void HttpServer::Exchange::end_count() {
  for (const std::string& row : counted) server.rates.end(row);
  counted.clear();
}

const TenantPauses::StoredRefusal* HttpServer::Exchange::pause_refusal() {
  return is_ranking(asked.method, asked.target) ? server.pauses.find(asked.tenant, server.now_us()) : nullptr;
}

// Routes the request. With several models, it chooses one and uses its limits and text.
RoutedBody HttpServer::Exchange::route_body(std::string_view body) const {
  const HttpServerConfig& config = server.config;
  HttpRequest request{asked.method, asked.target, body, asked.tenant, asked.if_match, asked.if_none_match};
  auto chosen = config.models.empty()
                    ? std::variant<ChosenModel, Refusal>(without_served_name(request, config.model_names))
                    : choose_model(request, config.models);
  if (auto* refusal = std::get_if<Refusal>(&chosen)) return {std::move(*refusal)};
  const ChosenModel& of = std::get<ChosenModel>(chosen);
  const ServerModel* const model = of.model;
  if (of.in_body) request.body = of.body;
  return {route(request, limits_of(model), model ? model->text : config.text), model};
}

// With keys, the key decides whether versions may be changed.
ServerLimits HttpServer::Exchange::limits_of(const ServerModel* model) const {
  ServerLimits limits = model ? model->limits : server.config.limits;
  if (key) limits.admin_routes = key->admin;
  return limits;
}

void HttpServer::Exchange::note(const Answer& answer, std::size_t bytes) {
  seen.tenant = asked.tenant;  // the key's tenant, if there are keys
  seen.status = answer.status;
  seen.code = answer.code;
  seen.run = answer.run;
  seen.bytes_out = bytes;
  seen.took_us = std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - began).count();
  server.note(seen);
}

// Returns true for questions that cost the actors little: liveness, readiness and metrics.
bool HttpServer::Exchange::asks_for_health() const {
  const HttpRoute routed = route({asked.method, asked.target, "", ""}, server.config.limits);
  const auto* question = std::get_if<ServerQuestion>(&routed);
  return question && (*question == ServerQuestion::live || *question == ServerQuestion::ready ||
                      *question == ServerQuestion::metrics);
}

// Asks the actors; answers itself what needs none of them.
RequestId HttpServer::Exchange::dispatch(RoutedBody routed_body, Server::OnAnswer then) {
  auto& [routed, model] = routed_body;
  if (const auto* refusal = std::get_if<Refusal>(&routed)) return then(Answer::of(*refusal)), 0;
  if (const auto* question = std::get_if<ServerQuestion>(&routed))
    return server.answer_question(*question, asked.accept, visible_tenant(), std::move(then)), 0;
  if (auto* known = std::get_if<KnownAnswer>(&routed))
    return then({.body = std::move(known->body), .allow = std::move(known->allow)}), 0;
  if (const auto* question = std::get_if<ModelQuestion>(&routed))
    return server.answer_model_question(*question, model, std::move(then)), 0;
  if (model) seen.model = model->name;
  auto* shaped = std::get_if<ShapedRequest>(&routed);
  Message& message = shaped ? shaped->message : std::get<Message>(routed);
  set_client_request_id(message, asked.request_id);
  return server.ask_router(std::move(message), seen.trace, asked.tenant, model, std::move(then),
                           shaped ? std::move(shaped->body) : decltype(ShapedRequest::body){},
                           shaped ? std::move(shaped->names) : OwnNames{});
}

RequestId HttpServer::Exchange::ask(ServerCall call, Server::OnAnswer then) {
  if (call.fault) return then(Answer::of(*call.fault)), 0;
  auto chosen = choose_model(call.model, call.kind, server.config.models);
  if (auto* refusal = std::get_if<Refusal>(&chosen)) return then(Answer::of(*refusal)), 0;
  std::visit(
      [&](auto& message) {
        if constexpr (requires { message.tenant; }) message.tenant = asked.tenant;
      },
      call.asked.message);
  return dispatch({std::move(call.asked), std::get<const ServerModel*>(chosen)}, std::move(then));
}

RequestId HttpServer::Exchange::ask(RpcQuestion question, Server::OnAnswer then) {
  if (const auto* of_server = std::get_if<ServerQuestion>(&question))
    return dispatch({*of_server}, std::move(then));
  auto& of_model = std::get<ModelQuestion>(question);
  auto chosen = choose_model(of_model.model, "", server.config.models);
  if (auto* refusal = std::get_if<Refusal>(&chosen)) return then(Answer::of(*refusal)), 0;
  return dispatch({std::move(of_model), std::get<const ServerModel*>(chosen)}, std::move(then));
}

HttpServer::Answer HttpServer::Exchange::unless_known(Answer answer) const {
  if (answer.status == 200 && reads() && has_already(asked.if_none_match, answer.etag))
    return {304, "", std::move(answer.type), "", 0, std::move(answer.etag)};
  return answer;
}

std::vector<std::pair<std::string, std::string>> HttpServer::Exchange::fields_of(const Answer& answer) const {
  std::vector<std::pair<std::string, std::string>> fields{{"Content-Type", answer.type},
                                                          {"x-request-id", seen.request_id},
                                                          {"traceparent", write_traceparent(seen.trace)}};
  if (!answer.security.empty())
    fields.insert(fields.end(), {{"content-security-policy", answer.security},
                                 {"x-content-type-options", "nosniff"},
                                 {"referrer-policy", "no-referrer"},
                                 {"Cache-Control", "no-store"}});
  if (!answer.allow.empty()) fields.emplace_back("Allow", answer.allow);
  if (!answer.etag.empty() && asked.method != "DELETE") fields.emplace_back("ETag", answer.etag);
  if (answer.status == 401) fields.emplace_back("WWW-Authenticate", "Bearer");
  if (answer.status == 503 || answer.status == 429)
    fields.emplace_back("Retry-After", std::to_string(std::max(answer.retry_after_s, retry_after_s)));
  return fields;
}

}  // namespace troupe::server
