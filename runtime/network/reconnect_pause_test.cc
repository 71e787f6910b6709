#include "runtime/network/reconnect_pause.h"

#include <doctest/doctest.h>

#include <string>

using troupe::link::ReconnectPause;

TEST_CASE(
    "call pause: pauses between unanswered calls double up to a bound and restart after an answered "
    "call") {
  ReconnectPause pause(ReconnectPause::Time(50), ReconnectPause::Time(400));
  const auto pauses = [&](const char* fault, bool joined, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += std::to_string(pause.after(fault, joined).count()) + " ";
    return text;
  };
  CHECK(pauses("refused", false, 6) == "50 100 200 400 400 400 ");
  CHECK(pauses("it was silent", true, 2) == "50 50 ");  // it had joined before it was lost
  CHECK(pauses("refused", false, 3) == "100 200 400 ");
  CHECK(pauses("", false, 1) == "50 ");
  CHECK(pauses("refused", false, 1) == "100 ");
}
