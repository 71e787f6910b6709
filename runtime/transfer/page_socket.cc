// Reads and writes a connected socket without blocking, over TLS if it has a session.
#include "runtime/transfer/page_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

namespace troupe {
namespace {

// Larger buffers fall out of the caches before they are read (ucx_library.cc has the same bound).
constexpr int page_socket_buffer_bytes = 256 << 10;

int int_of(std::size_t bytes) { return static_cast<int>(std::min<std::size_t>(bytes, INT_MAX)); }

PageSocket::Moved moved_by(ssize_t bytes) {
  if (bytes > 0) return {PageSocket::Progress::some, static_cast<std::size_t>(bytes)};
  const bool again = bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return {again ? PageSocket::Progress::later : PageSocket::Progress::closed};
}

}  // namespace

// Keeps the session's buffers between records; Boost.Asio, which may have made it, chooses to free them.
PageSocket::PageSocket(int fd, ssl_st* session) : fd_(fd), session_(session) {
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
  fcntl(fd_, F_SETFD, FD_CLOEXEC);
  const int one = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd_, SOL_SOCKET, SO_SNDBUF, &page_socket_buffer_bytes, sizeof page_socket_buffer_bytes);
  if (!session_) return;
  SSL_set_mode(session_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_clear_mode(session_, SSL_MODE_RELEASE_BUFFERS);
}

PageSocket::~PageSocket() {
  if (session_) SSL_free(session_);
  if (fd_ >= 0) close(fd_);
}

PageSocket::PageSocket(PageSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), session_(std::exchange(other.session_, nullptr)) {}

PageSocket& PageSocket::operator=(PageSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(session_, other.session_);
  return *this;
}

PageSocket::Moved PageSocket::result_of(int moved) const {
  if (moved > 0) return {Progress::some, static_cast<std::size_t>(moved)};
  const int error = SSL_get_error(session_, moved);
  ERR_clear_error();
  const bool again = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
  return {again ? Progress::later : Progress::closed};
}

PageSocket::Moved PageSocket::read(std::span<std::uint8_t> to) {
  if (!session_) return moved_by(recv(fd_, to.data(), to.size(), 0));
  ERR_clear_error();
  return result_of(SSL_read(session_, to.data(), int_of(to.size())));
}

PageSocket::Moved PageSocket::write(std::span<const std::uint8_t> from) {
  if (!session_) return moved_by(send(fd_, from.data(), from.size(), MSG_NOSIGNAL));
  ERR_clear_error();
  return result_of(SSL_write(session_, from.data(), int_of(from.size())));
}

}  // namespace troupe
