// Exchanges one HTTP request and response with an etcd endpoint, with connections that stay open,
// over TLS if configured. Time and response size are bounded, whatever the server does.
#include "runtime/coordination/etcd_http.h"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace troupe {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;

namespace {

constexpr std::uint32_t header_bytes_max = 8 << 10;
constexpr std::size_t buffer_bytes_max = 128 << 10;  // unparsed bytes; Beast does not bound a chunk's line
// A firewall may have dropped connections that were idle for longer.
constexpr std::chrono::seconds idle_time_max(30);

bool is_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && stop == text.data() + text.size() && port != 0;
}

std::string words_of(const beast::error_code& error) {
  if (error == beast::error::timeout) return "no answer in time";
  if (error == http::error::end_of_stream) return "the connection was closed without an answer";
  return error.message();
}

}  // namespace

// Used by one thread at a time.
struct EtcdEndpoint::Connection {
  asio::io_context io{1};
  beast::tcp_stream stream{io};
  std::optional<asio::ssl::context> security;                // TLS context of `tls`
  std::optional<asio::ssl::stream<beast::tcp_stream&>> tls;  // over `stream`; nullopt: plain
  beast::flat_buffer buffer{buffer_bytes_max};
  bool reusable = false;
  Time idle_since;

  // Returns "" or the reason. `with`: null for a plain connection.
  std::string connect(const std::string& host, const std::string& port, const TlsClient* with, Time by);
  std::variant<EtcdReply, EtcdNoReply> exchange(const http::request<http::string_body>& request, Time by) {
    return tls ? exchange_over(*tls, request, by) : exchange_over(stream, request, by);
  }
  bool is_open();

 private:
  std::string shake_hands(const std::string& host, const TlsClient& with);
  template <class Stream>
  std::variant<EtcdReply, EtcdNoReply> exchange_over(Stream& over,
                                                     const http::request<http::string_body>& request,
                                                     Time by);
  // Runs the operation that was just started to its end.
  beast::error_code finish() {
    io.restart();
    io.run();
    return error_;
  }
  auto note() {
    return [this](beast::error_code error, auto&&...) { error_ = error; };
  }
  beast::error_code error_;
};

std::string EtcdEndpoint::Connection::connect(const std::string& host, const std::string& port,
                                              const TlsClient* with, Time by) {
  beast::error_code error;
  const auto targets = Tcp::resolver(io).resolve(host, port, error);
  if (error) return words_of(error);
  stream.expires_at(by);
  stream.async_connect(targets, note());
  if (error = finish(); error) return words_of(error);
  beast::error_code ignored;
  stream.socket().set_option(Tcp::no_delay(true), ignored);
  return with ? shake_hands(host, *with) : "";
}

std::string EtcdEndpoint::Connection::shake_hands(const std::string& host, const TlsClient& with) {
  SSL_CTX_up_ref(with.context());
  security.emplace(with.context());  // the context now owns that reference
  tls.emplace(stream, *security);
  TlsClient::expect(tls->native_handle(), host);
  tls->async_handshake(asio::ssl::stream_base::client, note());
  const beast::error_code error = finish();
  if (!error) return "";
  return error.category() == asio::error::get_ssl_category() ? tls_failure(tls->native_handle())
                                                             : words_of(error);
}

template <class Stream>
std::variant<EtcdReply, EtcdNoReply> EtcdEndpoint::Connection::exchange_over(
    Stream& over, const http::request<http::string_body>& request, Time by) {
  reusable = false;
  stream.expires_at(by);
  http::async_write(over, request, note());
  if (const auto error = finish()) return EtcdNoReply{words_of(error), true};
  http::response_parser<http::string_body> parser;
  parser.header_limit(header_bytes_max);
  parser.body_limit(body_bytes_max);
  http::async_read(over, buffer, parser, note());
  if (const auto error = finish()) return EtcdNoReply{words_of(error), true};
  stream.expires_never();
  reusable = parser.get().keep_alive() && buffer.size() == 0;
  return EtcdReply{parser.get().result_int(), std::move(parser.get().body())};
}

// True while the server has neither closed the connection nor sent unrequested bytes.
bool EtcdEndpoint::Connection::is_open() {
  char byte = 0;
  const ssize_t got = recv(stream.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

EtcdEndpoint::EtcdEndpoint(std::string url, std::shared_ptr<const TlsClient> tls) : url_(std::move(url)) {
  const bool is_tls = url_.starts_with("https://");
  const std::string_view scheme = is_tls ? "https://" : "http://";
  if (is_tls) tls_ = tls ? std::move(tls) : std::make_shared<const TlsClient>(TlsClientFiles{});
  const std::size_t colon = url_.rfind(':');
  if (url_.starts_with(scheme) && colon != std::string::npos && colon > scheme.size()) {
    host_ = url_.substr(scheme.size(), colon - scheme.size());
    port_ = url_.substr(colon + 1);
  }
  if (host_.size() > 2 && host_.front() == '[' && host_.back() == ']')
    host_ = host_.substr(1, host_.size() - 2);
  else if (host_.find_first_of("/:@?# ") != std::string::npos)
    host_.clear();
  if (url_.find('@') != url_.npos)  // the part before @ may be a password
    throw std::runtime_error(
        "etcd endpoint …@…: expected http://host:port; put the login into the file of "
        "cluster.coordination_login");
  if (host_.empty() || !is_port(port_))
    throw std::runtime_error("etcd endpoint \"" + url_ +
                             "\": expected http://host:port, such as http://127.0.0.1:2379, or https");
}

EtcdEndpoint::~EtcdEndpoint() = default;

std::variant<EtcdReply, EtcdNoReply> EtcdEndpoint::post(const std::string& path, const std::string& body,
                                                        const std::string& token, Time connected_by,
                                                        Time answered_by) {
  if (std::chrono::steady_clock::now() >= connected_by) return EtcdNoReply{"no time was left", false};
  std::unique_ptr<Connection> connection = take_idle();
  if (!connection) {
    connection = std::make_unique<Connection>();
    if (std::string why = connection->connect(host_, port_, tls_.get(), connected_by); !why.empty())
      return EtcdNoReply{std::move(why), false};
  }
  http::request<http::string_body> request(http::verb::post, path, 11, body);
  request.set(http::field::host, url_.substr(url_.find("//") + 2));
  request.set(http::field::content_type, "application/json");
  if (!token.empty()) request.set(http::field::authorization, token);
  request.prepare_payload();
  auto reply = connection->exchange(request, answered_by);
  if (std::holds_alternative<EtcdNoReply>(reply)) drop_idle();
  if (connection->reusable) keep(std::move(connection));
  return reply;
}

std::unique_ptr<EtcdEndpoint::Connection> EtcdEndpoint::take_idle() {
  const std::lock_guard held(mutex_);
  while (!idle_.empty()) {
    std::unique_ptr<Connection> last = std::move(idle_.back());
    idle_.pop_back();
    if (last->is_open() && std::chrono::steady_clock::now() < last->idle_since + idle_time_max) return last;
  }
  return nullptr;
}

void EtcdEndpoint::keep(std::unique_ptr<Connection> connection) {
  connection->idle_since = std::chrono::steady_clock::now();
  const std::lock_guard held(mutex_);
  if (idle_.size() < idle_max) idle_.push_back(std::move(connection));
}

// A failure of one connection has most likely broken the others.
void EtcdEndpoint::drop_idle() {
  const std::lock_guard held(mutex_);
  idle_.clear();
}

}  // namespace troupe
