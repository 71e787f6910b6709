#pragma once
// The bytes of one connection to a Redis, in the clear or over TLS. TLS reads and writes memory only; what
// goes over the socket goes through the same two functions as without it, so that deadlines and bounds hold
// for both.
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
// "" when the socket is ready, otherwise why not.
std::string wait_for(int socket, short events, RedisDeadline deadline);

// Not thread-safe.
class RedisStream {
 public:
  explicit RedisStream(int socket) : socket_(socket) {}  // connected, not blocking; closed with this
  ~RedisStream();
  RedisStream(const RedisStream&) = delete;
  RedisStream& operator=(const RedisStream&) = delete;

  // From now on over TLS, with a server that has a certificate for `host`. "" or why not.
  std::string begin_tls(const TlsClient& tls, const std::string& host, RedisDeadline deadline);
  // `any_sent` is set as soon as the server may have some of it.
  std::string send_all(std::string_view bytes, RedisDeadline deadline, bool& any_sent);
  // How many bytes came, at least one; or why none.
  std::variant<std::size_t, std::string> receive(std::span<char> to, RedisDeadline deadline);
  bool is_quiet();  // false: the server has closed it, or said what nobody asked for

 private:
  std::string send_plain(std::string_view bytes, RedisDeadline deadline, bool& any_sent);
  std::variant<std::size_t, std::string> receive_plain(std::span<char> to, RedisDeadline deadline);
  std::string flush(RedisDeadline deadline, bool& any_sent);  // what TLS has to say
  std::string feed(RedisDeadline deadline);                   // to TLS what the server says
  std::string step(int result, RedisDeadline deadline);

  const int socket_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> tls_{nullptr, nullptr};  // null: in the clear
};

}  // namespace troupe
