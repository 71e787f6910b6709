#include "runtime/coordination/etcd_history.h"

#include <doctest/doctest.h>

#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe {
namespace etcd_history_test {

TEST_CASE(
    "etcd history: numbers after a raise are larger than everything before, and earlier keys keep theirs") {
  EtcdHistory history;
  CHECK(history.number_of(17) == 17);
  history.raise(17, 950);
  CHECK(history.number_of(0) == 0);
  CHECK(history.number_of(17) == 17);
  CHECK(history.number_of(18) == 951);
  CHECK(history.etcd_of(17) == Revision{17});
  CHECK(history.etcd_of(951) == Revision{18});
  CHECK(history.etcd_of(0) == Revision{0});
  for (const Revision never : {Revision{18}, Revision{900}, Revision{950}})
    CHECK_FALSE(history.etcd_of(never).has_value());  // seen in a history that is lost
  history.raise(20, 900);                             // the numbers are larger already
  CHECK(history.number_of(21) == 954);
}

TEST_CASE("etcd history: its text round-trips, and other texts are rejected") {
  EtcdHistory history;
  history.set_id(7);
  history.raise(17, 950);
  history.raise(30, 5'000);
  CHECK(history.text() == "id 7\nraised 17 933\nraised 30 4970\n");
  CHECK(EtcdHistory::parse(history.text())->text() == history.text());
  for (const char* bad :
       {"", "id 7", "id 0\n", "id x\n", "id 7\n\n", "raised 1 2\n", "id 7\nraised 1\n",
        "id 7\nraised 1 2 3\n", "id 7\nraised 5 5\nraised 4 6\n", "id 7\nraised 5 5\nraised 6 4\n",
        "id 7\nraised 1 9223372036854775807\n", "id 7\nlowered 1 2\n"})
    CHECK_FALSE(EtcdHistory::parse(bad).has_value());
}

TEST_CASE("etcd history: over any losses and raises, numbers only rise and lead back to their revision") {
  const unsigned seed = 3;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int run = 0; run < 50; ++run) {
    EtcdHistory history;
    history.set_id(1);
    const std::pair<Revision, EtcdHistory> empty{1, history};
    std::vector copies{empty};
    Revision etcd = 1, highest = 0;
    for (int i = 0; i < 500; ++i) {
      if (random() % 20 == 0) copies.emplace_back(etcd, history);
      if (random() % 40 == 0) {  // emptied, or restored; whoever knows the highest number raises
        std::tie(etcd, history) = random() % 2 == 0 ? empty : copies[random() % copies.size()];
        history.raise(etcd, highest);
        history = EtcdHistory::parse(history.text()).value();
      }
      const Revision number = history.number_of(++etcd);
      REQUIRE(number > highest);
      REQUIRE(history.etcd_of(number) == etcd);
      highest = number;
    }
  }
}

}  // namespace etcd_history_test
}  // namespace troupe
