// Connects to Redis and moves bytes with a deadline, plain or through TLS. TLS works on memory
// buffers, so both ways share the same two socket functions.
#include "runtime/redis/redis_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <exception>

namespace troupe {
namespace {

constexpr const char *too_late = "no answer in time", *closed = "it closed the connection";
constexpr std::size_t piece_bytes = 16 << 10;  // one TLS record

bool is_not_yet(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

std::string system_text(int error) {
  std::array<char, 128> text{};
  return strerror_r(error, text.data(), text.size());
}

std::string wait_for(int socket, short events, RedisDeadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return too_late;
    pollfd wanted{socket, events, 0};
    const int ready = poll(&wanted, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (ready > 0) return "";
    if (ready < 0 && errno != EINTR) return system_text(errno);
  }
}

RedisStream::~RedisStream() { close(socket_); }

std::string RedisStream::send_plain(std::string_view bytes, RedisDeadline deadline, bool& any_sent) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      any_sent = true;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (std::string why = wait_for(socket_, POLLOUT, deadline); !why.empty()) return why;
    } else if (errno != EINTR) {
      return "cannot send: " + system_text(errno);
    }
  }
  return "";
}

std::variant<std::size_t, std::string> RedisStream::receive_plain(std::span<char> to,
                                                                  RedisDeadline deadline) {
  for (;;) {
    if (std::string why = wait_for(socket_, POLLIN, deadline); !why.empty()) return why;
    const ssize_t got = recv(socket_, to.data(), to.size(), 0);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) return closed;
    if (!is_not_yet(errno)) return "the connection broke: " + system_text(errno);
  }
}

// ---- TLS ----

std::string RedisStream::begin_tls(const TlsClient& tls, const std::string& host, RedisDeadline deadline) {
  try {
    tls_ = tls.begin(host);
  } catch (const std::exception& error) {
    return error.what();
  }
  BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
  SSL_set_bio(tls_.get(), in, out);  // the SSL object owns them now
  for (;;) {
    ERR_clear_error();
    const int result = SSL_do_handshake(tls_.get());
    const std::string why = step(result, deadline);
    if (!why.empty() || result == 1) return why;
  }
}

// Sends pending TLS output after a TLS call, and receives bytes if TLS needs more.
std::string RedisStream::step(int result, RedisDeadline deadline) {
  const int error = SSL_get_error(tls_.get(), result);
  // Read before flush adds other errors.
  const std::string words = error == SSL_ERROR_SSL ? tls_failure(tls_.get()) : "";
  bool any_sent = false;
  const std::string unsent = flush(deadline, any_sent);
  if (!words.empty()) return words;
  if (!unsent.empty()) return unsent;
  if (error == SSL_ERROR_WANT_READ) return feed(deadline);
  return error == SSL_ERROR_ZERO_RETURN || error == SSL_ERROR_SYSCALL ? closed : "";
}

std::string RedisStream::flush(RedisDeadline deadline, bool& any_sent) {
  std::array<char, piece_bytes> piece;
  for (;;) {
    const int size = BIO_read(SSL_get_wbio(tls_.get()), piece.data(), static_cast<int>(piece.size()));
    if (size <= 0) return "";
    if (std::string why = send_plain({piece.data(), static_cast<std::size_t>(size)}, deadline, any_sent);
        !why.empty())
      return why;
  }
}

std::string RedisStream::feed(RedisDeadline deadline) {
  std::array<char, piece_bytes> piece;
  auto got = receive_plain(piece, deadline);
  if (auto* why = std::get_if<std::string>(&got)) return std::move(*why);
  const int size = static_cast<int>(std::get<std::size_t>(got));
  return BIO_write(SSL_get_rbio(tls_.get()), piece.data(), size) == size ? "" : "TLS: out of memory";
}

// ---- plain and TLS ----

std::string RedisStream::send_all(std::string_view bytes, RedisDeadline deadline, bool& any_sent) {
  if (!tls_) return send_plain(bytes, deadline, any_sent);
  while (!bytes.empty()) {
    ERR_clear_error();
    const int wanted = static_cast<int>(std::min(bytes.size(), piece_bytes));
    const int taken = SSL_write(tls_.get(), bytes.data(), wanted);
    if (taken <= 0) {
      if (std::string why = step(taken, deadline); !why.empty()) return why;
      continue;
    }
    bytes.remove_prefix(static_cast<std::size_t>(taken));
    if (std::string why = flush(deadline, any_sent); !why.empty()) return why;
  }
  return "";
}

std::variant<std::size_t, std::string> RedisStream::receive(std::span<char> to, RedisDeadline deadline) {
  if (!tls_) return receive_plain(to, deadline);
  for (;;) {
    ERR_clear_error();
    const int got =
        SSL_read(tls_.get(), to.data(), static_cast<int>(std::min<std::size_t>(to.size(), INT_MAX)));
    if (got > 0) return static_cast<std::size_t>(got);
    if (std::string why = step(got, deadline); !why.empty()) return why;
  }
}

// Over TLS the server may have sent bytes for TLS alone, such as tickets.
bool RedisStream::is_quiet() {
  char byte;
  if (!tls_) return recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && is_not_yet(errno);
  std::array<char, piece_bytes> piece;
  const ssize_t got = recv(socket_, piece.data(), piece.size(), MSG_DONTWAIT);
  if (got == 0 || (got < 0 && !is_not_yet(errno))) return false;
  if (got > 0 && BIO_write(SSL_get_rbio(tls_.get()), piece.data(), static_cast<int>(got)) != got)
    return false;
  ERR_clear_error();
  const int seen = SSL_peek(tls_.get(), &byte, 1);
  return seen <= 0 && SSL_get_error(tls_.get(), seen) == SSL_ERROR_WANT_READ;
}

}  // namespace troupe
