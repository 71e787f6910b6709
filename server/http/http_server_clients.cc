// Reads large bodies on other threads, and notices clients that have gone while their requests wait.
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "kernels/base/check.h"
#include "server/http/http_server_bulk.h"
#include "server/http/http_server_state.h"

namespace troupe::server {

namespace {

constexpr std::chrono::milliseconds watch_interval{100};  // between looks at the clients that wait
constexpr std::string_view probe_line = "HTTP/1.1 100 Continue\r\n\r\n";
// Bodies up to this size are read on the server's thread; words and texts take longer than numbers.
constexpr std::size_t read_at_once_max = 32 << 10, text_at_once_max = 4 << 10;

}  // namespace

// ---- bodies ----

std::size_t HttpServer::Server::at_once_max() const {
  const auto has_text = [](const ServerModel& model) { return model.text.tokenizer != nullptr; };
  const bool texts = config.text.tokenizer || std::ranges::any_of(config.models, has_text);
  return texts ? text_at_once_max : read_at_once_max;
}

bool HttpServer::Server::reads_at_once(std::size_t bytes) const { return bytes <= at_once_max(); }

bool HttpServer::Server::reads_lines_at_once(std::size_t bytes) {
  return reads_at_once(bytes) && line_budget.take(bytes, now_us());
}

// Frees what both functions hold on the server's thread. The guard keeps that thread until then.
BodyReaders::Job HttpServer::Server::job_beside(std::function<void()> read, std::function<void()> then) {
  return [this, read = std::move(read), then = std::move(then), guard = asio::make_work_guard(io)]() mutable {
    read();
    asio::post(io, [read = std::move(read), then = std::move(then)] { then(); });
  };
}

bool HttpServer::Server::read_beside(std::function<void()> read, std::function<void()> then) {
  return readers.run(job_beside(std::move(read), std::move(then))).has_value();
}

BodyReaders::JobId HttpServer::Server::read_lines_beside(std::function<void()> read,
                                                         std::function<void()> then) {
  const auto id = line_readers.run(job_beside(std::move(read), std::move(then)));
  TROUPE_CHECK(id, "jobs of lines have no bound of their own");
  return *id;
}

// ---- clients that have gone ----

void HttpServer::Server::watch(RequestId id, ConnectionLimiter::ConnectionId client) {
  const auto found = waiting.find(id);
  if (found == waiting.end()) return;
  found->second.client = client;
  if (std::exchange(watching, true)) return;
  client_watch.expires_after(watch_interval);
  client_watch.async_wait([this](beast::error_code error) {
    watching = false;
    if (error || closing) return;
    look_at_clients();
  });
}

// Withdraws the requests of the clients that have gone, and looks again later while others wait.
void HttpServer::Server::look_at_clients() {
  std::map<ConnectionLimiter::ConnectionId, bool> gone;
  std::vector<RequestId> abandoned, left;
  for (const auto& [id, waits] : waiting) {
    const auto session = sessions.find(waits.client);
    if (waits.client == 0 || session == sessions.end()) continue;
    const auto [state, is_new] = gone.try_emplace(waits.client, false);
    if (is_new) state->second = session->second->client_has_gone();
    (state->second ? abandoned : left).push_back(id);
  }
  for (const RequestId id : abandoned) cancel(id);
  if (!left.empty()) watch(left.front(), waiting.at(left.front()).client);
}

// The router drops the request unless it has begun, and answers it.
bool HttpServer::Server::withdraw(RequestId id) {
  const auto found = waiting.find(id);
  if (found == waiting.end() || !found->second.on_answer) return false;
  metrics.record(Metric::http_abandoned, 1);
  post(found->second.model ? found->second.model->router : config.router, Cancel{id});
  return true;
}

// The answer ends what was counted for the request; it is logged, and nobody reads it.
void HttpServer::Server::cancel(RequestId id) {
  if (!withdraw(id)) return;
  const auto waits = waiting.extract(id);
  pauses.answered(waits.mapped().tenant);
  waits.mapped().on_answer({.status = client_gone_status, .code = "client_gone"});
}

// A client that has sent its end of the connection may still read, or may be gone. An interim response tells
// them apart: one that is gone resets the connection.
bool HttpServer::Session::client_has_gone() {
  const ClientStream::Peer peer = stream.peer();
  if (peer == ClientStream::Peer::sends_no_more && asked.version == 11 && !bulk && !probed) probe();
  if (peer != ClientStream::Peer::gone) return false;
  stream.close();
  return true;
}

void HttpServer::Session::probe() {
  probed = writing = true;
  stream.write(asio::buffer(probe_line), {}, [self = shared_from_this()](beast::error_code, std::size_t) {
    self->writing = false;
    if (auto held = std::exchange(self->held_answer, std::nullopt))
      self->write(std::move(held->first), held->second);
  });
}

}  // namespace troupe::server
