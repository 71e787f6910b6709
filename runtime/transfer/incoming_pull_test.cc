#include "runtime/transfer/incoming_pull.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

using namespace troupe;
using PieceResult = IncomingPull::PieceResult;

namespace incoming_pull_test {

constexpr std::size_t page_bytes = 64 << 10;  // four pages are a chunk of five pieces
constexpr std::int64_t patient_us = 60'000'000;

std::vector<std::uint32_t> counted(std::uint32_t begin, std::uint32_t count) {
  std::vector<std::uint32_t> pages(count);
  std::iota(pages.begin(), pages.end(), begin);
  return pages;
}

struct Fixture {
  PageArena arena{page_bytes, 64};
  PullBlocks work{3, 30, patient_us, {}};
  void add_block(std::uint32_t first, std::uint32_t count) {
    PullBlocks::One& one = work.blocks.emplace_back();
    one.from = counted(100 + first, count);
    one.to = counted(first, count);
  }
};

// The owner's bytes: every byte of a page is the low byte of its id there.
Bytes piece_of(const PullRequest& request, std::uint32_t piece) {
  Bytes bytes;
  const std::size_t begin = piece * piece_bytes;
  const std::size_t size = std::min(piece_bytes, request.pages.size() * page_bytes - begin);
  for (const PagePart& part : parts_of(request.pages, page_bytes, begin, size))
    bytes.insert(bytes.end(), part.bytes, static_cast<std::uint8_t>(part.page));
  return bytes;
}
PieceResult land(IncomingPull& pull, const PullRequest& request, std::uint32_t piece) {
  return pull.land({request.pull, request.chunk, piece, PullStatus::sent}, piece_of(request, piece));
}
PieceResult land_all(IncomingPull& pull, const PullRequest& request) {
  PieceResult last = PieceResult::malformed;
  const auto pieces = static_cast<std::uint32_t>(pieces_of(request.pages.size() * page_bytes));
  for (std::uint32_t piece = pieces; piece-- > 0;) last = land(pull, request, piece);
  return last;
}
Refusal some_refusal() { return pull_refused("peer_lost", 3, "is gone", "a peer"); }

TEST_CASE_FIXTURE(Fixture,
                  "incoming pull: a few chunks are requested at a time, the next when one is complete") {
  add_block(0, 26);
  IncomingPull pull(77, work, arena);
  std::vector<PullRequest> requests;
  while (auto request = pull.next_request()) requests.push_back(*request);
  REQUIRE(requests.size() == IncomingPull::window);
  CHECK(requests[1] == PullRequest{30, 77, 1, page_bytes, {104, 105, 106, 107}});
  CHECK(land_all(pull, requests[0]) == PieceResult::chunk);
  CHECK(pull.next_request()->chunk == 4);
  CHECK_FALSE(pull.next_request().has_value());
  for (const std::size_t i : {2, 3}) CHECK(land_all(pull, requests[i]) == PieceResult::chunk);
  CHECK_FALSE(pull.next_request().has_value());  // bytes after a gap are not summed up yet
  land_all(pull, requests[1]);
  CHECK(pull.next_request()->chunk == 5);
  CHECK(pull.next_request() == PullRequest{30, 77, 6, page_bytes, {124, 125}});
  CHECK_FALSE(pull.next_request().has_value());
}

TEST_CASE_FIXTURE(Fixture, "incoming pull: a block has arrived when all its pages have, in any order") {
  add_block(0, 6);
  add_block(10, 3);
  work.budget_us = 20'000;
  IncomingPull pull(1, work, arena);
  const PullRequest first = *pull.next_request(), second = *pull.next_request(), third = *pull.next_request();
  CHECK(land_all(pull, second) == PieceResult::chunk);
  CHECK(land_all(pull, first) == PieceResult::chunk);
  CHECK_FALSE(pull.await(0).has_value());
  CHECK(pull.checksum(0) == checksum_pages(arena, work.blocks[0].to));
  CHECK(arena.page(5)[page_bytes - 1] == std::byte{105});
  CHECK(arena.page(11)[0] == std::byte{111});
  CHECK(arena.page(12)[0] == std::byte{0});
  CHECK(pull.await(1)->code == "transfer_timeout");
  CHECK(land_all(pull, third) == PieceResult::late);
  CHECK(arena.page(12)[0] == std::byte{0});
  CHECK_FALSE(pull.next_request().has_value());
}

TEST_CASE_FIXTURE(Fixture, "incoming pull: the thread that waits is woken once for many small blocks") {
  for (std::uint32_t block = 0; block < 6; ++block) add_block(block, 1);
  IncomingPull pull(1, work, arena);
  std::optional<Refusal> refusal;
  const PullRequest first = *pull.next_request(), second = *pull.next_request();
  std::thread waiting([&] { refusal = pull.await(5); });
  while (pull.awaited() != 5) std::this_thread::yield();
  CHECK(land_all(pull, first) == PieceResult::chunk);
  CHECK(pull.wakes() == 0);  // four of six blocks
  CHECK(land_all(pull, second) == PieceResult::chunk);
  waiting.join();
  CHECK(!refusal);
  CHECK(pull.wakes() == 1);
}

TEST_CASE_FIXTURE(Fixture, "incoming pull: unrequested, repeated or wrongly sized replies are dropped") {
  add_block(0, 8);
  IncomingPull pull(1, work, arena);
  CHECK(pull.land({1, 0, 0, PullStatus::sent}, Bytes(piece_bytes)) == PieceResult::malformed);
  CHECK(pull.land({1, 0, 0, PullStatus::bad_pages}, {}) == PieceResult::malformed);
  const PullRequest request = *pull.next_request();
  CHECK(pull.land({1, 1, 0, PullStatus::sent}, Bytes(piece_bytes)) == PieceResult::malformed);
  CHECK(pull.land({1, 0, 5, PullStatus::sent}, Bytes(piece_bytes)) == PieceResult::malformed);
  CHECK(pull.land({1, 0, ~0u, PullStatus::sent}, Bytes(piece_bytes)) == PieceResult::malformed);
  CHECK(pull.land({1, 0, 4, PullStatus::sent}, Bytes(piece_bytes)) == PieceResult::malformed);
  for (const std::size_t size : {std::size_t{0}, piece_bytes - 1, piece_bytes + 1})
    CHECK(pull.land({1, 0, 0, PullStatus::sent}, Bytes(size, 9)) == PieceResult::malformed);
  CHECK(arena.page(0)[0] == std::byte{0});
  CHECK(land(pull, request, 0) == PieceResult::piece);
  CHECK(pull.land({1, 0, 0, PullStatus::sent}, Bytes(piece_bytes, 9)) == PieceResult::malformed);
  CHECK(arena.page(0)[0] == std::byte{100});
  for (std::uint32_t piece = 1; piece < 4; ++piece) CHECK(land(pull, request, piece) == PieceResult::piece);
  CHECK(land(pull, request, 4) == PieceResult::chunk);
  CHECK(pull.land({1, 0, 0, PullStatus::sent}, Bytes(piece_bytes, 9)) == PieceResult::malformed);
  CHECK(pull.land({1, 0, 0, PullStatus::bad_pages}, {}) == PieceResult::malformed);
  CHECK_FALSE(pull.ended());
}

TEST_CASE_FIXTURE(Fixture, "incoming pull: the owner's refusal ends it, and the first end counts") {
  add_block(0, 8);
  const std::vector<std::pair<PullStatus, std::string>> meant{
      {PullStatus::wrong_incarnation, "wrong_incarnation"},
      {PullStatus::wrong_page_bytes, "wrong_page_bytes"},
      {PullStatus::bad_pages, "bad_pages"},
      {PullStatus::overloaded, "peer_overloaded"}};
  for (const auto& [status, code] : meant) {
    IncomingPull pull(1, work, arena);
    const PullRequest request = *pull.next_request();
    pull.land({1, 0, 0, status}, {});
    pull.end(some_refusal());
    CHECK(pull.await(0)->code == code);
    CHECK(pull.await(0)->kind == RefusalKind::unavailable);
    CHECK(land(pull, request, 0) == PieceResult::late);
    CHECK(arena.page(0)[0] == std::byte{0});
  }
}

TEST_CASE_FIXTURE(Fixture, "incoming pull: the end wakes a waiting thread") {
  add_block(0, 1);
  IncomingPull pull(1, work, arena);
  std::thread other([&] { pull.end(some_refusal()); });
  CHECK(pull.await(0)->code == "peer_lost");
  other.join();
}

TEST_CASE_FIXTURE(Fixture, "incoming pull: work with pages outside the arena or unequal numbers is refused") {
  add_block(0, 2);
  CHECK_FALSE(IncomingPull::reject_if_invalid(work, arena).has_value());
  work.blocks[0].to[1] = 64;
  CHECK(IncomingPull::reject_if_invalid(work, arena)->code == "bad_pages");
  work.blocks[0].to = {1};
  CHECK(IncomingPull::reject_if_invalid(work, arena).has_value());
  work.blocks[0] = {};
  CHECK(IncomingPull::reject_if_invalid(work, arena)->kind == RefusalKind::internal);
}

TEST_CASE_FIXTURE(Fixture, "incoming pull: random replies change only requested bytes") {
  const std::uint64_t seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  add_block(8, 10);
  IncomingPull pull(1, work, arena);
  std::vector<PullRequest> requests;
  const Bytes bytes(piece_bytes, 7);
  for (int round = 0; round < 5'000; ++round) {
    if (random() % 100 == 0)
      if (auto request = pull.next_request()) requests.push_back(*request);
    const PullReply reply{random(), static_cast<std::uint32_t>(random() % 5),
                          static_cast<std::uint32_t>(random() % (random() % 9 == 0 ? ~0u : 20)),
                          PullStatus::sent};
    const std::size_t size = random() % 3 ? piece_bytes : random() % piece_bytes;
    pull.land(reply, std::span(bytes).first(size));
  }
  for (const std::uint32_t page : {0u, 7u, 18u, 63u})
    for (std::size_t i = 0; i < page_bytes; ++i) REQUIRE(arena.page(page)[i] == std::byte{0});
}

TEST_CASE_FIXTURE(Fixture,
                  "incoming pull: in parts, the first parts of all pages come first, and are reported when "
                  "all have arrived") {
  add_block(0, 5);
  add_block(10, 1);
  work.parts = 2;
  work.blocks[0].here = 7, work.blocks[1].here = 8;
  for (const std::uint64_t name : {7, 8}) arena.arrivals().begin(name);
  IncomingPull pull(77, work, arena);
  const auto there = [&](std::uint64_t name, std::size_t bytes) {
    return arena.arrivals().wait(name, bytes, {});
  };
  std::vector<PullRequest> requests;
  while (auto request = pull.next_request()) requests.push_back(*request);
  REQUIRE(requests.size() == 2);  // six halves of pages are less than a chunk
  CHECK(requests[0] == PullRequest{30, 77, 0, page_bytes, {100, 101, 102, 103, 104, 110}, 0, page_bytes / 2});
  CHECK(requests[1].part_begin == page_bytes / 2);
  const auto land_part = [&](const PullRequest& request) {
    const std::size_t bytes = request.pages.size() * page_bytes / 2;
    for (std::uint32_t piece = 0; piece < pieces_of(bytes); ++piece)
      pull.land({77, request.chunk, piece, PullStatus::sent},
                Bytes(std::min(piece_bytes, bytes - piece * piece_bytes),
                      static_cast<std::uint8_t>(request.chunk + 1)));
  };
  land_part(requests[1]);  // arrives early: nothing is reported before the bytes before it
  CHECK_FALSE(there(7, 1));
  land_part(requests[0]);
  for (const std::uint64_t name : {7, 8}) CHECK(there(name, page_bytes));
  CHECK(arena.page(10)[page_bytes / 2 - 1] == std::byte{1});
  CHECK(arena.page(10)[page_bytes / 2] == std::byte{2});
  CHECK_FALSE(pull.await(1));
  CHECK(pull.checksum(0) == checksum_pages(arena, work.blocks[0].to));
}

TEST_CASE_FIXTURE(Fixture, "incoming pull: a part is reported before the next has arrived") {
  add_block(0, 3);
  work.parts = 4;
  work.blocks[0].here = 7;
  arena.arrivals().begin(7);
  IncomingPull pull(77, work, arena);
  for (std::size_t part = 0; part < 4; ++part) {
    const PullRequest request = *pull.next_request();
    CHECK(pull.land({77, request.chunk, 0, PullStatus::sent}, Bytes(3 * page_bytes / 4)) ==
          PieceResult::chunk);
    CHECK(arena.arrivals().wait(7, (part + 1) * page_bytes / 4, {}));
    CHECK_FALSE(arena.arrivals().wait(7, (part + 1) * page_bytes / 4 + 1, {}));
  }
}

}  // namespace incoming_pull_test
