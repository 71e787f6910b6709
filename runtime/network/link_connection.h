#pragma once
// A connection between two processes (links.h): reads and writes frames, over TLS if configured. It
// ends when the peer closes it, on an error, after silence, or by close(). Everything runs on the
// single thread of its io_context.
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <chrono>
#include <deque>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "runtime/network/link_wire.h"
#include "runtime/transfer/page_socket.h"

namespace troupe::link {

// Completion handler of detached tasks: an exception that leaves one is a bug, and ends the
// process.
inline void expect_no_exception(std::exception_ptr fault) {
  if (fault) std::rethrow_exception(fault);
}

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Tcp = boost::asio::ip::tcp;
  using Clock = std::chrono::steady_clock;
  template <class T>
  using Task = boost::asio::awaitable<T>;

  // `security`: TLS context; null = no encryption.
  Connection(Tcp::socket socket, boost::asio::ssl::context* security);

  // Closes the connection after `limit`, whatever happens. From join() on, the connection instead
  // closes after `heartbeats_to_death` heartbeats without a byte from the peer.
  void start(Clock::duration limit);
  // Like the tasks below, returns "" or the fault.
  Task<std::string> call(std::string host, std::uint16_t port);
  Task<std::string> shake_hands(bool calls);
  bool is_certified_for(const std::string& name) const;

  struct ReadResult {
    Frame frame;
    Bytes body;
    std::string fault;  // if not empty, the other members are meaningless
  };
  Task<ReadResult> read(bool joined);  // `joined`: expects cargo and pings; otherwise a join.
  Task<std::string> write_now(Frame frame, Bytes body);  // only before join()

  // Allows cargo from now on. Cargo is sealed if both sides support it and no TLS protects it.
  void join(Clock::duration heartbeat, int heartbeats_to_death, bool peer_supports_seals);
  // Returns false if more than `waiting_max` bytes would wait.
  bool send(Address to, std::shared_ptr<const Bytes> envelope, std::size_t waiting_max);

  // Takes the socket and its TLS session away, for another thread; this connection is then closed.
  // Only before join(), after the joins were exchanged and while the peer sends nothing: bytes that
  // were already received would be lost. A closed connection gives a closed socket.
  PageSocket release();

  void close(const std::string& why);
  bool is_open() const { return open_; }
  // everything sent has been handed to the system
  bool is_quiet() const { return !open_ || waiting_bytes_ == 0; }
  const std::string& why() const { return why_; }

 private:
  using Secure = boost::asio::ssl::stream<Tcp::socket>;
  struct Outgoing {
    Header header;
    std::shared_ptr<const Bytes> body;
    Seal seal{};  // seal of the cargo, if the connection is sealed
  };

  Tcp::socket& socket();
  template <class Use>
  auto over(const Use& use);
  Task<std::string> read_bytes(std::span<std::uint8_t> to);
  Task<void> write_all();
  Task<void> watch();
  void take_batch();
  void touch();

  std::variant<Tcp::socket, Secure> stream_;
  boost::asio::steady_timer watch_, wake_;
  Clock::time_point dead_at_;
  Clock::duration silence_limit_{}, heartbeat_{};
  bool open_ = true, joined_ = false, sealed_ = false;
  std::string why_;
  std::deque<Outgoing> outbox_;
  std::vector<Outgoing> batch_;  // frames being written
  std::size_t waiting_bytes_ = 0;
};

}  // namespace troupe::link
