#pragma once
// Slots for connections that have not joined yet. Anybody can connect, so slots are few, but a new
// connection always gets one: a connection that has not sent a byte loses its slot, one of the same
// address if that address has too many. Addresses of peers have slots of their own, which
// connections from elsewhere cannot take. This class knows neither sockets nor time.
#include <cstdint>
#include <functional>
#include <list>
#include <set>
#include <string>

namespace troupe::link {

class UnjoinedPeers {
 public:
  struct Limits {
    // `in_all` counts addresses that are not a peer's
    std::size_t of_address = 8, of_peer = 16, in_all = 64;
  };
  using Ticket = std::uint64_t;
  using Leave = std::function<void()>;  // closes the connection; must not call this class

  UnjoinedPeers() : UnjoinedPeers(Limits()) {}
  explicit UnjoinedPeers(Limits limits) : limits_(limits) {}

  void set_peer_addresses(std::set<std::string> peers) { peers_ = std::move(peers); }
  // Always gives a slot. `leave` is called if the slot is taken away later. Returns the address of
  // the connection that lost its slot for this one, or "".
  std::string add(const std::string& address, Leave leave, Ticket& ticket);
  void on_first_byte(Ticket ticket, Leave leave);  // its first byte has arrived
  void remove(Ticket ticket);                      // it has joined or is closed
  void clear() { slots_.clear(); }                 // without calling `leave`
  std::size_t size() const { return slots_.size(); }
  bool has(Ticket ticket) const;

 private:
  struct UnjoinedPeer {
    Ticket ticket = 0;
    std::string address;
    bool known = false, silent = true;
    Leave leave;
  };
  template <class Is>
  std::string evict_if_full(std::size_t most, Is is);

  const Limits limits_;
  std::set<std::string> peers_;
  std::list<UnjoinedPeer> slots_;  // oldest first
  Ticket last_ = 0;
};

}  // namespace troupe::link
