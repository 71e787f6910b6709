#include "runtime/network/link_wire.h"

#include <doctest/doctest.h>

#include <random>
#include <span>
#include <string>

#include "runtime/network/cluster.h"

namespace troupe {
namespace link_wire_test {

using link::Frame;
using link::Kind;

TEST_CASE("link wire: a frame and a join are the same after encoding and decoding") {
  const Frame cargo{Kind::cargo, {70'000, Role::allocator}, 123'456};
  CHECK(std::get<Frame>(link::decode_header(link::encode(cargo), true)) == cargo);
  const link::Join join{7, 3, 70'000, 1ull << 60, "blue", {1, 2, 3}, true, "w3"};
  CHECK(std::get<link::Join>(link::decode_join(link::encode(join))) == join);
  Bytes later = link::encode(join);
  later.resize(later.size() + 9);
  CHECK(std::get<link::Join>(link::decode_join(later)) == join);
}

TEST_CASE("link wire: a join for pages says so, and is refused if any bit of that is flipped") {
  link::Join join{7, 3, 70'000, 1ull << 60, "blue", {}, true, "w3"};
  const std::size_t without = link::encode(join).size();
  join.for_pages = true;
  const Bytes good = link::encode(join);
  CHECK(good.size() == without + 1 + link::seal_bytes);
  CHECK(std::get<link::Join>(link::decode_join(good)) == join);
  for (std::size_t bit = 8 * (without + 1); bit < 8 * good.size(); ++bit) {
    CAPTURE(bit);
    Bytes bytes = good;
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    CHECK(std::holds_alternative<std::string>(link::decode_join(bytes)));
  }
}

// Joins of older programs: those that send no name, and those that know no seals either.
Bytes encode_nameless(const link::Join& join) {
  Bytes bytes = link::encode(join);
  bytes.resize(bytes.size() - sizeof(std::uint32_t) - join.name.size() - link::seal_bytes);
  return bytes;
}
Bytes encode_older(const link::Join& join) {
  Bytes bytes = encode_nameless(join);
  bytes.resize(bytes.size() - 1 - link::seal_bytes);
  return bytes;
}

TEST_CASE("link wire: a join of an older program is accepted, without seals") {
  link::Join join{7, 3, 70'000, 1ull << 60, "blue", {1, 2, 3}, true};
  const auto older = link::decode_join(encode_older(join));
  join.supports_seals = false;
  CHECK(std::get<link::Join>(older) == join);
  join.supports_seals = true;
  CHECK(std::get<link::Join>(link::decode_join(encode_nameless(join))) == join);
  join.name.assign(256, 'x');
  CHECK(std::get<std::string>(link::decode_join(link::encode(join))) == "the name of a join is too long");
}

TEST_CASE("link wire: a join with any one bit flipped is refused") {
  for (const bool supports_seals : {false, true}) {
    const Bytes good = link::encode(link::Join{1, 2, 3, 4, "troupe", Bytes(100, 7), supports_seals, "w2"});
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      CAPTURE(bit);
      Bytes bytes = good;
      bytes[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
      CHECK(std::holds_alternative<std::string>(link::decode_join(bytes)));
    }
    for (std::size_t left = 1; left <= link::seal_bytes; ++left)
      CHECK(
          std::holds_alternative<std::string>(link::decode_join(std::span(good).first(good.size() - left))));
  }
}

TEST_CASE("link wire: a header with any one bit flipped fails its checksum") {
  const link::Header good = link::encode(Frame{Kind::cargo, {70'000, Role::allocator}, 123'456});
  CHECK(link::is_whole(good));
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    link::Header header = good;
    header[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    CHECK_FALSE(link::is_whole(header));
  }
}

TEST_CASE("link wire: unexpected, unknown or too long frames are refused before anything is allocated") {
  const auto refused = [](const Frame& frame, bool joined) {
    return std::holds_alternative<std::string>(link::decode_header(link::encode(frame), joined));
  };
  CHECK(refused({Kind::cargo, {1, Role::router}, 8}, false));
  CHECK(refused({Kind::ping}, false));
  CHECK(refused({Kind::join, {}, 8}, true));
  CHECK(refused({Kind::join, {}, 1 << 20}, false));
  CHECK(refused({Kind::rejection, {}, 4'097}, false));
  CHECK(refused({Kind::ping, {}, 1}, true));
  CHECK(refused({Kind::cargo, {}, message_bytes_max + 1}, true));
  CHECK_FALSE(refused({Kind::cargo, {}, message_bytes_max}, true));
  CHECK(refused({static_cast<Kind>(9)}, true));
  CHECK(refused({Kind::cargo, {1, static_cast<Role>(6)}}, true));
}

TEST_CASE("link wire: any bytes decode to a join or to an error text") {
  std::mt19937 random(3);
  const Bytes good = encode_older({1, 2, 3, 4, "c", Bytes(100, 7)});
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    CHECK(std::holds_alternative<std::string>(link::decode_join(std::span(good).first(cut))));
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes = good;
    for (int k = 0; k < 3; ++k) bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    const auto decoded = link::decode_join(bytes);
    if (const auto* join = std::get_if<link::Join>(&decoded)) CHECK(join->greeting.size() <= bytes.size());
  }
}

}  // namespace link_wire_test
}  // namespace troupe
