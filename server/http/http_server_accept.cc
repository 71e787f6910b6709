// Accepts connections while there are places for them, and closes them all at the end.
#include <algorithm>
#include <chrono>
#include <utility>

#include "server/http/http_listening.h"
#include "server/http/http_server_state.h"
#include "server/http/unanswered.h"

namespace troupe::server {

using std::chrono::microseconds;

namespace {

constexpr std::int64_t accept_pause_us = 100'000;   // after the system had no socket to give
constexpr std::int64_t accept_log_us = 10'000'000;  // between log lines about that
constexpr std::int64_t farewell_us_max = 300'000;   // for the last responses when the server closes

Origin origin_of(const asio::ip::address& address) {
  if (address.is_v4()) return server::origin_of(address.to_v4().to_bytes());
  return server::origin_of(address.to_v6().to_bytes());
}

}  // namespace

void HttpServer::Server::bind() {
  config.port = listen_on(acceptor, "http", config.address, config.port);
  if (!config.rpc_address.empty())
    config.rpc_port = listen_on(rpc_acceptor, "grpc", config.rpc_address, config.rpc_port);
}

void HttpServer::Server::accept(Tcp::acceptor& from) {
  from.async_accept([this, &from](beast::error_code error, Tcp::socket socket) {
    if (!from.is_open()) return;
    if (error) return accept_failed(from, error);
    accepted_since = true;
    take(std::move(socket), &from == &rpc_acceptor);
    accept(from);
  });
}

// Most likely no file descriptors are left. The server treats this as full, and the longest waiting
// connection closes. If another thread took its descriptor, the next attempt follows after a pause.
void HttpServer::Server::accept_failed(Tcp::acceptor& from, const beast::error_code& error) {
  metrics.record(Metric::http_accept_failed, 1);
  ++accepts_failed;
  const auto now = std::chrono::steady_clock::now();
  if (log && now - failure_logged >= microseconds(accept_log_us)) {
    const std::vector<LogField> fields{{"why", error.message()},
                                       {"times", std::exchange(accepts_failed, 0)},
                                       {"connections", sessions.size()},
                                       {"expected", "more open files than connections (LimitNOFILE)"}};
    log(LogLevel::error, "door", "accept_failed", fields);
    failure_logged = now;
  }
  const auto connection_to_close = places.connection_to_close();
  if (connection_to_close) close_connection(*connection_to_close);
  if (connection_to_close && std::exchange(accepted_since, false)) return accept(from);
  pause.expires_after(microseconds(accept_pause_us));
  pause.async_wait([this, &from](beast::error_code) {
    if (from.is_open()) accept(from);
  });
}

void HttpServer::Server::take(Tcp::socket socket, bool rpc_only) {
  beast::error_code error;
  const Tcp::endpoint client = socket.remote_endpoint(error);
  if (error) return;  // the client is gone already
  socket.set_option(Tcp::no_delay(true), error);
  const Origin from = origin_of(client.address());
  ConnectionLimiter& among = free_connection(places, from) ? places : health_reserve;
  if (!free_connection(among, from))
    return metrics.record(Metric::http_refused, 1, "too_many_connections");  // the socket closes
  const ConnectionLimiter::ConnectionId connection_id = ++last_connection;
  among.enter(connection_id, from);
  const auto session = std::make_shared<Session>(*this, std::move(socket), among, connection_id);
  session->from = from;
  session->rpc_only = rpc_only;
  session->begin();
}

bool HttpServer::Server::free_connection(ConnectionLimiter& among, Origin from) {
  while (!among.has_capacity(from)) {
    const auto connection_to_close = among.connection_to_close_for(from);
    if (!connection_to_close) return false;
    close_connection(*connection_to_close);
  }
  return true;
}

void HttpServer::Server::close_connection(ConnectionLimiter::ConnectionId connection_id) {
  metrics.record(Metric::http_evicted, 1);
  sessions.at(connection_id)->end();
}

// Answers all waiting requests with a refusal. The loop ends with the last session.
void HttpServer::Server::stop() {
  closing = true;
  acceptor.close();
  rpc_acceptor.close();
  client_watch.cancel();
  pause.expires_after(microseconds(farewell_us_max));
  pause.async_wait([this](beast::error_code) {
    for (const auto& [connection_id, session] : sessions) session->stream.close();
  });
  for (auto& [id, left] : std::exchange(waiting, {})) {
    if (left.on_status) left.on_status(std::move(left.statuses));
    if (left.on_answer) left.on_answer(Answer::of(stopping(left.writes)));
  }
  for (const auto& [connection_id, session] : sessions) {
    session->stop_http2();
    session->refusal_timer.cancel();
    if (!session->awaits_refusal && !session->writing) session->stream.close();
  }
  if (sessions.empty()) pause.cancel();
}

}  // namespace troupe::server
