#include "router/door/front_door.h"

#include <algorithm>
#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "runtime/actor/message_id.h"
#include "runtime/host/host.h"
#include "runtime/wire/json.h"

namespace troupe::router {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;
using std::chrono::microseconds;

namespace {

constexpr std::int64_t drain_us_max = 500'000;
constexpr std::size_t drain_bytes = 16 << 10;
constexpr std::int64_t status_us_max = 1'000'000;  // how long the actors have to say how they are
constexpr std::int64_t accept_pause_us = 100'000;  // after the system had no socket to give
constexpr std::int64_t farewell_us_max = 300'000;  // for the last responses when the door closes
constexpr std::uint32_t turned_away_max = 64;      // who are told that the door is full, at a time
constexpr const char* tenant_header = "x-troupe-tenant";
constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";

struct Answer {
  unsigned status = 200;
  std::string body;
  std::string type = "application/json";
  std::string allow;  // with 405: the methods that are served
};

Answer answer_of(const Refusal& refusal) {
  return {refusal.status, to_json(refusal), "application/json",
          refusal.status == 405 ? refusal.expected : ""};
}

Answer answer_of(const Message& message) {
  if (const auto* m = std::get_if<RankReply>(&message)) return {200, to_json(*m)};
  if (const auto* m = std::get_if<ScoreReply>(&message)) return {200, to_json(*m)};
  if (const auto* m = std::get_if<Stored>(&message)) return {200, to_json(*m)};
  if (const auto* m = std::get_if<Refused>(&message)) return answer_of(m->refusal);
  return answer_of(
      Refusal{500, "wrong_answer", "an actor answered with another kind of message", "router", "a reply"});
}

Refusal refusal_of(const beast::error_code& error, const DoorConfig& config) {
  if (error == http::error::header_limit)
    return {431, "header_too_long", "the header is too long", "header",
            "at most " + std::to_string(config.header_bytes_max) + " bytes"};
  if (error == http::error::body_limit)
    return {413, "body_too_long", "the body is too long", "body",
            "at most " + std::to_string(config.body_bytes_max) + " bytes"};
  return {400, "bad_http", error.message(), "request", "HTTP/1.1"};
}

// What the parser lets pass and we do not. A coding that we cannot read would leave the body's end unknown,
// and the bytes behind it would be taken for the next request.
std::optional<Refusal> header_fault(const http::request_parser<http::string_body>& parser) {
  const auto& header = parser.get();
  const bool coded = header.count(http::field::transfer_encoding) > 0;
  if (coded && (!parser.chunked() || header.version() == 10))
    return Refusal{501, "transfer_encoding", "the body has a coding that is not supported",
                   "transfer-encoding", "chunked in HTTP/1.1, or content-length"};
  if (header.count(tenant_header) > 1)
    return Refusal{400, "repeated_tenant", "the request names several tenants", tenant_header, "one at most"};
  return std::nullopt;
}

// "router@1 is not ready: the catalog has no items", if it says why.
std::string why_not_ready(const StatusReply& reply) {
  const std::string who = name_of(Address{reply.node, reply.role}) + " is not ready";
  const auto why = std::ranges::find(reply.fields, "not_ready", &StatusField::name);
  return why == reply.fields.end() ? who : who + ": " + why->value;
}

Refusal stopping() {
  return {503, "stopping", "the server is being stopped", "server", "a server that stays"};
}

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

struct FrontDoor::Server {
  using OnAnswer = std::function<void(Answer)>;
  using OnStatus = std::function<void(std::vector<StatusReply>)>;

  // A question to the actors that is not answered yet.
  struct Waiting {
    OnAnswer on_answer;  // of the router
    OnStatus on_status;  // of all actors
    std::vector<StatusReply> statuses;
    std::size_t asked = 0;  // for their status
    std::int64_t us = 0;    // how long it waits
    std::unique_ptr<asio::steady_timer> timer;
  };

  Server(DoorConfig c, Post p, MetricRegistry& m)
      : config(std::move(c)),
        post(std::move(p)),
        metrics(m),
        last_id(config.last_id),
        acceptor(io),
        pause(io) {}

  void bind();
  void accept();
  void take(Tcp::socket socket);
  void stop();
  Waiting& wait(std::int64_t us);
  void ask_router(Message message, OnAnswer then);
  void ask_status(const std::vector<Address>& actors, OnStatus then);
  void deliver(const Message& answer);
  void expire(RequestId id);
  void finish_status(RequestId id);
  void answer_question(DoorQuestion question, OnAnswer then);

  DoorConfig config;
  Post post;
  MetricRegistry& metrics;
  std::uint32_t connections = 0, turned_away = 0;
  std::set<Session*> sessions;  // of both kinds
  bool closing = false, retired = false;
  RequestId last_id;
  asio::io_context io{1};  // holds the sessions; what they use on their way out is declared before it
  Tcp::acceptor acceptor;
  asio::steady_timer pause;              // between attempts to accept; then, of the farewell
  std::map<RequestId, Waiting> waiting;  // at most one per connection
  std::thread thread;
};

// Requests on a connection are served one after the other; a pipelined one waits in the socket.
struct FrontDoor::Session : std::enable_shared_from_this<Session> {
  using Parser = http::request_parser<http::string_body>;

  // `count` is of the sessions of its kind: those that are served, or those that are turned away.
  Session(Server& s, Tcp::socket socket, std::uint32_t& count)
      : server(s), counted_in(count), stream(std::move(socket)) {
    ++counted_in;
    server.sessions.insert(this);
    server.metrics.record(Metric::http_connections, server.connections);
  }
  ~Session() {
    --counted_in;
    server.sessions.erase(this);
    server.metrics.record(Metric::http_connections, server.connections);
    if (server.closing && server.sessions.empty()) server.pause.cancel();
  }

  void read();
  void read_body();
  void header_is_read();
  void read_failed(const beast::error_code& error);
  void handle();
  void refuse_and_close(const Refusal& refusal);
  void write(Answer answer, bool keep_alive);
  void close();
  void drain();

  Server& server;  // outlives every session: it owns the loop that holds them
  std::uint32_t& counted_in;
  beast::tcp_stream stream;
  beast::flat_buffer buffer;
  std::optional<Parser> parser;
  http::response<http::string_body> response;
  bool writing = false;
};

void FrontDoor::Server::bind() {
  const std::string where = config.address + ":" + std::to_string(config.port);
  beast::error_code error;
  const asio::ip::address address = asio::ip::make_address(config.address, error);
  if (error)
    throw DoorError("http.address: " + config.address + " is no IP address; expected e.g. 127.0.0.1");
  const Tcp::endpoint endpoint(address, config.port);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    throw DoorError("http: cannot listen on " + where + " (" + error.message() + "); expected a free port");
  config.port = acceptor.local_endpoint().port();  // where 0 asked for any
}

void FrontDoor::Server::accept() {
  acceptor.async_accept([this](beast::error_code error, Tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (!error) {
      take(std::move(socket));
      return accept();
    }
    pause.expires_after(microseconds(accept_pause_us));  // no file descriptors are left, most likely
    pause.async_wait([this](beast::error_code) {
      if (acceptor.is_open()) accept();
    });
  });
}

void FrontDoor::Server::take(Tcp::socket socket) {
  beast::error_code ignored;
  socket.set_option(Tcp::no_delay(true), ignored);
  if (connections < config.connections_max)
    return std::make_shared<Session>(*this, std::move(socket), connections)->read();
  if (turned_away == turned_away_max) return;  // the socket closes
  std::make_shared<Session>(*this, std::move(socket), turned_away)
      ->refuse_and_close({503, "too_many_connections", "the door is full", "connection",
                          "at most " + std::to_string(config.connections_max) + " connections"});
}

// Who waits for the actors is told that they wait in vain. The loop ends with the last session.
void FrontDoor::Server::stop() {
  closing = true;
  acceptor.close();
  pause.expires_after(microseconds(farewell_us_max));
  pause.async_wait([this](beast::error_code) {
    for (Session* session : sessions) session->stream.close();
  });
  for (auto& [id, left] : std::exchange(waiting, {})) {
    if (left.on_status) left.on_status(std::move(left.statuses));
    if (left.on_answer) left.on_answer(answer_of(stopping()));
  }
  for (Session* session : sessions)
    if (!session->writing) session->stream.close();
  if (sessions.empty()) pause.cancel();
}

FrontDoor::Server::Waiting& FrontDoor::Server::wait(std::int64_t us) {
  const RequestId id = ++last_id;
  Waiting& w = waiting[id];
  w.us = us;
  w.timer = std::make_unique<asio::steady_timer>(io, microseconds(us));
  w.timer->async_wait([this, id](beast::error_code error) {
    if (!error) expire(id);
  });
  return w;
}

void FrontDoor::Server::ask_router(Message message, OnAnswer then) {
  const bool is_reload = std::holds_alternative<Reload>(message);
  wait(is_reload ? config.reload_us_max : config.answer_us_max).on_answer = std::move(then);
  set_id(message, last_id);
  post(config.router, std::move(message));
}

void FrontDoor::Server::ask_status(const std::vector<Address>& actors, OnStatus then) {
  Waiting& waits = wait(status_us_max);
  waits.on_status = std::move(then);
  waits.asked = actors.size();
  for (Address actor : actors) post(actor, StatusRequest{last_id});
}

void FrontDoor::Server::deliver(const Message& answer) {
  const auto found = waiting.find(id_of(answer));
  if (found == waiting.end()) return;  // answered already, or too late
  if (const auto* status = std::get_if<StatusReply>(&answer)) {
    if (!found->second.on_status) return;
    auto& have = found->second.statuses;
    if (std::none_of(have.begin(), have.end(),
                     [&](auto& s) { return s.node == status->node && s.role == status->role; }))
      have.push_back(*status);
    if (have.size() == found->second.asked) finish_status(found->first);
    return;
  }
  if (!found->second.on_answer) return;
  const OnAnswer then = std::move(found->second.on_answer);
  waiting.erase(found);
  then(answer_of(answer));
}

void FrontDoor::Server::expire(RequestId id) {
  const auto found = waiting.find(id);
  if (found == waiting.end()) return;
  if (found->second.on_status) return finish_status(id);
  const OnAnswer then = std::move(found->second.on_answer);
  const std::int64_t us = found->second.us;
  waiting.erase(found);
  then(answer_of(Refusal{504, "no_answer", "the router did not answer in time", "router",
                         "an answer within " + std::to_string(us / 1000) + " ms"}));
}

void FrontDoor::Server::finish_status(RequestId id) {
  auto node = waiting.extract(id);
  std::vector<StatusReply>& replies = node.mapped().statuses;
  std::sort(replies.begin(), replies.end(), [](const StatusReply& a, const StatusReply& b) {
    return std::pair(a.node, a.role) < std::pair(b.node, b.role);
  });
  node.mapped().on_status(std::move(replies));
}

void FrontDoor::Server::answer_question(DoorQuestion question, OnAnswer then) {
  if (question == DoorQuestion::live) return then({200, "{\"live\":true}"});
  if (question == DoorQuestion::metrics) return then({200, metrics.render(), "text/plain; version=0.0.4"});
  if (question == DoorQuestion::cluster)
    return ask_status(config.actors, [then = std::move(then)](std::vector<StatusReply> replies) {
      then({200, to_json(replies)});
    });
  if (retired)
    return then(answer_of(Refusal{503, "not_ready", "this node is about to end", "cluster", "another node"}));
  const auto& asked = config.must_be_ready.empty() ? config.actors : config.must_be_ready;
  const std::string obstacle = config.obstacle ? config.obstacle() : "";
  ask_status(asked,
             [count = asked.size(), obstacle, then = std::move(then)](std::vector<StatusReply> replies) {
               std::string missing = replies.size() < count ? "an actor does not answer" : obstacle;
               for (const StatusReply& r : replies)
                 if (!r.ready) missing = why_not_ready(r);
               if (missing.empty()) return then({200, "{\"ready\":true}"});
               then(answer_of(Refusal{503, "not_ready", missing, "cluster", "every actor ready"}));
             });
}

void FrontDoor::Session::read() {
  parser.emplace();
  parser->header_limit(server.config.header_bytes_max);
  parser->body_limit(server.config.body_bytes_max);
  stream.expires_after(microseconds(server.config.timeout_us));  // for header and body together
  http::async_read_header(stream, buffer, *parser,
                          [self = shared_from_this()](beast::error_code error, std::size_t) {
                            if (error) return self->read_failed(error);
                            self->header_is_read();
                          });
}

void FrontDoor::Session::header_is_read() {
  if (const std::optional<Refusal> fault = header_fault(*parser)) return refuse_and_close(*fault);
  const auto& header = parser->get();
  const bool waits = header.version() == 11 && beast::iequals(header[http::field::expect], "100-continue");
  if (!waits) return read_body();
  asio::async_write(stream, asio::buffer(go_on),
                    [self = shared_from_this()](beast::error_code error, std::size_t) {
                      if (error) return self->close();
                      self->read_body();
                    });
}

void FrontDoor::Session::read_body() {
  http::async_read(stream, buffer, *parser,
                   [self = shared_from_this()](beast::error_code error, std::size_t) {
                     if (error) return self->read_failed(error);
                     self->handle();
                   });
}

void FrontDoor::Session::read_failed(const beast::error_code& error) {
  const bool malformed = error.category() == make_error_code(http::error::bad_method).category();
  if (!malformed || error == http::error::end_of_stream) return close();  // gone, silent or too slow
  refuse_and_close(refusal_of(error, server.config));
}

void FrontDoor::Session::handle() {
  server.metrics.record(Metric::http_requests, 1);
  if (server.closing) return refuse_and_close(stopping());
  const auto& request = parser->get();
  stream.expires_never();  // the wait is bounded by the door's own timer
  DoorRoute routed = route(
      {view(request.method_string()), view(request.target()), request.body(), view(request[tenant_header])},
      server.config.limits);
  auto then = [self = shared_from_this(), keep_alive = request.keep_alive()](Answer answer) {
    self->write(std::move(answer), keep_alive);
  };
  if (const auto* refusal = std::get_if<Refusal>(&routed)) return then(answer_of(*refusal));
  if (const auto* question = std::get_if<DoorQuestion>(&routed))
    return server.answer_question(*question, then);
  server.ask_router(std::get<Message>(std::move(routed)), then);
}

void FrontDoor::Session::refuse_and_close(const Refusal& refusal) { write(answer_of(refusal), false); }

void FrontDoor::Session::write(Answer answer, bool keep_alive) {
  if (answer.status >= 400) server.metrics.record(Metric::http_refused, 1);
  const bool header_known = parser && parser->is_header_done();
  response = {};
  response.version(header_known && parser->get().version() == 10 ? 10 : 11);
  response.result(answer.status);
  response.set(http::field::server, "troupe");
  response.set(http::field::content_type, answer.type);
  if (!answer.allow.empty()) response.set(http::field::allow, answer.allow);
  keep_alive = keep_alive && !server.closing;
  response.keep_alive(keep_alive);
  response.content_length(answer.body.size());
  if (!header_known || parser->get().method() != http::verb::head) response.body() = std::move(answer.body);
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
  if (server.closing) return stream.close();
  beast::error_code ignored;
  stream.socket().shutdown(Tcp::socket::shutdown_send, ignored);
  stream.expires_after(microseconds(drain_us_max));
  drain();
}

void FrontDoor::Session::drain() {
  buffer.clear();
  stream.async_read_some(buffer.prepare(drain_bytes),
                         [self = shared_from_this()](beast::error_code error, std::size_t) {
                           if (!error) self->drain();
                         });
}

FrontDoor::FrontDoor(DoorConfig config, Post post, MetricRegistry& metrics)
    : server_(std::make_unique<Server>(std::move(config), std::move(post), metrics)) {
  server_->bind();
}

FrontDoor::~FrontDoor() { close(); }

void FrontDoor::open() {
  server_->accept();
  server_->thread = std::thread([server = server_.get()] { server->io.run(); });
}

void FrontDoor::retire() {
  asio::post(server_->io, [server = server_.get()] { server->retired = true; });
}

void FrontDoor::close() {
  if (!server_->thread.joinable()) return;
  asio::post(server_->io, [server = server_.get()] { server->stop(); });
  server_->thread.join();
}

std::uint16_t FrontDoor::port() const { return server_->config.port; }

void FrontDoor::deliver(Message answer) {
  asio::post(server_->io, [server = server_.get(), answer = std::move(answer)] { server->deliver(answer); });
}

}  // namespace troupe::router
