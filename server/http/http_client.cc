// Sends single HTTP requests and waits for the responses. The command line, benchmarks and tests
// use this client.
#include "server/http/http_client.h"

#include <algorithm>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>
#include <sstream>
#include <string_view>

namespace troupe::server {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

constexpr std::uint64_t body_bytes_max = 32 << 20;  // a reply of 100,000 items has about 10 MiB
constexpr std::size_t buffer_bytes_max =
    128 << 10;  // bytes not parsed yet; Beast does not bound the line of a chunk
constexpr std::size_t read_bytes_max = 64 << 10;

struct Server {
  std::string host, port;
  bool tls = false;
  std::string url() const { return (tls ? "https://" : "http://") + host + ":" + port; }
};

Server parse_server(std::string server) {
  Server parsed{.tls = server.starts_with("https://")};
  if (parsed.tls) server.erase(0, 8);
  if (server.starts_with("http://")) server.erase(0, 7);
  while (server.ends_with('/')) server.pop_back();
  const std::size_t colon = server.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == server.size())
    throw ClientError("server " + server +
                      " has no host or no port; expected host:port, such as 127.0.0.1:8080");
  parsed.host = server.substr(0, colon), parsed.port = server.substr(colon + 1);
  return parsed;
}

void say(const beast::error_code& error, const Server& server) {
  if (error)
    throw ClientError(
        server.url() + ": " + error.message() + "; expected a running troupe server" +
        (server.tls ? ", and a certificate for that name from a trusted authority (--authority)" : ""));
}

// Runs the loop until the current operation has ended.
void finish(asio::io_context& io, const beast::error_code& error, const Server& server) {
  io.restart();
  io.run();
  say(error, server);
}

http::request<http::string_body> request_of(const HttpCall& call, const Server& server) {
  http::request<http::string_body> request(http::string_to_verb(call.method), call.target, 11, call.body);
  request.set(http::field::host, server.host + ":" + server.port);
  request.set(http::field::content_type, "application/json");
  if (!call.tenant.empty()) request.set("x-troupe-tenant", call.tenant);
  if (!call.key.empty()) request.set(http::field::authorization, "Bearer " + call.key);
  for (std::string_view rest = call.headers; !rest.empty();) {
    const std::size_t end = rest.find("\r\n"), colon = rest.find(": ");
    request.set(beast::string_view(rest.data(), colon),
                beast::string_view(rest.data() + colon + 2, end - colon - 2));
    rest.remove_prefix(end + 2);
  }
  request.prepare_payload();
  return request;
}

std::string text_of(const http::request<http::string_body>& request) {
  std::ostringstream text;
  text << request;
  return std::move(text).str();
}

// Sends and receives bytes directly, because Beast's message functions would be instantiated for
// each kind of stream. `keeps`: whether the connection may be used again.
template <class Stream>
HttpReply exchange(asio::io_context& io, Stream& stream, const HttpCall& call, const Server& server,
                   bool& keeps) {
  beast::error_code error;
  std::size_t read = 0;
  auto note = [&](beast::error_code e, std::size_t bytes) { error = e, read = bytes; };
  const std::string request = text_of(request_of(call, server));
  asio::async_write(stream, asio::buffer(request), note);
  finish(io, error, server);
  beast::flat_buffer buffer{buffer_bytes_max};
  http::response_parser<http::string_body> parser;
  parser.eager(true);
  parser.body_limit(body_bytes_max);
  while (!parser.is_done()) {
    stream.async_read_some(buffer.prepare(std::min(read_bytes_max, buffer.max_size() - buffer.size())), note);
    io.restart();
    io.run();
    buffer.commit(read);
    if (error == asio::error::eof && parser.got_some()) {
      error = {};
      parser.put_eof(error);
    } else if (error == asio::error::eof) {
      error = http::error::end_of_stream;
    } else if (!error) {
      buffer.consume(parser.put(buffer.data(), error));
      if (error == http::error::need_more)
        error = buffer.size() < buffer.max_size() ? beast::error_code() : http::error::buffer_overflow;
    }
    say(error, server);
  }
  keeps = parser.keep_alive() && buffer.size() == 0;
  const auto etag = parser.get()[http::field::etag];
  return {parser.get().result_int(), parser.get().body(), {etag.data(), etag.size()}};
}

asio::ssl::context client_security(const HttpCall& call) {
  asio::ssl::context security(asio::ssl::context::tls_client);
  security.set_verify_mode(asio::ssl::verify_peer);
  beast::error_code error;
  if (call.authority.empty())
    security.set_default_verify_paths(error);
  else
    security.add_certificate_authority(asio::buffer(call.authority), error);
  if (error) throw ClientError("the authority's certificate: " + error.message() + "; expected PEM");
  return security;
}

}  // namespace

class HttpConnection::Open {
 public:
  explicit Open(const HttpCall& call) : server_(parse_server(call.server)) {
    beast::error_code error;
    const auto targets = asio::ip::tcp::resolver(io_).resolve(server_.host, server_.port, error);
    if (error)
      throw ClientError("server " + call.server + ": " + error.message() +
                        "; expected host:port of a running troupe server, such as 127.0.0.1:8080");
    auto note = [&error](beast::error_code e, auto&&...) { error = e; };
    stream_.expires_after(std::chrono::microseconds(call.timeout_us));
    stream_.async_connect(targets, note);
    finish(io_, error, server_);
    stream_.socket().set_option(asio::ip::tcp::no_delay(true), error);
    if (!server_.tls) return;
    security_.emplace(client_security(call));
    secure_.emplace(stream_, *security_);
    secure_->set_verify_callback(asio::ssl::host_name_verification(server_.host));
    SSL_set_tlsext_host_name(secure_->native_handle(), server_.host.c_str());
    secure_->async_handshake(asio::ssl::stream_base::client, note);
    finish(io_, error, server_);
  }

  // Sets `keeps` if another call may follow.
  HttpReply call(const HttpCall& call, bool& keeps) {
    stream_.expires_after(std::chrono::microseconds(call.timeout_us));
    return secure_ ? exchange(io_, *secure_, call, server_, keeps)
                   : exchange(io_, stream_, call, server_, keeps);
  }

  // Returns true if the server has neither closed the connection nor sent anything unexpected.
  bool is_silent() {
    char byte = 0;
    beast::error_code error;
    stream_.socket().non_blocking(true, error);
    if (!error) stream_.socket().receive(asio::buffer(&byte, 1), asio::ip::tcp::socket::message_peek, error);
    return error == asio::error::would_block;
  }

 private:
  const Server server_;
  asio::io_context io_{1};
  beast::tcp_stream stream_{io_};
  std::optional<asio::ssl::context> security_;
  std::optional<asio::ssl::stream<beast::tcp_stream&>> secure_;
};

HttpConnection::HttpConnection() = default;
HttpConnection::~HttpConnection() = default;

HttpReply HttpConnection::call(const HttpCall& call) {
  if (!open_ || !open_->is_silent()) {
    open_ = std::make_unique<Open>(call);
    ++connects_;
  }
  std::unique_ptr<Open> used = std::move(open_);  // destroyed if the call throws
  bool keeps = false;
  HttpReply reply = used->call(call, keeps);
  if (keeps) open_ = std::move(used);
  return reply;
}

HttpReply http_call(const HttpCall& call) { return HttpConnection().call(call); }

}  // namespace troupe::server
