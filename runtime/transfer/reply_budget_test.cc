#include "runtime/transfer/reply_budget.h"

#include <doctest/doctest.h>

#include <array>

namespace troupe {
namespace reply_budget_test {

using Answer = ReplyBudget::Answer;

constexpr std::array<char, 100> readers{};  // only their addresses are used

// Acts like UcxReplies; returns true if the pages are sent.
bool ask(ReplyBudget& budget, ReplyBudget::Reader reader, std::size_t cost) {
  const Answer answer = budget.decide(reader, cost);
  if (answer == Answer::pages) budget.keep(reader, cost);
  if (answer == Answer::refusal) budget.keep(reader, ReplyBudget::refusal_cost);
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
    ReplyBudget budget;
    const std::size_t cost = ReplyBudget::cost_of(whole_pages(16), false);
    CHECK(cost == 16 * (256 + 2 * 16));
    std::size_t sent = 0;
    while (ask(budget, &readers[0], cost)) ++sent;
    CHECK(sent == ReplyBudget::plain_limits.of_reader / cost);
    for (int i = 0; i < 100'000; ++i) CHECK_FALSE(ask(budget, &readers[0], cost));
    CHECK(budget.kept() <= 2 * ReplyBudget::plain_limits.of_reader);
    CHECK(budget.decide(&readers[0], cost) == Answer::nothing);
    CHECK(ask(budget, &readers[1], cost));
  }

  TEST_CASE(
      "reply room: few sealed copies are kept of each reply, so an active reader may have "
      "many requests") {
    ReplyBudget budget(ReplyBudget::sealed_limits);
    const std::size_t usual = ReplyBudget::cost_of(whole_pages(4), true),
                      large = ReplyBudget::cost_of(whole_pages(16), true);
    CHECK(usual == 4 * piece_bytes + ReplyBudget::cost_of(whole_pages(4), false));
    CHECK(large == 8 * piece_bytes + ReplyBudget::cost_of(whole_pages(16), false));
    std::size_t sent = 0;
    while (ask(budget, &readers[0], large)) ++sent;
    CHECK(sent > 60);
    CHECK(budget.kept() <= ReplyBudget::sealed_limits.of_reader + ReplyBudget::refusal_cost);
  }

  TEST_CASE("reply room: small parts count with the cost of describing them") {
    ReplyBudget budget;
    const std::size_t cost = ReplyBudget::cost_of(smallest_parts(), false);
    CHECK(cost == 5 * (256 + 16) + request_pages_max * 16);
    std::size_t sent = 0;
    while (ask(budget, &readers[0], cost)) ++sent;
    CHECK(sent > 32);  // more than any of our pulls has in flight
    CHECK(sent * request_pages_max * 16 < ReplyBudget::plain_limits.of_reader);
  }

  TEST_CASE(
      "reply room: all readers together are bounded, and an active reader is served beside any stalled "
      "ones") {
    ReplyBudget budget;
    const std::size_t cost = ReplyBudget::cost_of(smallest_parts(), false);
    std::size_t of_first = 0;  // bytes kept for the first four readers
    for (const char& reader : readers)
      while (ask(budget, &reader, cost)) of_first += &reader < &readers[4];
    CHECK(budget.kept() > ReplyBudget::plain_limits.all - cost);
    CHECK(budget.kept() <
          ReplyBudget::plain_limits.all + readers.size() * (cost + ReplyBudget::refusal_cost));
    CHECK(ask(budget, &budget, cost));
    CHECK_FALSE(ask(budget, &budget, cost));
    budget.release(&budget, cost + ReplyBudget::refusal_cost);
    for (std::size_t i = 0; i < of_first; ++i) budget.release(&readers[i % 4], cost);
    CHECK(ask(budget, &readers[0], cost));
    CHECK(ask(budget, &budget, cost));
  }
}

}  // namespace reply_budget_test
}  // namespace troupe
