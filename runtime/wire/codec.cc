// Encodes each message between actors to bytes and decodes it, as one Cap'n Proto envelope. A
// table lists all kinds of messages; a kind that is missing in it does not compile.
#include "runtime/wire/codec.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstring>

#include "runtime/profiling/cpu_components.h"
#include "runtime/wire/codec_fields.h"
#include "runtime/wire/codec_scratch.h"
#include "runtime/wire/json_text.h"
#include "runtime/wire/schema/envelope.capnp.h"

// Alternatives of Message, in its order: type, member of the envelope's union.
#define TROUPE_FOR_EACH_MESSAGE(X)       \
  X(RankRequest, RANK_REQUEST)           \
  X(RankReply, RANK_REPLY)               \
  X(ScoreRequest, SCORE_REQUEST)         \
  X(ScoreReply, SCORE_REPLY)             \
  X(PutUser, PUT_USER)                   \
  X(DeleteUser, DELETE_USER)             \
  X(PutItem, PUT_ITEM)                   \
  X(DeleteItem, DELETE_ITEM)             \
  X(Reload, RELOAD)                      \
  X(Stored, STORED)                      \
  X(Refused, REFUSED)                    \
  X(Execute, EXECUTE)                    \
  X(Executed, EXECUTED)                  \
  X(LookupBlocks, LOOKUP_BLOCKS)         \
  X(BlocksFound, BLOCKS_FOUND)           \
  X(AcquireBlocks, ACQUIRE_BLOCKS)       \
  X(BlocksAcquired, BLOCKS_ACQUIRED)     \
  X(ReleaseBlocks, RELEASE_BLOCKS)       \
  X(CacheChanges, CACHE_CHANGES)         \
  X(InventoryRequest, INVENTORY_REQUEST) \
  X(InventoryPart, INVENTORY_PART)       \
  X(Forget, FORGET)                      \
  X(SetSplit, SET_SPLIT)                 \
  X(PoolReport, POOL_REPORT)             \
  X(Heartbeat, HEARTBEAT)                \
  X(Versions, VERSIONS)                  \
  X(Suspect, SUSPECT)                    \
  X(LeaderBeat, LEADER_BEAT)             \
  X(Drain, DRAIN)                        \
  X(StatusRequest, STATUS_REQUEST)       \
  X(StatusReply, STATUS_REPLY)           \
  X(GenerateRequest, GENERATE_REQUEST)   \
  X(GenerateReply, GENERATE_REPLY)       \
  X(CompleteRequest, COMPLETE_REQUEST)   \
  X(CompleteReply, COMPLETE_REPLY)       \
  X(LendPages, LEND_PAGES)               \
  X(PagesLent, PAGES_LENT)               \
  X(AppendEvents, APPEND_EVENTS)         \
  X(Appended, APPENDED)                  \
  X(GetUser, GET_USER)                   \
  X(UserReply, USER_REPLY)               \
  X(GetItem, GET_ITEM)                   \
  X(ItemReply, ITEM_REPLY)

namespace troupe {
namespace {

// A new alternative of Message that has no line above, or has it in the wrong order, does not
// compile.
enum class Alternative : std::size_t {
#define TROUPE_X(Struct, MEMBER) Struct,
  TROUPE_FOR_EACH_MESSAGE(TROUPE_X)
#undef TROUPE_X
      count_
};
static_assert(static_cast<std::size_t>(Alternative::count_) == std::variant_size_v<AnyMessage>);
#define TROUPE_X(Struct, MEMBER)                                                            \
  static_assert(static_cast<std::size_t>(Alternative::Struct) == schema::Envelope::MEMBER); \
  static_assert(                                                                            \
      std::is_same_v<                                                                       \
          Struct, std::variant_alternative_t<static_cast<std::size_t>(Alternative::Struct), AnyMessage>>);
TROUPE_FOR_EACH_MESSAGE(TROUPE_X)
#undef TROUPE_X

#define TROUPE_X(Struct, MEMBER) \
  void put_message(const Struct& m, schema::Envelope::Builder to) { codec::put(m, to.init##Struct()); }
TROUPE_FOR_EACH_MESSAGE(TROUPE_X)
#undef TROUPE_X

void get_message(schema::Envelope::Reader from, Message& out) {
  switch (from.which()) {
#define TROUPE_X(Struct, MEMBER) \
  case schema::Envelope::MEMBER: \
    return codec::get(from.get##Struct(), out.emplace<Struct>());
    TROUPE_FOR_EACH_MESSAGE(TROUPE_X)
#undef TROUPE_X
  }
  KJ_FAIL_REQUIRE("an unknown kind of message", static_cast<std::uint16_t>(from.which()));
}

Envelope read_envelope(kj::ArrayPtr<const capnp::word> words) {
  // Every word is read once, so a message that costs more than its own size is an attack.
  capnp::ReaderOptions options;
  options.traversalLimitInWords = words.size() + 8;
  options.nestingLimit = 16;
  capnp::FlatArrayMessageReader reader(words, options);
  KJ_REQUIRE(reader.getEnd() == words.end(), "bytes after the end of the message");
  const auto from = reader.getRoot<schema::Envelope>();
  Envelope out;
  out.from.node = from.getFromNode();
  codec::get(from.getFromRole(), out.from.role);
  get_message(from, out.message);
  return out;
}

}  // namespace

Bytes encode(const Envelope& envelope) {
  const CpuScope codec(CpuComponent::codec);
  static thread_local codec::MessageScratch scratch;
  for (;;) {
    capnp::MallocMessageBuilder builder{scratch.segment()};
    auto to = builder.initRoot<schema::Envelope>();
    to.setFromNode(envelope.from.node);
    to.setFromRole(codec::wire<schema::Role>(envelope.from.role));
    std::visit([&](const auto& m) { put_message(m, to); }, envelope.message);
    const std::size_t words = capnp::computeSerializedSizeInWords(builder);
    if (!scratch.record_size(words)) continue;
    Bytes bytes(words * sizeof(capnp::word));
    kj::ArrayOutputStream out(kj::arrayPtr(bytes.data(), bytes.size()));
    capnp::writeMessage(out, builder);
    return bytes;
  }
}

std::variant<Envelope, std::string> decode(std::span<const std::uint8_t> bytes) {
  const CpuScope codec(CpuComponent::codec);
  constexpr std::size_t word = sizeof(capnp::word);
  if (bytes.empty() || bytes.size() % word != 0)
    return "envelope: " + std::to_string(bytes.size()) + " bytes; expected a multiple of 8";
  auto words = kj::heapArray<capnp::word>(bytes.size() / word);
  std::memcpy(words.asBytes().begin(), bytes.data(), bytes.size());
  try {
    return read_envelope(words);
  } catch (const kj::Exception& e) {
    // the text may contain the invalid byte
    return printable(std::string("envelope: ") + e.getDescription().cStr());
  }
}

}  // namespace troupe
