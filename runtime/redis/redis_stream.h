#pragma once
// Byte stream of one connection to a Redis, plain or over TLS. TLS uses memory buffers only: all
// socket traffic goes through the same two functions as without TLS, so that deadlines and bounds
// hold for both.
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/tls/tls_client.h"

namespace troupe {

using RedisDeadline = std::chrono::steady_clock::time_point;

std::string system_text(int error);
// Returns "" when the socket is ready, otherwise the reason.
std::string wait_for(int socket, short events, RedisDeadline deadline);

// Not thread-safe.
class RedisStream {
 public:
  // Takes a connected, non-blocking socket; the destructor closes it.
  explicit RedisStream(int socket) : socket_(socket) {}
  ~RedisStream();
  RedisStream(const RedisStream&) = delete;
  RedisStream& operator=(const RedisStream&) = delete;

  // Switches to TLS, with a server whose certificate names `host`. Returns "" or the reason.
  std::string begin_tls(const TlsClient& tls, const std::string& host, RedisDeadline deadline);
  // Sets `any_sent` as soon as the server may have received some bytes.
  std::string send_all(std::string_view bytes, RedisDeadline deadline, bool& any_sent);
  // Returns the number of bytes received, at least one, or the reason.
  std::variant<std::size_t, std::string> receive(std::span<char> to, RedisDeadline deadline);
  bool is_quiet();  // false: the server has closed it or sent unrequested bytes

 private:
  std::string send_plain(std::string_view bytes, RedisDeadline deadline, bool& any_sent);
  std::variant<std::size_t, std::string> receive_plain(std::span<char> to, RedisDeadline deadline);
  std::string flush(RedisDeadline deadline, bool& any_sent);  // sends pending TLS output
  std::string feed(RedisDeadline deadline);                   // passes received bytes to TLS
  std::string step(int result, RedisDeadline deadline);

  const int socket_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> tls_{nullptr, nullptr};  // null: plain
};

}  // namespace troupe
