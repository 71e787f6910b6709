#pragma once
// Messages over a PageSocket: each has its length (4 bytes, little-endian) in front. Lengths are
// checked before anything is allocated. Messages to send are asked for when the socket takes them, so
// that no reply is assembled before there is space for it; their bytes are read where they lie, and
// only small parts are copied together into one TLS record. All calls are on one thread.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/transfer/page_socket.h"

namespace troupe {

class PageConnection {
 public:
  // `message_max`: maximum bytes of a received message.
  PageConnection(PageSocket socket, std::size_t message_max);

  int fd() const { return socket_.fd(); }
  // "": the connection works. Otherwise the reason, which continues "node N …"; close it.
  const std::string& failure() const { return failure_; }
  // True if the peer sent what no correct peer sends.
  bool malformed() const { return malformed_; }

  // A message to send: `head`, then `parts`, which must stay valid until the next one is asked for.
  struct Outgoing {
    Bytes head;
    std::vector<std::span<const std::uint8_t>> parts;
  };
  // Appends the next message to an Outgoing, whose head is reserved for the length; false: there is
  // none now.
  using Source = std::function<bool(Outgoing&)>;
  // Sends until `next` has nothing more (false), or the socket takes no more or a bound is reached
  // (true).
  bool send(const Source& next);

  // Returns the next whole message, valid until the next call; nullopt: not yet, or a failure.
  std::optional<std::span<const std::uint8_t>> receive();

 private:
  static constexpr std::size_t record_bytes = 16 << 10;              // of TLS
  static constexpr std::size_t direct_bytes_min = 8 << 10;           // smaller parts are copied together
  static constexpr std::size_t sent_at_once = std::size_t{1} << 20;  // then other connections have a turn

  bool fill(std::size_t end);
  void fail(const std::string& why);
  bool has_message(const Source& next);
  std::span<const std::uint8_t> part_left() const;
  void skip(std::size_t bytes);
  std::span<const std::uint8_t> next_bytes(const Source& next);

  PageSocket socket_;
  const std::size_t message_max_;
  std::string failure_;
  bool malformed_ = false;
  std::vector<std::uint8_t> received_;
  std::size_t filled_ = 0;  // bytes of received_
  bool taken_ = false;      // the message in received_ was returned
  Outgoing outgoing_;
  std::size_t part_ = 0, part_at_ = 0;  // position in outgoing_; part 0 is its head
  std::vector<std::uint8_t> staged_;    // small parts that travel together
  std::size_t staged_at_ = 0;
};

}  // namespace troupe
