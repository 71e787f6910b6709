#include "router/door/front_door_client.h"

#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <chrono>

namespace troupe::router {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

constexpr std::uint64_t body_bytes_max = 32 << 20;   // that of a reply of 100,000 items has some 10 MiB
constexpr std::size_t buffer_bytes_max = 128 << 10;  // what is not understood yet; Beast bounds no line of a chunk

// Runs the loop until the step that was just begun has ended.
void finish(asio::io_context& io, const beast::error_code& error, const std::string& where) {
  io.restart();
  io.run();
  if (error)
    throw ClientError("http://" + where + ": " + error.message() + "; expected a running troupe server");
}

}  // namespace

std::string host_and_port(std::string server) {
  if (server.starts_with("https://"))
    throw ClientError("server " + server +
                      ": the door speaks no TLS; expected http://host:port or host:port");
  if (server.starts_with("http://")) server.erase(0, 7);
  while (server.ends_with('/')) server.pop_back();
  const std::size_t colon = server.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == server.size())
    throw ClientError("server " + server +
                      " has no host or no port; expected host:port, such as 127.0.0.1:8080");
  return server;
}

HttpReply http_call(const HttpCall& asked) {
  HttpCall call = asked;
  call.server = host_and_port(call.server);
  const std::size_t colon = call.server.rfind(':');
  asio::io_context io;
  beast::tcp_stream stream(io);
  beast::error_code error;
  const auto targets =
      asio::ip::tcp::resolver(io).resolve(call.server.substr(0, colon), call.server.substr(colon + 1), error);
  if (error)
    throw ClientError("server " + call.server + ": " + error.message() +
                      "; expected host:port of a running troupe server, such as 127.0.0.1:8080");
  auto note = [&error](beast::error_code e, auto&&...) { error = e; };

  stream.expires_after(std::chrono::microseconds(call.timeout_us));
  stream.async_connect(targets, note);
  finish(io, error, call.server);

  http::request<http::string_body> request(http::string_to_verb(call.method), call.target, 11, call.body);
  request.set(http::field::host, call.server);
  request.set(http::field::content_type, "application/json");
  if (!call.tenant.empty()) request.set("x-troupe-tenant", call.tenant);
  request.prepare_payload();
  http::async_write(stream, request, note);
  finish(io, error, call.server);

  beast::flat_buffer buffer{buffer_bytes_max};
  http::response_parser<http::string_body> parser;
  parser.body_limit(body_bytes_max);
  http::async_read(stream, buffer, parser, note);
  finish(io, error, call.server);
  return {parser.get().result_int(), parser.get().body()};
}

}  // namespace troupe::router
