#include "runtime/network/link_strangers.h"

#include <doctest/doctest.h>

#include <vector>

namespace troupe::link {
namespace {

struct Room {
  Strangers strangers{{.of_address = 2, .of_peer = 3, .in_all = 4}};
  std::vector<Strangers::Ticket> left;

  Strangers::Ticket enter(const std::string& address) {
    Strangers::Ticket ticket = 0;
    strangers.enter(
        address, [this, own = next_++] { left.push_back(own); }, ticket);
    CHECK(ticket == next_ - 1);
    return ticket;
  }

 private:
  Strangers::Ticket next_ = 1;
};

TEST_CASE(
    "unjoined peers: a new connection gets a slot, and the longest silent one of its address loses its own") {
  Room room;
  for (int i = 0; i < 5; ++i) room.enter("a");
  CHECK(room.left == std::vector<Strangers::Ticket>{1, 2, 3});
  room.enter("b");
  CHECK(room.left.size() == 3);
}

TEST_CASE("unjoined peers: a connection that has sent a byte outlives silent ones") {
  Room room;
  const auto speaker = room.enter("a");
  room.strangers.spoke(speaker, [] {});
  for (int i = 0; i < 5; ++i) room.enter("a");
  CHECK(room.strangers.has(speaker));
  CHECK(room.strangers.size() == 2);
}

TEST_CASE("unjoined peers: if none is silent, the oldest connection loses its slot") {
  Room room;
  bool told = false;
  const auto first = room.enter("a");
  room.strangers.spoke(first, [&] { told = true; });
  room.strangers.spoke(room.enter("a"), [] {});
  room.enter("a");
  CHECK(told);
  CHECK_FALSE(room.strangers.has(first));
}

TEST_CASE("unjoined peers: connections from many addresses do not take the slots of peers") {
  Room room;
  room.strangers.know({"peer"});
  const auto peer = room.enter("peer");
  for (int i = 0; i < 50; ++i) room.enter("attacker " + std::to_string(i));
  CHECK(room.strangers.has(peer));
  CHECK(room.strangers.size() == 5);
  for (int i = 0; i < 9; ++i) room.enter("peer");
  CHECK(room.strangers.size() == 7);
}

TEST_CASE("unjoined peers: a closed connection frees its slot") {
  Room room;
  const auto first = room.enter("a"), second = room.enter("a");
  room.strangers.go(first);
  room.enter("a");
  CHECK(room.left.empty());
  CHECK(room.strangers.has(second));
  room.strangers.go(99);
  CHECK(room.strangers.size() == 2);
}

}  // namespace
}  // namespace troupe::link
