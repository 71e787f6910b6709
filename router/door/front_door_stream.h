#pragma once
// A client's connection, in the clear or over TLS, with the same time limits and the same end either way. Until the handshake is
// over, no more than so many bytes are taken from who has not said who he is.
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace troupe::router {

class DoorStream {
 public:
  using Tcp = boost::asio::ip::tcp;
  using Plain = boost::beast::tcp_stream;
  using Error = boost::beast::error_code;
  using executor_type = Plain::executor_type;

  // `security` null: in the clear. A connection keeps the one that it began with.
  DoorStream(Tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> security)
      : below_(std::move(socket)), security_(std::move(security)) {
    if (security_) tls_.emplace(below_, *security_);
  }

  executor_type get_executor() { return below_.get_executor(); }
  bool over_tls() const { return tls_.has_value() && !stays_plain_; }
  bool spoke_plainly() const { return below_.spoke_plainly; }  // its first byte begins no handshake
  void stay_plain() { stays_plain_ = true; }                   // so that it can be told that

  template <class Then>
  void shake_hands(Then then) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server, [this, then = std::move(then)](Error error) {
      below_.left = UINT64_MAX;
      then(error);
    });
  }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, void(Error, std::size_t)>(
        [this](auto handler, const Buffers& to) {
          if (over_tls())
            tls_->async_read_some(to, std::move(handler));
          else
            below_.plain.async_read_some(to, std::move(handler));
        },
        token, buffers);
  }
  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, void(Error, std::size_t)>(
        [this](auto handler, const Buffers& from) {
          if (over_tls())
            tls_->async_write_some(from, std::move(handler));
          else
            below_.plain.async_write_some(from, std::move(handler));
        },
        token, buffers);
  }
  // Over TLS the peer's farewell is waited for, within the time limit; in the clear at once.
  template <class Then>
  void say_farewell(Then then) {
    if (!over_tls()) return then();
    tls_->async_shutdown([then = std::move(then)](Error) { then(); });
  }

  void expires_after(std::chrono::microseconds time) { below_.plain.expires_after(time); }
  void expires_never() { below_.plain.expires_never(); }
  void close() { below_.plain.close(); }
  bool is_open() { return below_.plain.socket().is_open(); }
  void send_no_more() {
    Error ignored;
    below_.plain.socket().shutdown(Tcp::socket::shutdown_send, ignored);
  }
  Plain& below() { return below_.plain; }

  static constexpr std::uint64_t handshake_bytes_max = 64 << 10;

 private:
  // What TLS reads from, which counts until the handshake is over.
  struct Below {
    using executor_type = Plain::executor_type;
    using lowest_layer_type = Plain::socket_type::lowest_layer_type;
    using next_layer_type = Plain;

    explicit Below(Tcp::socket socket) : plain(std::move(socket)) {}
    executor_type get_executor() { return plain.get_executor(); }
    lowest_layer_type& lowest_layer() { return plain.socket().lowest_layer(); }

    template <class Buffers, class Token>
    auto async_read_some(const Buffers& buffers, Token&& token) {
      return boost::asio::async_initiate<Token, void(Error, std::size_t)>(
          [this](auto handler, const Buffers& to) {
            plain.async_read_some(to, [this, to, handler = std::move(handler)](Error error, std::size_t bytes) mutable {
              if (!error) error = look_at(to, bytes);
              handler(error, bytes);
            });
          },
          token, buffers);
    }
    template <class Buffers, class Token>
    auto async_write_some(const Buffers& buffers, Token&& token) {
      return plain.async_write_some(buffers, std::forward<Token>(token));
    }

    template <class Buffers>
    Error look_at(const Buffers& buffers, std::size_t bytes) {
      if (left == UINT64_MAX) return {};
      constexpr char handshake = 0x16;  // a record's type
      if (left == handshake_bytes_max && bytes > 0) {
        char first = 0;
        boost::asio::buffer_copy(boost::asio::buffer(&first, 1), buffers);
        spoke_plainly = first != handshake;
      }
      const bool fits = bytes <= left;
      left -= std::min<std::uint64_t>(bytes, left);
      return fits && !spoke_plainly ? Error() : make_error_code(boost::system::errc::protocol_error);
    }

    Plain plain;
    std::uint64_t left = handshake_bytes_max;
    bool spoke_plainly = false;
  };

  Below below_;
  std::shared_ptr<boost::asio::ssl::context> security_;
  std::optional<boost::asio::ssl::stream<Below&>> tls_;
  bool stays_plain_ = false;
};

}  // namespace troupe::router
