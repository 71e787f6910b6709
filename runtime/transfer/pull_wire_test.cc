#include "runtime/transfer/pull_wire.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

#include "runtime/transfer/ucx_address.h"

using namespace troupe;

namespace {

PullRequest request_of() {
  PullRequest request;
  request.owner = 0x0102030405060708;
  request.pull = 0x1112131415161718;
  request.chunk = 21;
  request.page_bytes = 4096;
  request.pages = {1, 0, 63};
  return request;
}

// Returns random bytes, or the message with random changes to bits, bytes or length.
Bytes damaged(Bytes bytes, std::mt19937_64& random) {
  for (std::uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
    const std::uint64_t way = random() % 5;
    if (way == 0 || bytes.empty()) {
      bytes.resize(random() % 200);
    } else if (way == 1) {
      bytes.resize(random() % (bytes.size() + 1));
    } else if (way == 2) {
      bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    } else if (way == 3) {
      bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
    } else {
      const std::size_t at = random() % bytes.size();
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                  std::min<std::size_t>(4, bytes.size() - at), random() % 2 ? 0xFF : 0);
    }
  }
  return bytes;
}

// Parses a copy at the end of memory whose following page is protected (test_fence.h, for large
// pieces), mostly at an odd address.
template <class Parse>
auto parse_alone(Parse parse, const Bytes& bytes) {
  const std::size_t capacity = (bytes.size() + 2'063) / 16 * 16;
  const auto copy = std::make_unique<std::uint8_t[]>(capacity);
  const auto begin = copy.get() + (capacity - bytes.size());
  std::copy(bytes.begin(), bytes.end(), begin);
  return parse(std::span<const std::uint8_t>(begin, bytes.size()));
}

}  // namespace

TEST_CASE("pull wire: a request and a reply header round-trip") {
  PullRequest request = request_of();
  CHECK(parse_alone(parse_request, encode(request)) == request);
  request.pages.assign(request_pages_max, 5);
  CHECK(parse_alone(parse_request, encode(request)) == request);
  for (const PullStatus status : {PullStatus::sent, PullStatus::bad_pages, PullStatus::overloaded}) {
    const PullReply reply{1u << 31, 2, ~0u, status};
    const ReplyHeader header = encode(reply);
    CHECK(parse_alone(parse_reply, Bytes(header.begin(), header.end())) == reply);
  }
}

TEST_CASE("pull wire: the bytes of a request have a fixed form") {
  PullRequest request = request_of();
  request.pages = {0xAABBCCDD};
  const Bytes bytes = encode(request);
  const Bytes pinned{'T', 'r',  'q',  '1',  1,    0,    0,    0,    8,    7, 6,    5,    4,    3,   2,
                     1,   0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0, 16,   0,    0,    0,   0,
                     0,   0,    21,   0,    0,    0,    0,    0,    0,    0, 0xDD, 0xCC, 0xBB, 0xAA};
  CHECK(bytes == pinned);
}

TEST_CASE("pull wire: a request with a wrong length, no pages or too many is rejected") {
  const Bytes good = encode(request_of());
  for (std::size_t size = 0; size < good.size() + 9; ++size) {
    Bytes bytes = good;
    bytes.resize(size);
    CHECK(parse_alone(parse_request, bytes).has_value() == (size == good.size()));
  }
  for (const std::uint32_t count : {0u, 2u, 4u, 4097u, 0x40000003u, 0xFFFFFFFFu}) {
    Bytes bytes = good;
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&count), 4, bytes.begin() + 4);
    CHECK_FALSE(parse_alone(parse_request, bytes).has_value());
  }
  PullRequest request = request_of();
  request.pages.assign(request_pages_max + 1, 0);
  CHECK_FALSE(parse_request(encode(request)).has_value());
}

TEST_CASE("pull wire: a reply of another length or with an unknown status is rejected") {
  const ReplyHeader header = encode(PullReply{1, 2, 3, PullStatus::sent});
  const Bytes good(header.begin(), header.end());
  for (std::size_t size = 0; size < good.size() + 9; ++size) {
    Bytes bytes = good;
    bytes.resize(size);
    CHECK(parse_alone(parse_reply, bytes).has_value() == (size == good.size()));
  }
  Bytes unknown = good;
  unknown[20] = static_cast<std::uint8_t>(PullStatus::count_);
  CHECK_FALSE(parse_reply(unknown).has_value());
  unknown[20] = 0, unknown[23] = 1;
  CHECK_FALSE(parse_reply(unknown).has_value());
}

TEST_CASE("pull wire: examine accepts only own pages, requested of this incarnation") {
  const PageArena arena(4096, 64);
  PullRequest request = request_of();
  const auto looked = [&] { return examine(request, 0x0102030405060708, arena); };
  CHECK(looked() == PullStatus::sent);
  request.pages.push_back(64);
  CHECK(looked() == PullStatus::bad_pages);
  request.pages.back() = ~0u;
  CHECK(looked() == PullStatus::bad_pages);
  request.pages.assign(pages_per_request(4096), 63);
  CHECK(looked() == PullStatus::sent);
  request.pages.push_back(63);
  CHECK(looked() == PullStatus::bad_pages);
  request.page_bytes = 4095;
  CHECK(looked() == PullStatus::wrong_page_bytes);
  request.owner += 1;
  CHECK(looked() == PullStatus::wrong_incarnation);
}

TEST_CASE("pull wire: parts of a chunk are contiguous and stay within their page") {
  const std::vector<std::uint32_t> pages{9, 4, 7};
  for (const std::size_t page_bytes : {1u, 7u, 100u})
    for (std::size_t begin = 0; begin < 3 * page_bytes; ++begin)
      for (std::size_t bytes = 0; begin + bytes <= 3 * page_bytes; bytes += 1 + page_bytes / 9) {
        std::size_t at = begin;
        for (const PagePart& part : parts_of(pages, page_bytes, begin, bytes)) {
          REQUIRE(part.bytes > 0);
          REQUIRE(part.page == pages[at / page_bytes]);
          REQUIRE(part.offset == at % page_bytes);
          REQUIRE(part.offset + part.bytes <= page_bytes);
          at += part.bytes;
        }
        REQUIRE(at == begin + bytes);
      }
  CHECK(pieces_of(0) == 0);
  CHECK(pieces_of(1) == 1);
  CHECK(pieces_of(piece_bytes) == 1);
  CHECK(pieces_of(piece_bytes + 1) == 2);
  CHECK(pages_per_request(1) == request_pages_max);
  CHECK(pages_per_request(64 << 10) == 16);
  CHECK(pages_per_request(std::size_t{1} << 40) == 1);
}

TEST_CASE("ucx address: a damaged address or another version is rejected; keys round-trip with it") {
  const UcxAddress open{{1, 2, 3, 4, 5}, {}}, sealed{{1, 2, 3, 4, 5}, generate_seal_keys()};
  for (const UcxAddress& address : {open, sealed}) {
    const Bytes packed = pack_ucx_address({1, 13}, address);
    CHECK(unpack_ucx_address({1, 13}, packed) == address);
    CHECK_FALSE(unpack_ucx_address({1, 14}, packed).has_value());
    CHECK_FALSE(unpack_ucx_address({2, 13}, packed).has_value());
    CHECK_FALSE(unpack_ucx_address({1, 13}, pack_ucx_address({1, 13}, {{}, address.keys})).has_value());
    const UcxAddress longest{Bytes(ucx_address_bytes_max), address.keys},
        longer{Bytes(ucx_address_bytes_max + 1), address.keys};
    CHECK(unpack_ucx_address({1, 13}, pack_ucx_address({1, 13}, longest)) == longest);
    CHECK_FALSE(unpack_ucx_address({1, 13}, pack_ucx_address({1, 13}, longer)).has_value());
    for (std::size_t i = 0; i < packed.size(); ++i) {
      Bytes damaged = packed;
      damaged[i] ^= i == 3 ? 3 : 4;  // "TUX1" and "TUX2" are damage of each other, too
      CHECK_FALSE(unpack_ucx_address({1, 13}, damaged).has_value());
      damaged.resize(i);
      CHECK_FALSE(unpack_ucx_address({1, 13}, damaged).has_value());
    }
  }
}

TEST_CASE("pull wire: damaged messages are rejected before a page is read") {
  const std::uint64_t seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const PageArena arena(4096, 64);
  const PullRequest request = request_of();
  const ReplyHeader header = encode(PullReply{1, 2, 3, PullStatus::sent});
  int parsed = 0;
  for (int round = 0; round < 20'000; ++round) {
    if (const auto got = parse_alone(parse_request, damaged(encode(request), random))) {
      ++parsed;
      if (examine(*got, request.owner, arena) == PullStatus::sent)
        for (const PagePart& part : parts_of(got->pages, 4096, 0, got->pages.size() * 4096))
          REQUIRE(part.page < arena.pages());
      REQUIRE(parse_request(encode(*got)) == got);
    }
    const auto reply = parse_alone(parse_reply, damaged(Bytes(header.begin(), header.end()), random));
    if (reply) REQUIRE(parse_reply(encode(*reply)) == reply);
    parse_alone(
        [](auto bytes) {
          return unpack_ucx_address({1, 13}, bytes);
        },
        damaged(pack_ucx_address({1, 13}, {Bytes(40), round % 2 ? std::optional(SealKeys{}) : std::nullopt}),
                random));
  }
  CHECK(parsed > 100);
}

TEST_CASE("pull wire: a request names a part of each page, and bytes outside a page are refused") {
  PullRequest request = request_of();
  request.part_begin = 1'024, request.part_bytes = 512;
  CHECK(parse_alone(parse_request, encode(request)) == request);
  request.pages.assign(request_pages_max, 5);
  CHECK(encode(request).size() == request_bytes_max);
  CHECK(parse_alone(parse_request, encode(request)) == request);
  const PageArena arena(4'096, 64);
  const auto said = [&](std::uint64_t begin, std::uint64_t bytes, std::size_t pages = 3) {
    PullRequest part = request_of();
    part.pages.assign(pages, 1);
    part.part_begin = begin, part.part_bytes = bytes;
    return examine(part, part.owner, arena);
  };
  CHECK(said(4'032, 64) == PullStatus::sent);
  CHECK(said(0, 4'096) == PullStatus::sent);
  CHECK(said(4'033, 64) == PullStatus::bad_pages);
  CHECK(said(4'097, 1) == PullStatus::bad_pages);
  CHECK(said(~std::uint64_t{0}, 2) == PullStatus::bad_pages);
  CHECK(said(0, ~std::uint64_t{0}) == PullStatus::bad_pages);
  // Describing each page of a piece would take sixteen bytes.
  CHECK(said(0, 63) == PullStatus::bad_pages);
  CHECK(said(4'064, 32) == PullStatus::sent);  // the last part of a page may be small
  CHECK(said(0, 4'096, chunk_bytes / 4'096 + 1) == PullStatus::bad_pages);
  CHECK(said(0, 1'024, chunk_bytes / 1'024) == PullStatus::sent);
}
