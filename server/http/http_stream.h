#pragma once
// A client's connection, plain or over TLS, with the same time limits and the same closing either
// way. Until the TLS handshake is over, the number of bytes read from an unauthenticated client is
// bounded.
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace troupe::server {

// Callbacks and buffers each have a single type, because every further type would instantiate all
// of TLS again. One operation per direction at a time; its bytes must stay valid until it is over.
class ClientStream {
 public:
  using Tcp = boost::asio::ip::tcp;
  using Plain = boost::beast::tcp_stream;
  using Error = boost::beast::error_code;
  using Then = std::function<void(Error, std::size_t bytes)>;

  // `security` null = plain. A connection keeps the context that it began with.
  ClientStream(Tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> security);

  bool over_tls() const { return tls_.has_value() && !stays_plain_; }
  bool spoke_plainly() const { return below_.spoke_plainly; }  // the first byte does not begin a handshake
  bool chose_http2();                                          // in the handshake, by ALPN
  void stay_plain() { stays_plain_ = true; }                   // so that the client can be told so

  void shake_hands(std::function<void(Error)> then);
  void read_some(boost::asio::mutable_buffer to, Then then);
  void read_some_below(boost::asio::mutable_buffer to,
                       Then then);  // reads raw bytes from the socket
  // writes all of both
  void write(boost::asio::const_buffer head, boost::asio::const_buffer rest, Then then);
  // Over TLS waits for the peer's close notification, within the time limit; plain connections end
  // at once.
  void shut_down(std::function<void()> then);

  void expires_after(std::chrono::microseconds time) { below_.plain.expires_after(time); }
  void expires_never() { below_.plain.expires_never(); }
  void close() { below_.plain.close(); }
  bool is_open() { return below_.plain.socket().is_open(); }
  // State of the peer, as far as it is known without reading.
  enum class Peer : std::uint8_t { connected, sends_no_more, gone };
  Peer peer();
  void send_no_more();

  static constexpr std::uint64_t handshake_bytes_max = 64 << 10;

 private:
  // Stream beneath TLS; it counts bytes until the handshake is over.
  struct Below {
    using executor_type = Plain::executor_type;
    using lowest_layer_type = Plain::socket_type::lowest_layer_type;
    using next_layer_type = Plain;

    explicit Below(Tcp::socket socket) : plain(std::move(socket)) {}
    executor_type get_executor() { return plain.get_executor(); }
    lowest_layer_type& lowest_layer() { return plain.socket().lowest_layer(); }
    template <class Buffers, class Token>
    auto async_read_some(const Buffers& buffers, Token&& token);
    template <class Buffers, class Token>
    auto async_write_some(const Buffers& buffers, Token&& token);
    template <class Buffers>
    Error look_at(const Buffers& buffers, std::size_t bytes);

    Plain plain;
    std::uint64_t left = handshake_bytes_max;
    bool spoke_plainly = false;
  };

  Below below_;
  std::shared_ptr<boost::asio::ssl::context> security_;
  std::optional<boost::asio::ssl::stream<Below&>> tls_;
  bool stays_plain_ = false;
};

}  // namespace troupe::server
