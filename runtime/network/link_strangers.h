#pragma once
// The places of those who have connected and not joined yet. Anybody can connect, so places are few, and
// whoever comes has one: somebody who has not said a word gives up his, of the same address if that has too
// many. Addresses of peers have places of their own, which strangers elsewhere cannot take. Pure: nothing
// here knows sockets or time.
#include <cstdint>
#include <functional>
#include <list>
#include <set>
#include <string>

namespace troupe::link {

class Strangers {
 public:
  struct Limits {
    std::size_t of_address = 8, of_peer = 16, in_all = 64;  // in all: of addresses that are no peer's
  };
  using Ticket = std::uint64_t;
  using Leave = std::function<void()>;  // must not call back

  Strangers() : Strangers(Limits()) {}
  explicit Strangers(Limits limits) : limits_(limits) {}

  void know(std::set<std::string> peers) { peers_ = std::move(peers); }
  // Always a place; `leave` is called when it is taken away again. Whose place it was, or "".
  std::string enter(const std::string& address, Leave leave, Ticket& ticket);
  void spoke(Ticket ticket, Leave leave);  // its first byte has come
  void go(Ticket ticket);                  // it has joined, or has gone
  void clear() { here_.clear(); }          // nobody is told
  std::size_t size() const { return here_.size(); }
  bool has(Ticket ticket) const;

 private:
  struct Stranger {
    Ticket ticket = 0;
    std::string address;
    bool known = false, silent = true;
    Leave leave;
  };
  template <class Is>
  std::string make_room(std::size_t most, Is is);

  const Limits limits_;
  std::set<std::string> peers_;
  std::list<Stranger> here_;  // the longest here first
  Ticket last_ = 0;
};

}  // namespace troupe::link
