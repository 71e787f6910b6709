#include "runtime/redis/redis_reply.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace troupe;

namespace redis_reply_test {

constexpr RedisReplyLimits limits{.bytes_max = 100, .elements_max = 4, .all_elements_max = 8};

// Returns the replies, or the fault that ended them; feeds `step` bytes at a time.
struct Read {
  std::vector<RedisReply> replies;
  std::string fault;
};
Read read(std::string_view bytes, std::size_t step = 1000) {
  RedisReplyReader reader(limits);
  reader.begin();
  Read read;
  for (; !bytes.empty() && read.fault.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    read.fault = reader.add(bytes.substr(0, step));
    for (auto next = reader.next(); read.fault.empty(); next = reader.next()) {
      if (std::holds_alternative<RedisReplyReader::NeedsBytes>(next)) break;
      if (auto* fault = std::get_if<std::string>(&next))
        read.fault = *fault;
      else
        read.replies.push_back(std::get<RedisReply>(std::move(next)));
    }
  }
  return read;
}

TEST_CASE("redis replies: they are the same in any pieces") {
  for (std::size_t step = 1; step < 40; ++step) {
    CAPTURE(step);
    const Read got = read("+OK\r\n*3\r\n:-7\r\n$2\r\na\n\r\n*1\r\n$-1\r\n-ERR no\r\n", step);
    CHECK(got.fault == "");
    REQUIRE(got.replies.size() == 3);
    CHECK(got.replies[0].text == "OK");
    REQUIRE(got.replies[1].list.size() == 3);
    CHECK(got.replies[1].list[0].integer == -7);
    CHECK(got.replies[1].list[1].text == "a\n");
    CHECK(got.replies[1].list[2].list[0].is(RedisReply::Kind::nil));
    CHECK(got.replies[2].is(RedisReply::Kind::error));
  }
}

TEST_CASE("redis replies: one above its bound, or other bytes, is a fault that says so") {
  CHECK(read("*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n").fault == "");
  CHECK(read("*5\r\n").fault == "not a Redis reply: a list of 5 elements; expected at most 4");
  CHECK(read("*4\r\n*4\r\n*1\r\n").fault != "");  // nine in total
  CHECK(read("$200\r\n" + std::string(200, 'x'), 10).fault ==
        "a reply that is too long: expected at most 100 bytes");
  CHECK(read("HTTP/1.1 200 OK\r\n").fault.starts_with("not a Redis reply: "));
  CHECK(read("*-1\r\n").replies.at(0).is(RedisReply::Kind::nil));
}

}  // namespace redis_reply_test
