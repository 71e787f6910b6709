// Reads, writes and closes a client's connection, plain or over TLS, within time limits. The rest
// of the server need not know which it is.
#include "server/http/http_stream.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace troupe::server {

namespace asio = boost::asio;

template <class Buffers, class Token>
auto ClientStream::Below::async_read_some(const Buffers& buffers, Token&& token) {
  return asio::async_initiate<Token, void(Error, std::size_t)>(
      [this](auto handler, const Buffers& to) {
        plain.async_read_some(
            to, [this, to, handler = std::move(handler)](Error error, std::size_t bytes) mutable {
              if (!error) error = look_at(to, bytes);
              handler(error, bytes);
            });
      },
      token, buffers);
}

template <class Buffers, class Token>
auto ClientStream::Below::async_write_some(const Buffers& buffers, Token&& token) {
  return plain.async_write_some(buffers, std::forward<Token>(token));
}

template <class Buffers>
ClientStream::Error ClientStream::Below::look_at(const Buffers& buffers, std::size_t bytes) {
  if (left == UINT64_MAX) return {};
  constexpr char handshake = 0x16;  // record type of a handshake
  if (left == handshake_bytes_max && bytes > 0) {
    char first = 0;
    asio::buffer_copy(asio::buffer(&first, 1), buffers);
    spoke_plainly = first != handshake;
  }
  const bool fits = bytes <= left;
  left -= std::min<std::uint64_t>(bytes, left);
  return fits && !spoke_plainly ? Error() : make_error_code(boost::system::errc::protocol_error);
}

ClientStream::ClientStream(Tcp::socket socket, std::shared_ptr<asio::ssl::context> security)
    : below_(std::move(socket)), security_(std::move(security)) {
  if (security_) tls_.emplace(below_, *security_);
}

void ClientStream::shake_hands(std::function<void(Error)> then) {
  tls_->async_handshake(asio::ssl::stream_base::server, [this, then = std::move(then)](Error error) {
    below_.left = UINT64_MAX;
    then(error);
  });
}

bool ClientStream::chose_http2() {
  const unsigned char* name = nullptr;
  unsigned bytes = 0;
  if (over_tls()) SSL_get0_alpn_selected(tls_->native_handle(), &name, &bytes);
  return std::string_view(reinterpret_cast<const char*>(name), bytes) == "h2";
}

void ClientStream::read_some(asio::mutable_buffer to, Then then) {
  if (over_tls())
    tls_->async_read_some(to, std::move(then));
  else
    below_.plain.async_read_some(to, std::move(then));
}

void ClientStream::read_some_below(asio::mutable_buffer to, Then then) {
  below_.plain.async_read_some(to, std::move(then));
}

void ClientStream::write(asio::const_buffer head, asio::const_buffer rest, Then then) {
  const std::array<asio::const_buffer, 2> from{head, rest};
  if (over_tls())
    asio::async_write(*tls_, from, std::move(then));
  else
    asio::async_write(below_.plain, from, std::move(then));
}

void ClientStream::shut_down(std::function<void()> then) {
  if (!over_tls()) return then();
  tls_->async_shutdown([then = std::move(then)](Error) { then(); });
}

ClientStream::Peer ClientStream::peer() {
  if (!is_open()) return Peer::gone;
  pollfd look{.fd = below_.plain.socket().native_handle(), .events = POLLRDHUP, .revents = 0};
  if (::poll(&look, 1, 0) <= 0) return Peer::connected;
  if ((look.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return Peer::gone;
  return (look.revents & POLLRDHUP) != 0 ? Peer::sends_no_more : Peer::connected;
}

void ClientStream::send_no_more() {
  Error ignored;
  below_.plain.socket().shutdown(Tcp::socket::shutdown_send, ignored);
}

}  // namespace troupe::server
