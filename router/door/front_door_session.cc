// One connection, from its first byte to its last.
#include <algorithm>
#include <chrono>
#include <utility>

#include "router/door/front_door_server.h"

namespace troupe::router {

using std::chrono::microseconds;

namespace {

constexpr std::int64_t drain_us_max = 500'000;
constexpr std::size_t read_bytes = 16 << 10;  // at a time
constexpr std::size_t kept_bytes = 4 << 10;   // of an idle connection's buffer
constexpr std::ptrdiff_t fields_max = 100;    // lines of a header
constexpr unsigned retry_after_s = 1;         // unless somebody knows better
constexpr const char* tenant_header = "x-troupe-tenant";
constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

BodyLimits body_limits(const DoorConfig& config) {
  return {.body_bytes_max = config.body_bytes_max, .trailers_bytes_max = config.header_bytes_max};
}

Refusal refusal_of(const beast::error_code& error, const DoorConfig& config) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return {431, "header_too_long", "the header is too long", "header",
            "at most " + std::to_string(config.header_bytes_max) + " bytes (http.header_bytes_max)"};
  if (error == http::error::body_limit)
    return {413, "body_too_long", "the body is too long", "body",
            "at most " + std::to_string(config.body_bytes_max) + " bytes (http.body_bytes_max)"};
  if (error == asio::error::eof)
    return {400, "bad_http", "the connection ended before the request did", "request", "a whole request"};
  return {400, "bad_http", error.message(), "request", "HTTP/1.1"};
}

Refusal full(const DoorConfig& config) {
  return {503, "too_many_connections", "every connection is being served", "connection",
          "at most " + std::to_string(config.connections_max) + " connections (http.connections_max), " +
              std::to_string(config.connections_per_address_max) +
              " from one address (http.connections_per_address_max)"};
}

Refusal too_much_kept(const DoorConfig& config) {
  return {503, "overloaded", "the door keeps as many bytes of requests as it may", "body",
          "at most " + std::to_string(config.memory_bytes_max) + " bytes of all requests (http.memory_max)"};
}

// Who serves a request by its Host, as proxies do, and who by its target must not be told different things
// (RFC 9112 §3.2).
std::optional<Refusal> host_fault(const http::request_header<>& header) {
  const std::size_t hosts = header.count(http::field::host);
  if (hosts == 1 || (hosts == 0 && header.version() == 10)) return std::nullopt;
  return Refusal{400, "bad_host",
                 hosts == 0 ? "the request names no host" : "the request names several hosts", "host",
                 "one Host, which may be empty"};
}

// What the parser lets pass and we do not. A coding that we cannot read would leave the body's end unknown,
// and the bytes behind it would be taken for the next request.
std::optional<Refusal> header_fault(const http::request_parser<http::empty_body>& parser) {
  const auto& header = parser.get();
  if (std::distance(header.begin(), header.end()) > fields_max)
    return Refusal{431, "header_too_long", "the header has too many fields", "header",
                   "at most " + std::to_string(fields_max)};
  const bool coded = header.count(http::field::transfer_encoding) > 0;
  if (coded && (!parser.chunked() || header.version() == 10))
    return Refusal{501, "transfer_encoding", "the body has a coding that is not supported",
                   "transfer-encoding", "chunked in HTTP/1.1, or content-length"};
  if (header.count(tenant_header) > 1)
    return Refusal{400, "repeated_tenant", "the request names several tenants", tenant_header, "one at most"};
  return host_fault(header);
}

}  // namespace

FrontDoor::Session::Session(Server& s, Tcp::socket socket, DoorPlaces& among, DoorPlaces::Guest number)
    : server(s),
      places(among),
      guest(number),
      stream(std::move(socket)),
      buffer(std::max<std::size_t>(s.config.header_bytes_max, read_bytes) + 2) {
  server.sessions[guest] = this;
  server.metrics.record(Metric::http_connections, static_cast<double>(server.sessions.size()));
}

FrontDoor::Session::~Session() {
  places.leave(guest);
  server.sessions.erase(guest);
  server.metrics.record(Metric::http_connections, static_cast<double>(server.sessions.size()));
  if (server.closing && server.sessions.empty()) server.pause.cancel();
}

void FrontDoor::Session::read() {
  asked = {};
  body.reset();
  response = {};
  parser.emplace();
  parser->header_limit(server.config.header_bytes_max);
  parser->body_limit(server.config.body_bytes_max);
  if (buffer.size() == 0 && buffer.capacity() > kept_bytes) buffer.shrink_to_fit();
  places.waits(guest);
  places.keeps(guest, buffer.capacity());
  stream.expires_after(microseconds(server.config.timeout_us));  // for header and body together
  read_start();
}

// An empty line before a request is skipped, once (RFC 9112 §2.2).
void FrontDoor::Session::read_start() {
  const std::string_view start(static_cast<const char*>(buffer.data().data()), buffer.size());
  if (start.size() >= 2) {
    if (start.starts_with("\r\n")) buffer.consume(2);
    return read_header();
  }
  stream.async_read_some(buffer.prepare(beast::read_size(buffer, kept_bytes)),
                         [self = shared_from_this()](beast::error_code error, std::size_t bytes) {
                           self->buffer.commit(bytes);
                           if (error && (self->buffer.size() == 0 || error != asio::error::eof))
                             return self->close();
                           if (error) return self->read_failed(error);
                           self->read_start();
                         });
}

void FrontDoor::Session::read_header() {
  http::async_read_header(stream, buffer, *parser,
                          [self = shared_from_this()](beast::error_code error, std::size_t) {
                            if (error) return self->read_failed(error);
                            self->header_is_read();
                          });
}

void FrontDoor::Session::header_is_read() {
  const auto& header = parser->get();
  asked.version = header.version() == 10 ? 10 : 11;
  asked.method = view(header.method_string());
  if (const std::optional<Refusal> fault = header_fault(*parser)) return refuse_and_close(*fault);
  asked.target = view(header.target());
  asked.tenant = view(header[tenant_header]);
  asked.keep_alive = header.keep_alive();
  asked.waits = header.version() == 11 && beast::iequals(header[http::field::expect], "100-continue");
  body = parser->chunked() ? RequestBody::chunked(body_limits(server.config))
                           : RequestBody(parser->content_length().value_or(0), body_limits(server.config));
  parser.reset();
  if (&places == &server.lane && !is_for_health()) return refuse_and_close(full(server.config));
  if (!asked.waits || body->done()) return read_body();
  asio::async_write(stream, asio::buffer(go_on),
                    [self = shared_from_this()](beast::error_code error, std::size_t) {
                      if (error) return self->close();
                      self->read_body();
                    });
}

// A question without a body that needs no work of the actors but a word.
bool FrontDoor::Session::is_for_health() const {
  const DoorRoute routed = route({asked.method, asked.target, "", ""}, server.config.limits);
  const auto* question = std::get_if<DoorQuestion>(&routed);
  return question && *question != DoorQuestion::cluster && body->done();
}

void FrontDoor::Session::read_body() {
  const std::string_view bytes(static_cast<const char*>(buffer.data().data()), buffer.size());
  buffer.consume(body->take(bytes));
  if (body->fault()) return refuse_and_close(*body->fault());
  if (body->done()) return handle();
  if (!keep()) return;
  stream.async_read_some(buffer.prepare(beast::read_size(buffer, read_bytes)),
                         [self = shared_from_this()](beast::error_code error, std::size_t bytes) {
                           if (error) return self->read_failed(error);
                           self->buffer.commit(bytes);
                           self->read_body();
                         });
}

// Says how many bytes are kept for it, and sends away who has to go for them. False: that is this one.
bool FrontDoor::Session::fits() {
  places.keeps(guest, buffer.capacity() + (body ? body->held_bytes() : 0) + response.body().capacity());
  while (const auto goes = places.goes_for_bytes()) {
    if (*goes == guest) return false;
    server.send_away(*goes);
  }
  return true;
}

bool FrontDoor::Session::keep() {
  if (fits()) return true;
  refuse_and_close(too_much_kept(server.config));
  return false;
}

void FrontDoor::Session::read_failed(const beast::error_code& error) {
  const bool malformed = error.category() == make_error_code(http::error::bad_method).category();
  const bool cut = error == asio::error::eof;
  if ((!malformed && !cut) || error == http::error::end_of_stream)
    return close();  // gone, silent or too slow
  refuse_and_close(refusal_of(error, server.config));
}

void FrontDoor::Session::handle() {
  server.metrics.record(Metric::http_requests, 1);
  places.works(guest);
  stream.expires_never();  // the wait is bounded by the door's own timer
  DoorRoute routed = route({asked.method, asked.target, body->text(), asked.tenant}, server.config.limits);
  body.reset();
  if (buffer.size() == 0 && buffer.capacity() > kept_bytes) buffer.shrink_to_fit();  // it may take a while
  places.keeps(guest, buffer.capacity());
  auto then = [self = shared_from_this()](Answer answer) {
    self->write(std::move(answer), self->asked.keep_alive);
  };
  if (const auto* refusal = std::get_if<Refusal>(&routed)) return then(Answer::of(*refusal));
  if (const auto* question = std::get_if<DoorQuestion>(&routed))
    return server.answer_question(*question, then);
  server.ask_router(std::get<Message>(std::move(routed)), then);
}

void FrontDoor::Session::refuse_and_close(const Refusal& refusal) { write(Answer::of(refusal), false); }

void FrontDoor::Session::write(Answer answer, bool keep_alive) {
  parser.reset();
  body.reset();
  response = {};
  places.waits(guest);
  std::size_t length = answer.body.size();
  if (asked.method != "HEAD") response.body() = std::move(answer.body);
  if (!fits()) {  // its client does not get it, and knows why
    answer = Answer::of(too_much_kept(server.config));
    length = answer.body.size();
    response.body() = std::move(answer.body);
    keep_alive = false;
    fits();
  }
  if (answer.status >= 400) server.metrics.record(Metric::http_refused, 1);
  response.version(asked.version);
  response.result(answer.status);
  response.set(http::field::server, "troupe");
  response.set(http::field::content_type, answer.type);
  if (!answer.allow.empty()) response.set(http::field::allow, answer.allow);
  if (answer.status == 503 || answer.status == 429)
    response.set(http::field::retry_after, std::to_string(std::max(answer.retry_after_s, retry_after_s)));
  keep_alive = keep_alive && !server.closing;
  response.keep_alive(keep_alive);
  response.content_length(length);
  stream.expires_after(microseconds(server.config.timeout_us));
  writing = true;
  http::async_write(stream, response,
                    [self = shared_from_this(), keep_alive](beast::error_code error, std::size_t) {
                      self->writing = false;
                      if (error || !keep_alive || self->server.closing) return self->close();
                      self->read();
                    });
}

// What the client still sends is read and dropped for a moment: closing on unread bytes would reset the
// connection, and the response that explains why would be lost.
void FrontDoor::Session::close() {
  if (server.closing || !stream.socket().is_open()) return stream.close();
  beast::error_code ignored;
  stream.socket().shutdown(Tcp::socket::shutdown_send, ignored);
  stream.expires_after(microseconds(drain_us_max));
  drain();
}

void FrontDoor::Session::drain() {
  buffer.clear();
  stream.async_read_some(buffer.prepare(read_bytes),
                         [self = shared_from_this()](beast::error_code error, std::size_t) {
                           if (!error) self->drain();
                         });
}

void FrontDoor::Session::end() {
  places.leave(guest);
  stream.close();
}

}  // namespace troupe::router
