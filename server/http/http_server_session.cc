// Serves one client connection, from its first byte to its last: reads requests, checks keys and
// limits, asks the router and writes the responses.
#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

#include "server/formats/entity_tags.h"
#include "server/http/http_server_bulk.h"
#include "server/http/http_server_http2.h"

namespace troupe::server {

using std::chrono::microseconds;

namespace {

constexpr std::int64_t drain_us_max = 500'000;
constexpr std::size_t read_bytes = 16 << 10;  // at a time
constexpr std::size_t kept_bytes = 4 << 10;   // of an idle connection's buffer
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

}  // namespace

HttpServer::Session::Session(Server& s, Tcp::socket socket, ConnectionLimiter& among,
                             ConnectionLimiter::ConnectionId number)
    : Exchange(s),
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
    if (!error && self->stream.chose_http2()) return self->begin_http2("");
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

// Over TLS, HTTP/2 is chosen in the handshake; only plain connections begin with its preface.
bool HttpServer::Session::takes_http2() {
  const std::string_view bytes(static_cast<const char*>(buffer.data().data()), buffer.size());
  if (!is_first || stream.over_tls() || !bytes.starts_with(http2_preface)) return false;
  const std::string begun(bytes);
  buffer.clear();
  begin_http2(begun);
  return true;
}

void HttpServer::Session::read_head() {
  if (takes_http2()) return;
  const std::string_view bytes(static_cast<const char*>(buffer.data().data()), buffer.size());
  const bool may_be_http2 =
      is_first && !stream.over_tls() && !bytes.empty() && http2_preface.starts_with(bytes);
  if (!may_be_http2) buffer.consume(head->take(bytes));
  if (head->fault() || head->done()) return head_is_read();
  stream.read_some(buffer.prepare(beast::read_size(buffer, kept_bytes)),
                   [self = shared_from_this()](beast::error_code error, std::size_t bytes) {
                     self->buffer.commit(bytes);
                     if (!error) return self->read_head();
                     if (self->head->is_empty() && self->buffer.size() == 0) return self->close();
                     self->read_failed(error);
                   });
}

void HttpServer::Session::head_is_read() {
  is_first = false;
  asked = head->asked();
  begin_request();
  if (head->fault()) return refuse_and_close(Refusal(*head->fault()));
  if (rpc_only) return refuse_and_close(only_rpc());
  const auto by_lines = bulk_kind(asked.method, asked.target, asked.content_type);
  body = head->body(by_lines.has_value());
  head.reset();
  if (&places == &server.health_reserve && !is_for_health()) return refuse_and_close(full(server.config));
  if (auto refusal = reject_if_of_other_site(server.config.hosts, asks_health(asked.method, asked.target)))
    return refuse_and_close(*refusal);
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

bool HttpServer::Session::is_for_health() const { return asks_for_health() && body->done(); }

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
  if (server.reads_at_once(seen.bytes_in)) return ask(route_body(body->text()));
  set_bytes(buffer.capacity() + body->held_bytes());
  const auto routed = std::make_shared<RoutedBody>();
  if (!server.read_beside(
          [self = shared_from_this(), routed] { *routed = self->route_body(self->body->text()); },
          [self = shared_from_this(), routed] { self->ask(std::move(*routed)); }))
    write(Answer::of(too_much_kept(server.config)), asked.keep_alive);
}

void HttpServer::Session::ask(RoutedBody routed) {
  if (server.closing) return stream.close();
  if (stream.peer() == ClientStream::Peer::gone) {
    server.metrics.record(Metric::http_abandoned, 1);
    return stream.close();
  }
  body.reset();
  // the answer may take a while
  if (buffer.size() == 0 && buffer.capacity() > kept_bytes) buffer.shrink_to_fit();
  set_bytes(buffer.capacity());
  const RequestId id = dispatch(std::move(routed), [self = shared_from_this()](Answer answer) {
    self->write(self->unless_known(std::move(answer)), self->asked.keep_alive);
  });
  if (id != 0) server.watch(id, connection_id);
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
  for (const auto& [name, value] : fields_of(answer)) response.set(name, value);
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
