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

struct PlaceLimits {
  std::uint32_t guests_max = 1024;
  std::uint32_t guests_of_one_max = 256;         // from one address
  std::size_t bytes_max = std::size_t{8} << 20;  // kept for all connections together
};

// Origin of a connection: an IPv4 address, or the /64 of an IPv6 address, because its owner usually
// controls all of it.
using Origin = std::uint64_t;
Origin origin_of(std::span<const unsigned char> address);  // 4 or 16 bytes in network order

class DoorPlaces {
 public:
  using Guest = std::uint64_t;

  explicit DoorPlaces(const PlaceLimits& limits) : limits_(limits) {}

  bool has_room(Origin from) const;
  // Return the connection to close for a new one from there, or from anywhere; nullopt if all are
  // being served.
  std::optional<Guest> goes_for(Origin from) const;
  std::optional<Guest> goes() const;
  // Returns the connection to close because too many bytes are kept; nullopt if they are within the
  // limit.
  std::optional<Guest> goes_for_bytes() const;

  void enter(Guest guest, Origin from);  // adds a connection; it waits for its client
  void leave(Guest guest);               // does nothing for unknown connections
  void waits(Guest guest);               // it waits for its client from now on
  void works(Guest guest);               // the actors have its request
  void keeps(Guest guest, std::size_t bytes);

  std::size_t guests() const { return inside_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Waiting {
    Guest guest;
    std::uint64_t since;
  };
  struct House {  // all connections from one address
    std::size_t guests = 0, bytes = 0;
    std::list<Waiting> waiting;  // longest waiting first
  };
  struct Inside {
    Origin from;
    std::size_t bytes = 0;
    std::optional<std::list<Waiting>::iterator> waiting;
  };

  void stop_waiting(Inside& inside, House& house);

  const PlaceLimits limits_;
  std::map<Guest, Inside> inside_;
  std::map<Origin, House> houses_;
  std::size_t bytes_ = 0;
  std::uint64_t now_ = 0;
};

}  // namespace troupe::server
