#include "runtime/transfer/page_connection.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "runtime/testing/link_sockets.h"
#include "runtime/transfer/page_replies.h"

namespace troupe {
namespace page_connection_test {

constexpr std::size_t message_max = 70'000;

// A message of several parts, which lie in one piece of memory.
struct Sent {
  Bytes bytes;
  std::vector<std::size_t> parts;  // bytes of each; the first is the head
};

Sent random_message(std::mt19937_64& random) {
  static constexpr std::size_t sizes[] = {0, 1, 24, 64, 4'097, 8'191, 8'192, 16'384, 16'385, 30'000};
  Sent sent;
  std::size_t bytes = 0;
  for (std::size_t count = 1 + random() % 6; sent.parts.size() < count;) {
    const std::size_t part = sizes[random() % std::size(sizes)];
    if (bytes + part > message_max) break;
    bytes += part;
    sent.parts.push_back(part);
  }
  if (bytes == 0) sent.parts = {24}, bytes = 24;
  sent.bytes.resize(bytes);
  std::ranges::generate(sent.bytes, [&] { return static_cast<std::uint8_t>(random()); });
  return sent;
}

// Appends the next message; its parts stay where they are.
PageConnection::Source source_of(const std::vector<Sent>& messages, std::size_t& next) {
  return [&](PageConnection::Outgoing& outgoing) {
    if (next == messages.size()) return false;
    const Sent& sent = messages[next++];
    const auto* at = sent.bytes.data();
    outgoing.head.insert(outgoing.head.end(), at, at + sent.parts[0]);
    at += sent.parts[0];
    for (std::size_t i = 1; i < sent.parts.size(); at += sent.parts[i++])
      outgoing.parts.emplace_back(at, sent.parts[i]);
    return true;
  };
}

TEST_CASE("page connection: messages of any parts arrive as they were sent, over TLS and in the clear") {
  for (const bool secure : {false, true}) {
    CAPTURE(secure);
    const auto tls = secure ? std::make_unique<TestTls>() : nullptr;
    auto [here, there] = page_sockets(tls.get());
    PageConnection sender(std::move(there), message_max), receiver(std::move(here), message_max);
    std::mt19937_64 random(7);
    std::vector<Sent> messages;
    for (int i = 0; i < 300; ++i) messages.push_back(random_message(random));
    std::size_t next = 0, received = 0;
    const auto source = source_of(messages, next);
    for (int step = 0; received < messages.size(); ++step) {
      REQUIRE(step < 1'000'000);
      sender.send(source);
      while (const auto message = receiver.receive()) {
        REQUIRE(received < messages.size());
        REQUIRE(std::ranges::equal(*message, messages[received++].bytes));
      }
      REQUIRE(sender.failure() + receiver.failure() == "");
    }
    CHECK_FALSE(sender.send(source));
  }
}

TEST_CASE("page connection: a length of 0 or beyond the maximum fails it before anything is allocated") {
  for (const std::uint32_t length : {0u, 1'001u, 0xFFFF'FFFFu}) {
    const auto [here, there] = tcp_pair();
    PageConnection receiver{PageSocket(here), 1'000};
    REQUIRE(::send(there, &length, sizeof length, 0) == sizeof length);
    while (receiver.failure().empty()) CHECK_FALSE(receiver.receive().has_value());
    CHECK(receiver.malformed());
    CHECK(receiver.failure() ==
          "has sent a message of " + std::to_string(length) + " bytes; expected 1..1000");
    close(there);
  }
}

TEST_CASE("page connection: bytes that are not TLS end a connection with TLS") {
  const TestTls tls;
  auto [here, there] = page_sockets(&tls);
  PageConnection receiver(std::move(here), 1'000);
  const Bytes noise(45, 9);
  REQUIRE(::send(there.fd(), noise.data(), noise.size(), 0) == 45);  // below the session
  while (receiver.failure().empty()) CHECK_FALSE(receiver.receive().has_value());
  CHECK(receiver.failure() == "has closed the connection");
}

TEST_CASE("page connection: a closed peer is noticed by either direction") {
  auto [here, there] = page_sockets(nullptr);
  PageConnection one(std::move(here), 1'000);
  there = PageSocket();
  while (one.failure().empty()) CHECK_FALSE(one.receive().has_value());
  CHECK(one.failure() == "has closed the connection");
  CHECK_FALSE(one.malformed());
}

TEST_CASE("page replies: a stalled reader makes its owner keep little, however small its parts are") {
  PageArena arena(65'536, 1);
  MetricRegistry metrics;
  for (const std::size_t part_bytes : {part_bytes_min, std::size_t{1'024}, std::size_t{0}}) {
    PageReplies replies(arena, 100, metrics);
    PageReplies::Pending pending;
    PullRequest request{.owner = 100, .page_bytes = arena.page_bytes(), .part_bytes = part_bytes};
    request.pages.assign(pages_per_request(request.bytes_of_page()), 0);
    for (int i = 0; i < 3'000; ++i) replies.answer(request, pending);
    CHECK(replies.kept() > ReplyBudget::plain_limits.of_reader / 2);
    CHECK(replies.kept() <= 2 * ReplyBudget::plain_limits.of_reader);
    std::size_t described = 0;
    for (const auto& reply : pending) described += sizeof reply + 4 * reply.request.pages.size();
    CHECK(described <= replies.kept());
    replies.drop(pending);
    CHECK(replies.kept() == 0);
  }
  CHECK(metrics.value(Metric::protocol_errors) == 0);
}

}  // namespace page_connection_test
}  // namespace troupe
