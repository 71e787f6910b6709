#include "runtime/wire/codec.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "runtime/testing/random_message_test.h"
#include "runtime/wire/schema/envelope.capnp.h"

using namespace troupe;

namespace {

constexpr std::size_t alternatives = std::variant_size_v<AnyMessage>;

std::string error_of(std::span<const std::uint8_t> bytes) {
  auto decoded = decode(bytes);
  const std::string* error = std::get_if<std::string>(&decoded);
  return error ? *error : "";
}

bool says(const std::string& error, std::string_view part) { return error.find(part) != std::string::npos; }

// Returns an envelope that our own encoder would never write.
template <class Fill>
Bytes forged(Fill fill) {
  capnp::MallocMessageBuilder builder;
  fill(builder.initRoot<schema::Envelope>());
  auto words = capnp::messageToFlatArray(builder);
  return Bytes(words.asBytes().begin(), words.asBytes().end());
}

}  // namespace

TEST_CASE("codec: every message is the same after encoding and decoding") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    RandomMessage random(seed);
    for (std::size_t i = 0; i < alternatives; ++i) {
      CAPTURE(i);
      const Envelope sent = random.envelope(i);
      const auto decoded = decode(encode(sent));
      REQUIRE_MESSAGE(std::holds_alternative<Envelope>(decoded), error_of(encode(sent)));
      CHECK(std::get<Envelope>(decoded) == sent);
    }
  }
}

TEST_CASE("codec: a plan keeps its versions, and a plan of an older router has an empty catalog version") {
  Execute execute;
  execute.model_version = "m7", execute.catalog_version = "c12";
  const Envelope sent{{1, Role::router}, execute};
  const auto got = std::get<Execute>(std::get<Envelope>(decode(encode(sent))).message);
  CHECK(got.model_version == "m7");
  CHECK(got.catalog_version == "c12");
  CHECK(std::get<Execute>(std::get<Envelope>(decode(encode(Envelope{{1, Role::router}, Execute{}}))).message)
            .catalog_version == "");
}

TEST_CASE("codec: a large message stays within its own traversal limit") {
  Execute execute;
  execute.plan.segments.resize(2000, Segment{.tokens = Tokens(37, 5), .sees = {0, 2, 4, 6}});
  execute.blocks.resize(2000, SegmentBlock{.name = BlockName{}});
  const Envelope sent{{1, Role::router}, execute};
  CHECK(std::get<Envelope>(decode(encode(sent))) == sent);
}

// Otherwise two runs of one seed would differ (promise 17): the time of a simulated link depends on
// the bytes.
TEST_CASE("codec: the bytes of a message do not depend on what its thread encoded before") {
  for (const std::size_t blocks : {10, 500, 3'000, 60'000}) {
    CAPTURE(blocks);
    Envelope envelope{{1, Role::router}, LookupBlocks{7, "ann", std::vector<BlockQuery>(blocks), {1, 2}}};
    std::vector<Bytes> seen;
    std::thread([&] {  // a new thread has encoded nothing yet
      for (int i = 0; i < 3; ++i) seen.push_back(encode(envelope));
    })
        .join();
    CHECK(seen[0] == seen[1]);
    CHECK(seen[0] == seen[2]);
    CHECK(seen[0] == encode(envelope));
  }
}

TEST_CASE("codec: damaged bytes give an envelope or an error, never a crash") {
  const std::uint64_t seed = 20240807;
  CAPTURE(seed);
  RandomMessage random(seed);
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    Bytes bytes = encode(random.envelope(random.below(alternatives)));
    for (std::uint64_t n = 1 + random.below(3); n > 0; --n)
      bytes[random.below(bytes.size())] = static_cast<std::uint8_t>(random.below(256));
    if (round % 2) bytes.resize(random.below(bytes.size()));
    const auto decoded = decode(bytes);
    if (std::holds_alternative<std::string>(decoded))
      ++refused;
    else
      CHECK(encode(std::get<Envelope>(decoded)).size() < 64 * bytes.size() + 1024);
  }
  CHECK(refused > 2000);
}

TEST_CASE("codec: bytes that are not a whole message are refused with the reason") {
  Bytes bytes = encode({{1, Role::server}, StatusRequest{7}});
  CHECK(error_of({}) == "envelope: 0 bytes; expected a multiple of 8");
  CHECK(error_of(std::span(bytes).first(bytes.size() - 1)) ==
        "envelope: " + std::to_string(bytes.size() - 1) + " bytes; expected a multiple of 8");
  CHECK(says(error_of(std::span(bytes).first(bytes.size() - 8)), "ends prematurely"));
  bytes.resize(bytes.size() + 8);
  CHECK(says(error_of(bytes), "bytes after the end"));
}

// A KJ error text contains the raw byte that should have been a zero.
TEST_CASE("codec: an error is a single line, whatever the bytes are") {
  Bytes bytes = encode({{}, DeleteItem{.item = "abc"}});
  const auto at = std::search(bytes.begin(), bytes.end(), "abc", "abc" + 3);
  REQUIRE(at + 3 < bytes.end());
  at[3] = 0x1b;
  const std::string error = error_of(bytes);
  CHECK(says(error, "envelope: "));
  CHECK(std::none_of(error.begin(), error.end(), [](unsigned char c) { return c < ' '; }));
}

TEST_CASE("codec: an option with an unknown word is unreadable, and its message is kept") {
  const auto ranking = decode(forged([](auto to) {
    auto request = to.initRankRequest();
    request.setUser("ana");
    request.setFeatures("new");
    request.setUnknown("?");
    request.setUnknownUser("warm");
    request.setArrangement("spiral");
  }));
  REQUIRE(std::holds_alternative<Envelope>(ranking));
  CHECK(std::get<RankRequest>(std::get<Envelope>(ranking).message) ==
        RankRequest{.user = "ana",
                    .features = Freshness::unreadable,
                    .unknown = UnknownCandidates::unreadable,
                    .arrangement = Arrangement::unreadable,
                    .unknown_user = UnknownUser::unreadable});
  const auto search = decode(forged([](auto to) { to.initGenerateRequest().setNormalised("all"); }));
  REQUIRE(std::holds_alternative<Envelope>(search));
  const Envelope envelope = std::get<Envelope>(search);
  CHECK(std::get<GenerateRequest>(envelope.message).normalised == Normalised::unreadable);
  CHECK(std::get<Envelope>(decode(encode(envelope))) == envelope);
}

TEST_CASE("codec: an unknown message, enumerator or length of a block name is refused") {
  CHECK(says(error_of(forged([](auto to) { to.setFromRole(static_cast<schema::Role>(6)); })),
             "an enumerator is out of range"));
  CHECK(says(
      error_of(forged([](auto to) { to.initForget().setKind(static_cast<schema::SegmentKind>(65535)); })),
      "an enumerator is out of range"));
  CHECK(says(error_of(forged([](auto to) { to.initReleaseBlocks().initOutcomes(1)[0].initName(31); })),
             "wrong length"));
  CHECK(says(error_of(forged([](auto to) { to.initLookupBlocks().initBlocks(1)[0].initName(33); })),
             "wrong length"));
  CHECK(says(error_of(forged([](auto to) { to.initLookupBlocks().initBlocks(1); })), "wrong length"));

  Bytes unknown = encode({{1, Role::server}, StatusRequest{7}});
  const Bytes other = encode({{1, Role::server}, StatusReply{}});
  for (std::size_t i = 16; i < 32; ++i)
    if (unknown[i] != other[i]) unknown[i] = 200;  // the number of the union's member
  CHECK(says(error_of(unknown), "unknown kind of message"));
}

// Earlier builds know refusals by these numbers, and options by these words.
TEST_CASE("codec: a refusal is a number on the wire, and an option a word") {
  const auto refused = [](std::uint16_t number) {
    const Bytes bytes = forged([&](auto to) { to.initRefused().initRefusal().setStatus(number); });
    return std::get<Refused>(std::get<Envelope>(decode(bytes)).message).refusal.kind;
  };
  CHECK(refused(422) == RefusalKind::unprocessable);
  CHECK(refused(418) == RefusalKind::malformed);
  const auto read = [](const Bytes& bytes, const auto& check) {
    auto words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
    std::memcpy(words.begin(), bytes.data(), bytes.size());
    capnp::FlatArrayMessageReader reader(words);
    check(reader.getRoot<schema::Envelope>());
  };
  read(encode({{}, Refused{1, {RefusalKind::unprocessable}}}),
       [](auto envelope) { CHECK(envelope.getRefused().getRefusal().getStatus() == 422); });
  read(encode({{}, RankRequest{.features = Freshness::wait, .unknown = UnknownCandidates::skip}}),
       [](auto envelope) {
         CHECK(envelope.getRankRequest().getFeatures() == "wait");
         CHECK(envelope.getRankRequest().getUnknown() == "skip");
       });
}

TEST_CASE("codec: a message with several pointers to one list is refused") {
  // Builds two lists of the same length, then redirects the second pointer to the first list. Each
  // list is within the message, but together they are larger than it.
  const std::vector<Token> tokens(1000, 9);
  Bytes bytes = encode({{1, Role::server}, PutItem{.tokens = tokens}});
  CHECK(error_of(bytes).empty());
  ScoreRequest request;
  request.items.resize(50);
  request.items[0].tokens = tokens;
  bytes = encode({{1, Role::server}, request});
  std::vector<std::uint64_t> words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  std::size_t first = 0;  // the list pointer of items[0]: kind 1, 1000 elements of 4 bytes
  while (!((words[first] & 3) == 1 && words[first] >> 32 == (1000u << 3 | 4))) ++first;
  for (std::size_t i = 1; i < 50; ++i) words[first + i] = words[first] - (i << 2);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  CHECK(says(error_of(bytes), "traversal limit"));
}

TEST_CASE("codec: a list of bytes is not read as a list of structs") {
  // Changes the pointer of `fields` from an inline list to a list of bytes over the same words.
  Bytes bytes = encode({{1, Role::server}, StatusReply{.fields = std::vector<StatusField>(64)}});
  std::vector<std::uint64_t> words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  std::size_t at = 0;
  while (!((words[at] & 3) == 1 && (words[at] >> 32 & 7) == 7)) ++at;
  words[at] = (words[at] & 0xffffffff) | std::uint64_t{500u << 3 | 2} << 32;
  std::memcpy(bytes.data(), words.data(), bytes.size());
  CHECK(says(error_of(bytes), "another form"));
}
