#pragma once
// Limits connections and the memory kept for them: how many there are per address, and how many
// bytes each keeps. Decides which connection closes so that a new one can come in. A connection
// whose request is with the actors never closes for this. Among those that wait for their client,
// it is the longest waiting one of the address with the most connections. A client that takes all
// connections, or all memory, therefore takes them only from itself. Pure: time is the order of
// calls.
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>

namespace troupe::server {

struct ConnectionLimits {
  std::uint32_t connections_max = 1024;
  std::uint32_t connections_per_address_max = 256;  // from one address
  std::size_t bytes_max = std::size_t{8} << 20;     // kept for all connections together
};

// Origin of a connection: an IPv4 address, or the /64 of an IPv6 address, because its owner usually
// controls all of it.
using Origin = std::uint64_t;
Origin origin_of(std::span<const unsigned char> address);  // 4 or 16 bytes in network order

class ConnectionLimiter {
 public:
  using ConnectionId = std::uint64_t;

  explicit ConnectionLimiter(const ConnectionLimits& limits) : limits_(limits) {}

  bool has_capacity(Origin from) const;
  // Return the connection to close for a new one from there, or from anywhere; nullopt if all are
  // being served.
  std::optional<ConnectionId> connection_to_close_for(Origin from) const;
  std::optional<ConnectionId> connection_to_close() const;
  // Returns the connection to close because too many bytes are kept; nullopt if they are within the
  // limit.
  std::optional<ConnectionId> connection_to_close_for_bytes() const;
  // Returns true if a connection keeps more than another: its address does, or, of one address, itself.
  bool keeps_more(ConnectionId connection_id, ConnectionId other) const;
  bool has_free_bytes(std::size_t bytes) const { return bytes_ + bytes <= limits_.bytes_max; }

  void enter(ConnectionId connection_id, Origin from);  // adds a connection; it waits for its client
  void leave(ConnectionId connection_id);               // does nothing for unknown connections
  void waits(ConnectionId connection_id);               // it waits for its client from now on
  void mark_serving(ConnectionId connection_id);        // the actors have its request
  void set_bytes(ConnectionId connection_id, std::size_t bytes);

  std::size_t connection_count() const { return connections_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Waiting {
    ConnectionId connection_id;
    std::uint64_t since;
  };
  struct AddressConnections {  // all connections from one address
    std::size_t connection_count = 0, bytes = 0;
    std::list<Waiting> waiting;  // longest waiting first
  };
  struct ConnectionState {
    Origin from;
    std::size_t bytes = 0;
    std::optional<std::list<Waiting>::iterator> waiting;
  };

  void stop_waiting(ConnectionState& inside, AddressConnections& address);

  const ConnectionLimits limits_;
  std::map<ConnectionId, ConnectionState> connections_;
  std::map<Origin, AddressConnections> addresses_;
  std::size_t bytes_ = 0;
  std::uint64_t now_ = 0;
};

}  // namespace troupe::server
