#include "server/http/unanswered.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::server;

TEST_CASE("unanswered: a write without an answer is outcome_unknown, never a refusal that promises nothing") {
  for (const Message& write : {Message(PutUser{}), Message(DeleteUser{}), Message(PutItem{}),
                               Message(DeleteItem{}), Message(AppendEvents{})}) {
    CHECK(is_write(write));
    CHECK(no_answer(is_write(write), 1).code == "outcome_unknown");
    CHECK(stopping(is_write(write)).kind == RefusalKind::unavailable);
    CHECK(stopping(is_write(write)).code == "outcome_unknown");
  }
  for (const Message& other : {Message(RankRequest{}), Message(GetUser{}), Message(Reload{})}) {
    CHECK_FALSE(is_write(other));
    CHECK(no_answer(is_write(other), 2'000).expected == "an answer within 2 ms");
    CHECK(no_answer(is_write(other), 1).kind == RefusalKind::deadline_exceeded);
    CHECK(stopping(is_write(other)).code == "stopping");
  }
}
