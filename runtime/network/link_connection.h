#pragma once
// One connection between two processes (links.h): frames in, frames out, TLS if wanted, and an end in any
// case: by its peer, by an error, by silence or by hand. Everything runs on the one thread of its io_context.
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

namespace troupe::link {

// For tasks that nobody waits for: an exception that leaves one is a bug, and ends the process.
inline void expect_no_exception(std::exception_ptr fault) {
  if (fault) std::rethrow_exception(fault);
}

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Tcp = boost::asio::ip::tcp;
  using Clock = std::chrono::steady_clock;
  template <class T>
  using Task = boost::asio::awaitable<T>;

  // `security` null: in the clear.
  Connection(Tcp::socket socket, boost::asio::ssl::context* security);

  // Closes it after so long, whatever happens; from join() on, after so long without a byte from the peer.
  void start(Clock::duration limit);
  Task<std::string> call(std::string host, std::uint16_t port);  // "" or what is wrong, as all that follow
  Task<std::string> shake_hands(bool calls);
  bool is_certified_for(const std::string& name) const;

  struct Got {
    Frame frame;
    Bytes body;
    std::string fault;  // then nothing else is meant
  };
  Task<Got> read(bool joined);                           // whether cargo and pings are expected, or a join
  Task<std::string> write_now(Frame frame, Bytes body);  // only before join()

  // From now on cargo may go and come, with a seal if both sides know it and nothing else guards what is
  // said.
  void join(Clock::duration heartbeat, int heartbeats_to_death, bool peer_knows_seals);
  // False if more than `waiting_max` bytes would wait.
  bool send(Address to, std::shared_ptr<const Bytes> envelope, std::size_t waiting_max);

  void close(const std::string& why);
  bool is_open() const { return open_; }
  bool is_quiet() const { return !open_ || waiting_bytes_ == 0; }  // all that was sent is on its way
  const std::string& why() const { return why_; }

 private:
  using Secure = boost::asio::ssl::stream<Tcp::socket>;
  struct Outgoing {
    Header header;
    std::shared_ptr<const Bytes> body;
    Seal seal{};  // of cargo, if it is sealed
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
  Clock::duration patience_{}, heartbeat_{};
  bool open_ = true, joined_ = false, sealed_ = false;
  std::string why_;
  std::deque<Outgoing> outbox_;
  std::vector<Outgoing> batch_;  // being written
  std::size_t waiting_bytes_ = 0;
};

}  // namespace troupe::link
