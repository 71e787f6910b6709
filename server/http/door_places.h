#pragma once
// Who is inside the door: how many from where, and how many bytes are kept for them. Says who has to go so
// that somebody new can come in: nobody whose request the actors have, and of those that wait for their
// client one of the address with the most, whoever waits longest. So a stranger who takes all places, or all
// memory, takes them from himself. Pure: time is the order of calls.
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
  std::size_t bytes_max = std::size_t{8} << 20;  // kept for all of them
};

// Where a guest comes from: an IPv4 address, or the /64 of an IPv6 address, for who has one has all of that.
using Origin = std::uint64_t;
Origin origin_of(std::span<const unsigned char> address);  // 4 or 16 bytes, as on the network

class DoorPlaces {
 public:
  using Guest = std::uint64_t;

  explicit DoorPlaces(const PlaceLimits& limits) : limits_(limits) {}

  bool has_room(Origin from) const;
  // Who goes for somebody from there, or for anybody; none if all who could are being served.
  std::optional<Guest> goes_for(Origin from) const;
  std::optional<Guest> goes() const;
  // Who goes because more bytes are kept than may be; none if they may.
  std::optional<Guest> goes_for_bytes() const;

  void enter(Guest guest, Origin from);  // waits for its client
  void leave(Guest guest);               // who is not inside may leave too
  void waits(Guest guest);               // for its client, from now on
  void works(Guest guest);               // the actors have its request
  void keeps(Guest guest, std::size_t bytes);

  std::size_t guests() const { return inside_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Waiting {
    Guest guest;
    std::uint64_t since;
  };
  struct House {  // all from one address
    std::size_t guests = 0, bytes = 0;
    std::list<Waiting> waiting;  // longest first
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
