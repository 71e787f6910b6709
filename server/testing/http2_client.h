#pragma once
// A client of HTTP/2 over a socket, for tests of the whole server.
#include <boost/asio.hpp>
#include <string>
#include <utility>

#include "server/testing/http2_peer.h"

namespace troupe::server::http2_test {

class Http2Client {
 public:
  explicit Http2Client(std::uint16_t port, const char* from = "127.0.0.1") {
    using boost::asio::ip::make_address;
    socket_.open(Tcp::v4());
    socket_.bind({make_address(from), 0});
    socket_.connect({make_address("127.0.0.1"), port});
  }

  Http2StreamId ask(const Http2Fields& fields, std::string body = "", bool ends = true) {
    const Http2StreamId stream = peer.ask(fields, std::move(body), ends);
    flush();
    return stream;
  }
  void send(Http2StreamId stream, const std::string& bytes, bool ends = false) {
    peer.send(stream, bytes, ends);
    flush();
  }
  // Sends the rest of a body that is larger than the server's window, unless the stream is closed.
  void finish_sending(Http2StreamId stream) {
    while (peer.has_unsent(stream) && !peer.answer(stream).ended && step()) {
    }
  }
  void cancel(Http2StreamId stream) {
    peer.cancel(stream);
    flush();
  }
  // Waits until the stream or the connection is closed.
  const PeerAnswer& answer(Http2StreamId stream) {
    while (!peer.answer(stream).ended && step()) {
    }
    return peer.answer(stream);
  }
  const PeerAnswer& call(const Http2Fields& fields, std::string body = "") {
    return answer(ask(fields, std::move(body)));
  }
  // Waits for a body that has begun to have this text.
  bool waits_for(Http2StreamId stream, const std::string& text) {
    while (peer.answer(stream).body.find(text) == std::string::npos)
      if (peer.answer(stream).ended || !step()) return false;
    return true;
  }
  // Waits for a status, also an interim one, and returns it.
  std::string status(Http2StreamId stream) {
    while (peer.answer(stream).status.empty() && !peer.answer(stream).ended && step()) {
    }
    return peer.answer(stream).status;
  }
  void wait_until_closed() {
    while (step()) {
    }
  }
  Http2Peer peer;

 private:
  using Tcp = boost::asio::ip::tcp;

  void flush() { boost::asio::write(socket_, boost::asio::buffer(peer.output()), error_); }
  bool step() {
    char bytes[16 << 10];
    boost::system::error_code error;
    const std::size_t size = socket_.read_some(boost::asio::buffer(bytes), error);
    if (error) return false;
    peer.input({bytes, size});
    flush();
    return true;
  }

  boost::asio::io_context io_;
  Tcp::socket socket_{io_};
  boost::system::error_code error_;
};

}  // namespace troupe::server::http2_test
