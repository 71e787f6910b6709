#include "server/grpc/grpc_framing.h"

#include <doctest/doctest.h>

#include <vector>

using namespace troupe::server;

namespace grpc_framing_test {

TEST_SUITE("gRPC framing") {
  TEST_CASE("gRPC framing: messages arrive whole, in any pieces") {
    const std::string bytes = grpc_message("one") + grpc_message("") + grpc_message(std::string(300, 'x'));
    for (const std::size_t step : {1UL, 4UL, 6UL, 1000UL}) {
      GrpcMessages messages(1000);
      std::vector<std::string> seen;
      for (std::size_t at = 0; at < bytes.size(); at += step) {
        messages.take(std::string_view(bytes).substr(at, step));
        while (auto message = messages.next()) seen.push_back(*message);
      }
      CHECK(seen == std::vector<std::string>{"one", "", std::string(300, 'x')});
      CHECK_FALSE(messages.is_within_message());
    }
    GrpcMessages begun(1000);
    begun.take(grpc_message("one").substr(0, 6));
    CHECK(begun.next() == std::nullopt);
    CHECK(begun.is_within_message());
  }

  TEST_CASE("gRPC framing: a message over the limit or compressed is a fault, and nothing is kept") {
    using Fault = GrpcMessages::Fault;
    GrpcMessages large(10), packed(10), odd(10), later(10);
    large.take(std::string("\0\0\0\0\x0b", 5));
    CHECK(large.fault() == Fault::too_large);
    large.take(std::string(100'000, 'x'));
    CHECK(large.held_bytes() < 100);
    CHECK(large.next() == std::nullopt);
    packed.take(std::string("\1\0\0\0\1x", 6));
    CHECK(packed.fault() == Fault::compressed);
    odd.take(std::string("\2\0\0\0\1x", 6));
    CHECK(odd.fault() == Fault::bad_flag);
    later.take(grpc_message("good") + std::string("\0\xff\xff\xff\xff", 5));
    CHECK(later.next() == "good");
    CHECK(later.fault() == Fault::too_large);
  }

  TEST_CASE("gRPC framing: a timeout has up to eight digits and a unit; the longest does not overflow") {
    CHECK(parse_grpc_timeout_us("1H") == 3'600'000'000);
    CHECK(parse_grpc_timeout_us("2M") == 120'000'000);
    CHECK(parse_grpc_timeout_us("3S") == 3'000'000);
    CHECK(parse_grpc_timeout_us("4m") == 4'000);
    CHECK(parse_grpc_timeout_us("5u") == 5);
    CHECK(parse_grpc_timeout_us("1n") == 1);
    CHECK(parse_grpc_timeout_us("1001n") == 2);
    CHECK(parse_grpc_timeout_us("0n") == 0);
    CHECK(parse_grpc_timeout_us("99999999H") == std::int64_t{99'999'999} * 3'600'000'000);
    for (const char* text : {"", "1", "S", "123456789S", "-1S", "1.5S", "1s", "1SS", " 1S", "0x1S"})
      CHECK(parse_grpc_timeout_us(text) == std::nullopt);
    CHECK(parse_grpc_timeout_us(std::string(7'000, '9') + "S") == std::nullopt);
  }

  TEST_CASE("gRPC framing: a status text is percent-encoded and cut at the end of a character") {
    CHECK(grpc_status_text("user: 100% \"x\"\n", 100) == "user: 100%25 \"x\"%0A");
    CHECK(grpc_status_text("caf\xc3\xa9", 100) == "caf%C3%A9");
    CHECK(grpc_status_text("caf\xc3\xa9", 4) == "caf");
    CHECK(grpc_status_text("", 4) == "");
  }
}

}  // namespace grpc_framing_test
