#include "runtime/transfer/reply_room.h"

#include <doctest/doctest.h>

#include <array>

namespace troupe {
namespace reply_room_test {

using Answer = ReplyRoom::Answer;

constexpr std::array<char, 100> readers{};  // only their addresses are used

// Acts like UcxReplies; returns true if the pages are sent.
bool ask(ReplyRoom& room, ReplyRoom::Reader reader, std::size_t cost) {
  const Answer answer = room.answer_for(reader, cost);
  if (answer == Answer::pages) room.keep(reader, cost);
  if (answer == Answer::refusal) room.keep(reader, ReplyRoom::refusal_cost);
  return answer == Answer::pages;
}

PullRequest whole_pages(std::size_t pages) {
  return {.page_bytes = piece_bytes, .pages = std::vector<std::uint32_t>(pages)};
}
PullRequest smallest_parts() {
  return {.page_bytes = 65'536,
          .pages = std::vector<std::uint32_t>(request_pages_max),
          .part_bytes = part_bytes_min};
}

TEST_SUITE("reply_room") {
  TEST_CASE("reply room: a stalled reader gets its share, then refusals, then nothing") {
    ReplyRoom room;
    const std::size_t cost = ReplyRoom::cost_of(whole_pages(16), false);
    CHECK(cost == 16 * (256 + 2 * 16));
    std::size_t sent = 0;
    while (ask(room, &readers[0], cost)) ++sent;
    CHECK(sent == ReplyRoom::names_of_pages.of_reader / cost);
    for (int i = 0; i < 100'000; ++i) CHECK_FALSE(ask(room, &readers[0], cost));
    CHECK(room.kept() <= 2 * ReplyRoom::names_of_pages.of_reader);
    CHECK(room.answer_for(&readers[0], cost) == Answer::nothing);
    CHECK(ask(room, &readers[1], cost));
  }

  TEST_CASE(
      "reply room: few sealed copies are kept of each reply, so an active reader may have "
      "many requests") {
    ReplyRoom room(ReplyRoom::sealed_pieces);
    const std::size_t usual = ReplyRoom::cost_of(whole_pages(4), true),
                      large = ReplyRoom::cost_of(whole_pages(16), true);
    CHECK(usual == 4 * piece_bytes + ReplyRoom::cost_of(whole_pages(4), false));
    CHECK(large == 8 * piece_bytes + ReplyRoom::cost_of(whole_pages(16), false));
    std::size_t sent = 0;
    while (ask(room, &readers[0], large)) ++sent;
    CHECK(sent > 60);
    CHECK(room.kept() <= ReplyRoom::sealed_pieces.of_reader + ReplyRoom::refusal_cost);
  }

  TEST_CASE("reply room: small parts count with the cost of describing them") {
    ReplyRoom room;
    const std::size_t cost = ReplyRoom::cost_of(smallest_parts(), false);
    CHECK(cost == 5 * (256 + 16) + request_pages_max * 16);
    std::size_t sent = 0;
    while (ask(room, &readers[0], cost)) ++sent;
    CHECK(sent > 32);  // more than any of our pulls has in flight
    CHECK(sent * request_pages_max * 16 < ReplyRoom::names_of_pages.of_reader);
  }

  TEST_CASE(
      "reply room: all readers together are bounded, and an active reader is served beside any stalled "
      "ones") {
    ReplyRoom room;
    const std::size_t cost = ReplyRoom::cost_of(smallest_parts(), false);
    std::size_t of_first = 0;  // bytes kept for the first four readers
    for (const char& reader : readers)
      while (ask(room, &reader, cost)) of_first += &reader < &readers[4];
    CHECK(room.kept() > ReplyRoom::names_of_pages.all - cost);
    CHECK(room.kept() < ReplyRoom::names_of_pages.all + readers.size() * (cost + ReplyRoom::refusal_cost));
    CHECK(ask(room, &room, cost));
    CHECK_FALSE(ask(room, &room, cost));
    room.let_go(&room, cost + ReplyRoom::refusal_cost);
    for (std::size_t i = 0; i < of_first; ++i) room.let_go(&readers[i % 4], cost);
    CHECK(ask(room, &readers[0], cost));
    CHECK(ask(room, &room, cost));
  }
}

}  // namespace reply_room_test
}  // namespace troupe
