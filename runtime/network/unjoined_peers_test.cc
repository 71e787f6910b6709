#include "runtime/network/unjoined_peers.h"

#include <doctest/doctest.h>

#include <vector>

namespace troupe::link {
namespace {

struct Capacity {
  UnjoinedPeers unjoined{{.of_address = 2, .of_peer = 3, .in_all = 4}};
  std::vector<UnjoinedPeers::Ticket> left;

  UnjoinedPeers::Ticket add(const std::string& address) {
    UnjoinedPeers::Ticket ticket = 0;
    unjoined.add(
        address, [this, own = next_++] { left.push_back(own); }, ticket);
    CHECK(ticket == next_ - 1);
    return ticket;
  }

 private:
  UnjoinedPeers::Ticket next_ = 1;
};

TEST_CASE(
    "unjoined peers: a new connection gets a slot, and the longest silent one of its address loses its own") {
  Capacity capacity;
  for (int i = 0; i < 5; ++i) capacity.add("a");
  CHECK(capacity.left == std::vector<UnjoinedPeers::Ticket>{1, 2, 3});
  capacity.add("b");
  CHECK(capacity.left.size() == 3);
}

TEST_CASE("unjoined peers: a connection that has sent a byte outlives silent ones") {
  Capacity capacity;
  const auto speaker = capacity.add("a");
  capacity.unjoined.on_first_byte(speaker, [] {});
  for (int i = 0; i < 5; ++i) capacity.add("a");
  CHECK(capacity.unjoined.has(speaker));
  CHECK(capacity.unjoined.size() == 2);
}

TEST_CASE("unjoined peers: if none is silent, the oldest connection loses its slot") {
  Capacity capacity;
  bool reported = false;
  const auto first = capacity.add("a");
  capacity.unjoined.on_first_byte(first, [&] { reported = true; });
  capacity.unjoined.on_first_byte(capacity.add("a"), [] {});
  capacity.add("a");
  CHECK(reported);
  CHECK_FALSE(capacity.unjoined.has(first));
}

TEST_CASE("unjoined peers: connections from many addresses do not take the slots of peers") {
  Capacity capacity;
  capacity.unjoined.set_peer_addresses({"peer"});
  const auto peer = capacity.add("peer");
  for (int i = 0; i < 50; ++i) capacity.add("attacker " + std::to_string(i));
  CHECK(capacity.unjoined.has(peer));
  CHECK(capacity.unjoined.size() == 5);
  for (int i = 0; i < 9; ++i) capacity.add("peer");
  CHECK(capacity.unjoined.size() == 7);
}

TEST_CASE("unjoined peers: a closed connection frees its slot") {
  Capacity capacity;
  const auto first = capacity.add("a"), second = capacity.add("a");
  capacity.unjoined.remove(first);
  capacity.add("a");
  CHECK(capacity.left.empty());
  CHECK(capacity.unjoined.has(second));
  capacity.unjoined.remove(99);
  CHECK(capacity.unjoined.size() == 2);
}

}  // namespace
}  // namespace troupe::link
