#include "runtime/actor/trace_context.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace troupe;

namespace {
const std::string sound = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
}

TEST_CASE("trace context: a traceparent is written as it was read") {
  const auto context = read_traceparent(sound);
  REQUIRE(context);
  CHECK(context->high == 0x4bf92f3577b34da6);
  CHECK(context->low == 0xa3ce929d0e0e4736);
  CHECK(context->span == 0x00f067aa0ba902b7);
  CHECK(context->sampled);
  CHECK(trace_id(*context) == "4bf92f3577b34da6a3ce929d0e0e4736");
  CHECK(write_traceparent(*context) == sound);
  CHECK_FALSE(read_traceparent(sound.substr(0, 53) + "00")->sampled);
}

TEST_CASE("trace context: known fields of a later version are read, and a malformed traceparent is ignored") {
  CHECK(read_traceparent("cc" + sound.substr(2) + "-more"));
  CHECK(read_traceparent("01" + sound.substr(2)));
  for (const std::string& bad : std::vector<std::string>{
           "", sound.substr(1), sound + "-more", sound + "0", "cc" + sound.substr(2) + "more",
           "ff" + sound.substr(2), "0x" + sound.substr(2), "00-" + std::string(32, '0') + sound.substr(35),
           sound.substr(0, 36) + std::string(16, '0') + "-01",
           "00-4BF92F3577B34DA6a3ce929d0e0e4736-00f067aa0ba902b7-01", std::string(55, '-')})
    CHECK_FALSE_MESSAGE(read_traceparent(bad), bad);
}
