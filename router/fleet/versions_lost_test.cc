// Versions while the Coordination has lost its data, or an older copy of them came back.
#include "router/testing/versions_test.h"

namespace troupe::router {
namespace versions_test {

// A router that was started on an etcd without data, while a worker follows the versions served before.
TEST_CASE("versions: an epoch that a worker reports and no read confirms lapses, and all nodes follow anew") {
  Bench b;
  b.round();
  for (std::int64_t us = 0; us < 2'000'000; us += 200'000) {
    CAPTURE(us);
    if (b.keeper.versions().epoch < 50) b.rumour(us, 50);  // until the worker follows this router
    b.settle(us);
    b.round(us);
    CHECK(b.keeper.current({us + 199'999}));
  }
  CHECK(b.keeper.versions().epoch > 50);
  CHECK(b.keeper.versions().model_version == "m1");
  CHECK(b.value == "m1\nc1\n");
  CHECK(b.logs_of("versions_unconfirmed") == 1);
  CHECK(b.revision == b.keeper.versions().epoch);
  const Revision settled = b.revision;
  b.round(2'200'000);
  CHECK(b.revision == settled);
}

TEST_CASE(
    "versions: an unconfirmed epoch refuses requests with its reason while the store is away, no longer") {
  Bench b;
  b.round();
  b.rumour(0, 50);
  std::int64_t us = 0;
  const Refusal away{RefusalKind::unavailable, "away", "Connection refused", "http://127.0.0.1:1", "etcd"};
  for (; us < 5'000'000; us += 200'000) {
    if (b.asked) b.answer(away, us);
    b.rumour(us, 50);
  }
  if (b.asked) b.answer(away, us);
  CHECK(b.keeper.obstacle({us}) ==
        "workers follow versions of epoch 50, newer than epoch 1 known here; the coordination store: "
        "Connection refused");
  CHECK(b.logs_of("coordination_unavailable") == 1);
  b.round(us);
  CHECK(b.keeper.obstacle({us}) == "");
  CHECK(b.logs_of("coordination_available") == 1);
  b.rumour(us + 1, 50);
  CHECK(b.keeper.current({us + 10'000'000}));
}

TEST_CASE("versions: what a store has lost is written again above every epoch that was seen") {
  for (const char* left : {"", "m0\nc0\n"}) {
    CAPTURE(left);
    Bench b;
    b.revision = 50;
    b.value = "m5\nc5\n";
    b.round();
    b.revision = *left ? 30 : 0;  // an older copy, or nothing
    b.value = left;
    b.round(200'000);
    CHECK(b.value == "m5\nc5\n");
    CHECK(b.keeper.versions().epoch > 50);
    CHECK(b.keeper.versions().epoch == b.revision);
    CHECK(b.logs_of("versions_lost") == 1);
  }
}

TEST_CASE("versions: another value under the epoch that is followed is a loss, too") {
  Bench b;
  b.revision = 3;
  b.value = "m5\nc5\n";
  b.round();
  b.value = "m1\nc1\n";  // written by a router that was started on the empty store
  b.round(200'000);
  CHECK(b.value == "m5\nc5\n");
  CHECK(b.keeper.versions().epoch > 3);
}

TEST_CASE("versions: a wish goes on after the store has lost the key that it wanted to replace") {
  Bench b;
  b.revision = 50;
  b.value = "m1\nc1\n";
  b.round();
  b.revision = 0;
  b.value = "";
  b.keeper.wish("m2", "");
  for (const std::int64_t us : {200'000, 400'000}) b.round(us);
  CHECK(b.value == "m1\nc1\nm2");
  CHECK(b.keeper.versions().epoch > 50);
}

TEST_CASE("versions: a router that has heard of a newer epoch leaves it to others to write that again") {
  Bench b;
  b.revision = 40;
  b.value = "m4\nc4\n";
  b.round();
  b.rumour(100'000, 50);
  b.revision = 0;
  b.value = "";
  b.settle(100'000);
  b.round(200'000);
  CHECK(b.value == "");
  b.revision = b.raised = 51;  // the router that knows them was faster
  b.value = "m5\nc5\n";
  b.round(400'000);
  CHECK(b.keeper.versions() == Versions{51, "m5", "c5", ""});
  CHECK(b.keeper.current({10'000'000}));
}

TEST_CASE("versions: a first router on an empty store waits for those that know more, then writes its own") {
  Bench b;
  b.rumour(0, 50);
  b.settle(0);
  b.round(200'000);
  CHECK(b.value == "");
  CHECK_FALSE(b.keeper.known());
  for (std::int64_t us = 400'000; us <= 800'000; us += 200'000) b.round(us);
  CHECK(b.value == "m1\nc1\n");
  CHECK(b.keeper.versions().epoch > 50);
  CHECK(b.keeper.current({800'000}));
}

TEST_CASE("versions: an epoch that no store can have is ignored") {
  Bench b;
  b.round();
  b.rumour(0, RaiseRevisions::above_max + 1);
  CHECK_FALSE(b.asked.has_value());
  CHECK(b.keeper.current({10'000'000}));
}

}  // namespace versions_test
}  // namespace troupe::router
