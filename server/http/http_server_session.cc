// Serves one client connection, from its first byte to its last: reads requests, checks keys and
// limits, asks the router and writes the responses.
#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

#include "server/formats/entity_tags.h"
#include "server/http/http_server_bulk.h"
#include "server/http/http_server_state.h"

namespace troupe::server {

using std::chrono::microseconds;

namespace {

constexpr std::int64_t drain_us_max = 500'000;
constexpr std::size_t read_bytes = 16 << 10;  // at a time
constexpr std::size_t kept_bytes = 4 << 10;   // of an idle connection's buffer
constexpr unsigned retry_after_s = 1;         // default
constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";

HeadLimits head_limits(const HttpServerConfig& config) {
  return {config.header_bytes_max,
          {.body_bytes_max = config.body_bytes_max, .trailers_bytes_max = config.header_bytes_max}};
}

Refusal cut_short() {
  return {RefusalKind::malformed, "bad_http", "the connection ended before the request was complete",
          "request", "a complete request"};
}

Refusal needs_tls() {
  return {RefusalKind::malformed, "needs_tls", "this server requires TLS, and the request was not encrypted",
          "connection", "https://"};
}

Refusal full(const HttpServerConfig& config) {
  return {RefusalKind::unavailable, "too_many_connections", "every connection is being served", "connection",
          "at most " + std::to_string(config.connections_max) + " connections (http.connections_max), " +
              std::to_string(config.connections_per_address_max) +
              " from one address (http.connections_per_address_max)"};
}

}  // namespace

Refusal too_much_kept(const HttpServerConfig& config) {
  return {RefusalKind::unavailable, "overloaded", "the memory for requests is at its limit", "body",
          "at most " + std::to_string(config.memory_bytes_max) + " bytes of all requests (http.memory_max)"};
}

HttpServer::Session::Session(Server& s, Tcp::socket socket, ConnectionLimiter& among,
                             ConnectionLimiter::ConnectionId number)
    : server(s),
      places(among),
      connection_id(number),
      stream(std::move(socket), s.security),
      buffer(std::max<std::size_t>(s.config.header_bytes_max, read_bytes) + 2),
      refusal_timer(s.io) {
  server.sessions[connection_id] = this;
  server.metrics.record(Metric::http_connections, static_cast<double>(server.sessions.size()));
}

HttpServer::Session::~Session() {
  end_count();
  places.leave(connection_id);
  server.sessions.erase(connection_id);
  server.metrics.record(Metric::http_connections, static_cast<double>(server.sessions.size()));
  if (server.closing && server.sessions.empty()) server.pause.cancel();
}

void HttpServer::Session::begin() {
  if (!stream.over_tls()) return read();
  stream.expires_after(microseconds(server.config.timeout_us));
  stream.shake_hands([self = shared_from_this()](beast::error_code error) {
    if (!error) return self->read();
    if (!self->stream.spoke_plainly()) return self->stream.close();
    self->stream.stay_plain();
    self->refuse_and_close(needs_tls());
  });
}

void HttpServer::Session::read() {
  asked = {};
  probed = false;
  key.reset();
  seen = {};
  body.reset();
  release(out_head), release(out_body);
  head.emplace(head_limits(server.config));
  if (buffer.size() == 0 && buffer.capacity() > kept_bytes) buffer.shrink_to_fit();
  places.waits(connection_id);
  set_bytes(buffer.capacity());
  stream.expires_after(microseconds(server.config.timeout_us));  // for header and body together
  read_head();
}

void HttpServer::Session::read_head() {
  buffer.consume(head->take({static_cast<const char*>(buffer.data().data()), buffer.size()}));
  if (head->fault() || head->done()) return head_is_read();
  stream.read_some(buffer.prepare(beast::read_size(buffer, kept_bytes)),
                   [self = shared_from_this()](beast::error_code error, std::size_t bytes) {
                     self->buffer.commit(bytes);
                     if (!error) return self->read_head();
                     if (self->head->is_empty() && self->buffer.size() == 0) return self->close();
                     self->read_failed(error);
                   });
}

// From here on it counts as a request and has its own name.
void HttpServer::Session::begin_request() {
  began = std::chrono::steady_clock::now();
  seen = {.method = asked.method, .route = std::string(route_name(asked.target))};
  seen.began_us =
      std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  seen.trace = server.new_trace(asked.traceparent, seen.parent);
  seen.request_id = asked.request_id.empty() ? trace_id(seen.trace) : asked.request_id;
}

void HttpServer::Session::head_is_read() {
  asked = head->asked();
  begin_request();
  if (head->fault()) return refuse_and_close(Refusal(*head->fault()));
  const auto by_lines = bulk_kind(asked.method, asked.target, asked.content_type);
  body = head->body(by_lines.has_value());
  head.reset();
  if (&places == &server.health_reserve && !is_for_health()) return refuse_and_close(full(server.config));
  if (auto refusal = reject_if_of_other_site()) return refuse_and_close(*refusal);
  if (auto refusal = identify_caller()) return refuse_and_close(*refusal);
  if (by_lines) {
    const HttpRequest request{asked.method, asked.target, "", asked.tenant};
    if (auto fault = reject_if_bulk_not_allowed(*by_lines, request, limits_of(nullptr)))
      return refuse_and_close(*fault);
    bulk = std::make_unique<Bulk>();
    bulk->kind = *by_lines;
    bulk->keys = server.keys;
  }
  if (!asked.waits || body->done() || body->fault()) return read_body();
  stream.write(asio::buffer(go_on), {}, [self = shared_from_this()](beast::error_code error, std::size_t) {
    if (error) return self->close();
    self->read_body();
  });
}

// Load balancers ask for health by any name.
std::optional<Refusal> HttpServer::Session::reject_if_of_other_site() const {
  const ServedHosts& served = server.config.hosts;
  if (!asks_health(asked.target))
    if (auto refusal = reject_if_unknown_host(asked.browser.host, served)) return refusal;
  if (auto refusal = reject_if_foreign_origin(asked.method, asked.browser, served)) return refusal;
  return reject_if_form_body(asked.method, asked.content_type, asked.browser);
}

std::optional<Refusal> HttpServer::Session::identify_caller() {
  if (!server.keys || asks_health(asked.target)) return std::nullopt;
  auto found = server.keys->find(asked.authorization, asked.tenant);
  if (auto* refusal = std::get_if<Refusal>(&found)) return std::move(*refusal);
  auto& asker = std::get<ApiKeys::Caller>(found);
  if (auto refusal = reject_without_right(*asker.key, needed_right(asked.target))) return refusal;
  key = *asker.key;
  asked.tenant = std::move(asker.tenant);
  return std::nullopt;
}

// Without keys an operator keeps such paths from strangers; an admin sees all tenants.
std::optional<std::string> HttpServer::Session::visible_tenant() const {
  return key && !key->admin ? std::optional(asked.tenant) : std::nullopt;
}

std::variant<std::string, Refusal> HttpServer::Session::count() {
  if (asks_health(asked.target)) return "";
  return server.begin_count(key ? &*key : nullptr, asked.tenant);
}

std::optional<Refusal> HttpServer::Session::begin_count() {
  auto begun = count();
  if (auto* refusal = std::get_if<Refusal>(&begun)) return std::move(*refusal);
  counted.push_back(std::get<std::string>(std::move(begun)));
  return std::nullopt;
}

void HttpServer::Session::end_count() {
  for (const std::string& row : counted) server.rates.end(row);
  counted.clear();
}

// Returns true for questions without a body that cost the actors little: liveness, readiness and
// metrics.
bool HttpServer::Session::is_for_health() const {
  const HttpRoute routed = route({asked.method, asked.target, "", ""}, server.config.limits);
  const auto* question = std::get_if<ServerQuestion>(&routed);
  const bool shows = question && *question != ServerQuestion::live && *question != ServerQuestion::ready &&
                     *question != ServerQuestion::metrics;
  return question && !shows && body->done();
}

void HttpServer::Session::read_body() {
  if (bulk) return begin_bulk();
  const std::string_view bytes(static_cast<const char*>(buffer.data().data()), buffer.size());
  buffer.consume(body->take(bytes));
  if (body->fault()) return refuse_and_close(*body->fault());
  if (body->done()) return handle();
  if (!keep()) return;
  stream.read_some(buffer.prepare(beast::read_size(buffer, read_bytes)),
                   [self = shared_from_this()](beast::error_code error, std::size_t bytes) {
                     if (error) return self->read_failed(error);
                     self->buffer.commit(bytes);
                     self->read_body();
                   });
}

void HttpServer::Session::set_bytes(std::size_t bytes) {
  places.set_bytes(connection_id, bytes);
  if (&places == &server.places)
    server.metrics.record(Metric::http_kept_bytes, static_cast<double>(places.bytes()));
}

// Updates its number of kept bytes and closes the connections that must make way. Returns false if
// this connection is the one.
bool HttpServer::Session::fits() {
  set_bytes(buffer.capacity() + (body ? body->held_bytes() : 0) + out_body.capacity());
  while (const auto connection_to_close = places.connection_to_close_for_bytes()) {
    if (*connection_to_close == connection_id) return false;
    server.close_connection(*connection_to_close);
  }
  return true;
}

bool HttpServer::Session::keep() {
  if (fits()) return true;
  refuse_and_close(too_much_kept(server.config));
  return false;
}

void HttpServer::Session::read_failed(const beast::error_code& error) {
  if (error != asio::error::eof) return close();  // gone, silent or too slow
  refuse_and_close(cut_short());
}

const TenantPauses::StoredRefusal* HttpServer::Session::pause_refusal() {
  return is_ranking(asked.method, asked.target) ? server.pauses.find(asked.tenant, server.now_us()) : nullptr;
}

void HttpServer::Session::handle() {
  server.metrics.record(Metric::http_requests, 1);
  if (auto refusal = begin_count()) return write(Answer::of(*refusal), asked.keep_alive);
  if (const TenantPauses::StoredRefusal* reported = pause_refusal()) {
    server.metrics.record(Metric::tenant_refused, 1, asked.tenant);
    return write_later(Answer::of(*reported), server.pauses.refusal_delay_us(asked.tenant, server.now_us()));
  }
  seen.bytes_in = body->text().size();
  places.mark_serving(connection_id);
  stream.expires_never();  // the server's own timer bounds the wait
  if (server.reads_at_once(seen.bytes_in)) return ask(route_body());
  set_bytes(buffer.capacity() + body->held_bytes());
  const auto routed = std::make_shared<RoutedBody>();
  if (!server.read_beside([self = shared_from_this(), routed] { *routed = self->route_body(); },
                          [self = shared_from_this(), routed] { self->ask(std::move(*routed)); }))
    write(Answer::of(too_much_kept(server.config)), asked.keep_alive);
}

void HttpServer::Session::ask(RoutedBody routed_body) {
  if (server.closing) return stream.close();
  if (stream.peer() == ClientStream::Peer::gone) {
    server.metrics.record(Metric::http_abandoned, 1);
    return stream.close();
  }
  auto& [routed, model] = routed_body;
  body.reset();
  // the answer may take a while
  if (buffer.size() == 0 && buffer.capacity() > kept_bytes) buffer.shrink_to_fit();
  set_bytes(buffer.capacity());
  auto then = [self = shared_from_this()](Answer answer) {
    if (answer.status == 200 && self->reads() && has_already(self->asked.if_none_match, answer.etag))
      answer = {304, "", std::move(answer.type), "", 0, std::move(answer.etag)};
    self->write(std::move(answer), self->asked.keep_alive);
  };
  if (const auto* refusal = std::get_if<Refusal>(&routed)) return then(Answer::of(*refusal));
  if (const auto* question = std::get_if<ServerQuestion>(&routed))
    return server.answer_question(*question, asked.accept, visible_tenant(), then);
  if (const auto* question = std::get_if<ModelQuestion>(&routed))
    return server.answer_model_question(*question, model, then);
  if (model) seen.model = model->name;
  auto* shaped = std::get_if<ShapedRequest>(&routed);
  Message& message = shaped ? shaped->message : std::get<Message>(routed);
  set_client_request_id(message, asked.request_id);
  server.ask_router(std::move(message), seen.trace, asked.tenant, model, then,
                    shaped ? std::move(shaped->body) : decltype(ShapedRequest::body){});
  server.watch(server.last_id, connection_id);
}

// Routes the request. With several models, it chooses one and uses its limits and text.
RoutedBody HttpServer::Session::route_body() const {
  const HttpServerConfig& config = server.config;
  HttpRequest request{asked.method, asked.target,   body->text(),
                      asked.tenant, asked.if_match, asked.if_none_match};
  auto chosen = choose_model(request, config.models);
  if (auto* refusal = std::get_if<Refusal>(&chosen)) return {std::move(*refusal)};
  const ChosenModel& of = std::get<ChosenModel>(chosen);
  const ServerModel* const model = of.model;
  if (of.in_body) request.body = of.body;
  return {route(request, limits_of(model), model ? model->text : config.text), model};
}

// With keys, the key decides whether versions may be changed.
ServerLimits HttpServer::Session::limits_of(const ServerModel* model) const {
  ServerLimits limits = model ? model->limits : server.config.limits;
  if (key) limits.admin_routes = key->admin;
  return limits;
}

void HttpServer::Session::refuse_and_close(const Refusal& refusal) { write(Answer::of(refusal), false); }

// The connection counts as waiting: it may be closed for another before the refusal is sent.
void HttpServer::Session::write_later(Answer answer, std::int64_t us) {
  if (us == 0) return write(std::move(answer), asked.keep_alive);
  body.reset();
  places.waits(connection_id);
  set_bytes(buffer.capacity());
  stream.expires_never();
  awaits_refusal = true;
  refusal_timer.expires_after(microseconds(us));
  refusal_timer.async_wait(
      [self = shared_from_this(), answer = std::move(answer)](beast::error_code) mutable {
        self->awaits_refusal = false;
        if (self->stream.is_open()) self->write(std::move(answer), self->asked.keep_alive);
      });
}

void HttpServer::Session::note(const Answer& answer, std::size_t bytes) {
  seen.tenant = asked.tenant;  // the key's tenant, if there are keys
  seen.status = answer.status;
  seen.code = answer.code;
  seen.run = answer.run;
  seen.bytes_out = bytes;
  seen.took_us = std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - began).count();
  server.note(seen);
}

void HttpServer::Session::write(Answer answer, bool keep_alive) {
  if (writing) return void(held_answer.emplace(std::move(answer), keep_alive));
  end_count();
  head.reset();
  body.reset();
  release(out_head), release(out_body);
  places.waits(connection_id);
  std::size_t length = answer.body.size();
  if (asked.method != "HEAD") out_body = std::move(answer.body);
  if (!fits()) {  // the client gets a refusal that explains why
    answer = Answer::of(too_much_kept(server.config));
    length = answer.body.size();
    out_body = std::move(answer.body);
    keep_alive = false;
    fits();
  }
  if (answer.status >= 400) server.metrics.record(Metric::http_refused, 1, answer.code);
  if (seen.request_id.empty()) begin_request();  // it ended before its head did
  note(answer, length);
  http::response<http::empty_body> response;
  response.version(asked.version);
  response.result(answer.status);
  response.set(http::field::server, "troupe");
  response.set(http::field::content_type, answer.type);
  response.set("x-request-id", seen.request_id);
  response.set("traceparent", write_traceparent(seen.trace));
  if (!answer.security.empty()) {
    response.set("content-security-policy", answer.security);
    response.set("x-content-type-options", "nosniff");
    response.set("referrer-policy", "no-referrer");
    response.set(http::field::cache_control, "no-store");
  }
  if (!answer.allow.empty()) response.set(http::field::allow, answer.allow);
  if (!answer.etag.empty() && asked.method != "DELETE") response.set(http::field::etag, answer.etag);
  if (answer.status == 401) response.set(http::field::www_authenticate, "Bearer");
  if (answer.status == 503 || answer.status == 429)
    response.set(http::field::retry_after, std::to_string(std::max(answer.retry_after_s, retry_after_s)));
  keep_alive = keep_alive && !server.closing;
  response.keep_alive(keep_alive);
  if (answer.status != 304) response.content_length(length);
  stream.expires_after(microseconds(server.config.timeout_us));
  writing = true;
  std::ostringstream text;
  text << response.base();
  out_head = std::move(text).str();
  stream.write(asio::buffer(out_head), asio::buffer(out_body),
               [self = shared_from_this(), keep_alive](beast::error_code error, std::size_t) {
                 self->writing = false;
                 if (error || !keep_alive || self->server.closing) return self->close();
                 self->read();
               });
}

// Reads and drops what the client still sends for a moment. Closing with unread bytes would reset
// the connection, and the client would lose the response that explains why.
void HttpServer::Session::close() {
  if (server.closing || !stream.is_open()) return stream.close();
  stream.expires_after(microseconds(drain_us_max));
  stream.shut_down([self = shared_from_this()] {
    self->stream.send_no_more();
    self->drain();
  });
}

void HttpServer::Session::drain() {
  buffer.clear();
  stream.read_some_below(buffer.prepare(read_bytes),
                         [self = shared_from_this()](beast::error_code error, std::size_t) {
                           if (!error) self->drain();
                         });
}

void HttpServer::Session::end() {
  places.leave(connection_id);
  stream.close();
  refusal_timer.cancel();
}

}  // namespace troupe::server
