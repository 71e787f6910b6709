#pragma once
// An HTTP server with actors that a test plays, and a client with full control over its bytes.
#include <algorithm>
#include <atomic>
#include <boost/asio.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/http/http_client.h"
#include "server/http/http_server.h"

namespace troupe::server::http_server_test {

using Tcp = boost::asio::ip::tcp;

inline constexpr Address router_address{1, Role::router};
inline constexpr Address meta_address{1, Role::cache_meta};

inline const std::string rank_body = R"({"user":"ana","candidates":["a"]})";
inline const std::string live = "GET /v2/health/live HTTP/1.1\r\nhost: x\r\n";
inline const std::string end = "\r\n";

inline std::string post_rank(const std::string& headers, const std::string& version = "1.1") {
  return "POST /v1/rank HTTP/" + version + "\r\nhost: x\r\n" + headers +
         "content-length: " + std::to_string(rank_body.size()) + "\r\n\r\n";
}

inline std::string post_chunked(const std::string& headers) {
  return "POST /v1/rank HTTP/1.1\r\nhost: x\r\n" + headers + "transfer-encoding: chunked\r\n\r\n";
}

inline std::string many(const std::string& part, int times) {
  std::string out;
  while (times-- > 0) out += part;
  return out;
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A client with full control over which bytes it sends when.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port, const char* from = "127.0.0.1") : RawClient(from) { connect(port); }
  explicit RawClient(const char* from) {  // has its socket, but is not connected
    socket_.open(Tcp::v4());
    socket_.bind({boost::asio::ip::make_address(from), 0});
  }
  // The socket takes few bytes that were not read. Call before connect().
  void receive_little() { socket_.set_option(boost::asio::socket_base::receive_buffer_size(4096)); }
  void connect(std::uint16_t port) { socket_.connect({boost::asio::ip::make_address("127.0.0.1"), port}); }
  void send(const std::string& bytes) { boost::asio::write(socket_, boost::asio::buffer(bytes), error_); }
  void send_no_more() { socket_.shutdown(Tcp::socket::shutdown_send, error_); }
  void reset() {  // the server sees a broken connection
    socket_.set_option(boost::asio::socket_base::linger(true, 0));
    socket_.close();
  }
  void close() { socket_.close(); }
  // Returns everything received up to `text`, or until the server closed.
  std::string read_until(const std::string& text) {
    const std::size_t bytes =
        boost::asio::read_until(socket_, boost::asio::dynamic_buffer(received_), text, error_);
    return error_ ? std::exchange(received_, "") : take(bytes);
  }
  std::string read_all() {
    boost::asio::read(socket_, boost::asio::dynamic_buffer(received_), error_);
    return std::exchange(received_, "");
  }

 private:
  std::string take(std::size_t bytes) {
    std::string taken = received_.substr(0, bytes);
    received_.erase(0, bytes);
    return taken;
  }
  boost::asio::io_context io_;
  Tcp::socket socket_{io_};
  boost::system::error_code error_;
  std::string received_;
};

// An HTTP server whose actors answer at once; with `silent` they never answer.
struct Fixture {
  MetricRegistry metrics;
  std::atomic<bool> silent = false, full = false;  // actors never answer; tenants are overloaded
  std::atomic<int> asked = 0;
  std::atomic<RequestId> last_ranking = 0, cancelled = 0;
  std::mutex logging;
  std::vector<std::string> logged;
  std::string why_not;                        // if set, no actor is ready
  std::string degraded;                       // why all actors serve worse than they should
  std::string version_name, next_name;        // names of both versions; "" = none is known
  std::string version, next;                  // the router's version, and the next one of a share of users
  std::vector<std::string> written;           // users and items, in order
  Arrangement serves = Arrangement::unnamed;  // arrangement of every ranking; unnamed = an older router
  std::unique_ptr<HttpServer> http_server;

  explicit Fixture(HttpServerConfig config = {}) {
    config.port = 0;
    config.router = router_address;
    config.actors = {router_address, meta_address};
    http_server = std::make_unique<HttpServer>(
        config, [this](Address to, Message m) { act(to, m); }, metrics,
        [this](LogLevel, std::string_view, std::string_view event, std::span<const LogField>) {
          const std::lock_guard lock(logging);
          logged.emplace_back(event);
        });
    http_server->open();
  }
  void act(Address to, const Message& message) {
    if (const auto* cancel = std::get_if<Cancel>(&message)) {
      cancelled = cancel->id;
      return cancelled.notify_all();
    }
    if (const auto* rank = std::get_if<RankRequest>(&message)) last_ranking = rank->id;
    ++asked;
    asked.notify_all();
    const auto* asks = std::get_if<RankRequest>(&message);
    if (full && asks)
      return http_server->deliver(
          Refused{asks->id, {RefusalKind::over_quota, "tenant_overloaded", "much", "tenant", "less", 7}});
    if (silent) return;
    if (auto* m = std::get_if<RankRequest>(&message)) {
      if (m->user == "nobody")
        return http_server->deliver(
            Refused{m->id, {RefusalKind::not_found, "unknown_user", "no such user", "user", "a known user"}});
      const auto missing = std::ranges::find(m->candidates, "nothing");
      if (missing != m->candidates.end()) {
        const std::string at = std::to_string(missing - m->candidates.begin());
        return http_server->deliver(Refused{m->id,
                                            {RefusalKind::not_found, "unknown_item", "no such item",
                                             "candidates[" + at + "]", "a known item"}});
      }
      RankReply reply;
      reply.id = m->id;
      reply.user = m->user;
      reply.policy = m->tenant;  // so that tests can check it
      reply.model_version = version;
      reply.arrangement = serves;
      http_server->deliver(reply);
    } else if (auto* p = std::get_if<PutUser>(&message)) {
      note_written(p->tenant + "/" + p->user);
      http_server->deliver(Stored{p->id, 7});
    } else if (auto* e = std::get_if<AppendEvents>(&message)) {
      note_written("events of " + e->user);
      http_server->deliver(Appended{e->id, 8, static_cast<std::uint32_t>(e->history.size())});
    } else if (auto* d = std::get_if<DeleteUser>(&message)) {
      note_written("not " + d->user);
      http_server->deliver(Stored{d->id, 9});
    } else if (auto* i = std::get_if<PutItem>(&message)) {
      note_written("item " + i->item);
      http_server->deliver(Stored{i->id, 3});
    } else if (auto* g = std::get_if<GetUser>(&message)) {
      http_server->deliver(UserReply{.id = g->id, .user = g->user, .version = 7, .history = {"a"}});
    } else if (auto* r = std::get_if<Reload>(&message)) {
      http_server->deliver(Stored{r->id, 9});
    } else if (auto* s = std::get_if<StatusRequest>(&message)) {
      StatusReply status{s->id, 1, to.role, why_not.empty(), {{"in_flight", "0"}}};
      if (!why_not.empty()) status.fields.push_back({"not_ready", why_not});
      if (!degraded.empty()) status.fields.push_back({"degraded", degraded});
      if (!version.empty()) status.fields.push_back({"model_version", version});
      if (!version_name.empty()) status.fields.push_back({"model_version_name", version_name});
      if (!next_name.empty()) status.fields.push_back({"next_model_name", next_name});
      if (!next.empty())
        status.fields.insert(status.fields.end(), {{"next_model", next}, {"next_share", "0.5"}});
      http_server->deliver(status);
    }
  }
  void note_written(const std::string& what) {
    const std::lock_guard lock(logging);
    written.push_back(what);
  }
  HttpReply call(std::string method, std::string target, std::string body = "") {
    HttpCall c;
    c.server = "127.0.0.1:" + std::to_string(http_server->port());
    c.method = std::move(method);
    c.target = std::move(target);
    c.body = std::move(body);
    return http_call(c);
  }
  // everything until the server closes
  std::string raw(const std::string& bytes, const char* from = "127.0.0.1") {
    RawClient client(http_server->port(), from);
    client.send(bytes);
    client.send_no_more();
    return client.read_all();
  }
};

}  // namespace troupe::server::http_server_test
