#pragma once
// Conversion of each struct of messages.h to and from its Cap'n Proto form: `put` fills a builder,
// `get` fills a struct from a reader. A reader may hold hostile bytes: `get` throws kj::Exception
// for invalid values. It reads every pointer once, so that the reader's traversal limit bounds the
// allocated memory. Included only by codec*.cc and json.cc.
#include <capnp/any.h>
#include <capnp/schema.h>
#include <kj/debug.h>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/wire/schema/cache.capnp.h"
#include "runtime/wire/schema/cluster.capnp.h"
#include "runtime/wire/schema/serving.capnp.h"

namespace troupe::codec {

// ---- One line per struct; the bodies are in the codec_*.cc files

#define TROUPE_CODEC_OF(Struct)                     \
  void put(const Struct&, schema::Struct::Builder); \
  void get(schema::Struct::Reader, Struct&);
TROUPE_CODEC_OF(TraceContext)
TROUPE_CODEC_OF(Refusal)
TROUPE_CODEC_OF(Refused)
TROUPE_CODEC_OF(Timings)
TROUPE_CODEC_OF(RankRequest)
TROUPE_CODEC_OF(RankedItem)
TROUPE_CODEC_OF(RankReply)
TROUPE_CODEC_OF(TokenList)
TROUPE_CODEC_OF(ScoreRow)
TROUPE_CODEC_OF(ScoreRequest)
TROUPE_CODEC_OF(ScoreReply)
TROUPE_CODEC_OF(GenerateRequest)
TROUPE_CODEC_OF(GeneratedItem)
TROUPE_CODEC_OF(GenerateReply)
TROUPE_CODEC_OF(CompleteRequest)
TROUPE_CODEC_OF(CompleteReply)
TROUPE_CODEC_OF(Feature)
TROUPE_CODEC_OF(Condition)
TROUPE_CODEC_OF(PutUser)
TROUPE_CODEC_OF(AppendEvents)
TROUPE_CODEC_OF(Appended)
TROUPE_CODEC_OF(GetUser)
TROUPE_CODEC_OF(UserReply)
TROUPE_CODEC_OF(GetItem)
TROUPE_CODEC_OF(ItemReply)
TROUPE_CODEC_OF(DeleteUser)
TROUPE_CODEC_OF(PutItem)
TROUPE_CODEC_OF(DeleteItem)
TROUPE_CODEC_OF(Reload)
TROUPE_CODEC_OF(Stored)
TROUPE_CODEC_OF(Segment)
TROUPE_CODEC_OF(Readout)
TROUPE_CODEC_OF(Search)
TROUPE_CODEC_OF(Plan)
TROUPE_CODEC_OF(Beam)
TROUPE_CODEC_OF(SegmentBlock)
TROUPE_CODEC_OF(BlockUse)
TROUPE_CODEC_OF(Retention)
TROUPE_CODEC_OF(Execute)
TROUPE_CODEC_OF(Executed)
TROUPE_CODEC_OF(BlockQuery)
TROUPE_CODEC_OF(LookupBlocks)
TROUPE_CODEC_OF(BlocksFound)
TROUPE_CODEC_OF(BlockWant)
TROUPE_CODEC_OF(AcquireBlocks)
TROUPE_CODEC_OF(BlockGrant)
TROUPE_CODEC_OF(BlocksAcquired)
TROUPE_CODEC_OF(BlockOutcome)
TROUPE_CODEC_OF(ReleaseBlocks)
TROUPE_CODEC_OF(BlockEntry)
TROUPE_CODEC_OF(BlockVersion)
TROUPE_CODEC_OF(AreaCapacity)
TROUPE_CODEC_OF(CacheChanges)
TROUPE_CODEC_OF(InventoryRequest)
TROUPE_CODEC_OF(InventoryPart)
TROUPE_CODEC_OF(Forget)
TROUPE_CODEC_OF(AreaSplit)
TROUPE_CODEC_OF(SetSplit)
TROUPE_CODEC_OF(AreaReport)
TROUPE_CODEC_OF(ServedReport)
TROUPE_CODEC_OF(PoolReport)
TROUPE_CODEC_OF(LendPages)
TROUPE_CODEC_OF(PagesLent)
TROUPE_CODEC_OF(Heartbeat)
TROUPE_CODEC_OF(Versions)
TROUPE_CODEC_OF(Loss)
TROUPE_CODEC_OF(Strike)
TROUPE_CODEC_OF(Suspect)
TROUPE_CODEC_OF(LeaderBeat)
TROUPE_CODEC_OF(Drain)
TROUPE_CODEC_OF(StatusRequest)
TROUPE_CODEC_OF(StatusField)
TROUPE_CODEC_OF(StatusReply)
#undef TROUPE_CODEC_OF

// ---- Scalars

inline capnp::Text::Reader wire(const std::string& text) { return {text.data(), text.size()}; }
inline capnp::Data::Reader wire(const BlockName& name) { return {name.bytes.data(), name.bytes.size()}; }
inline capnp::Data::Reader wire(const std::optional<BlockName>& name) {
  return name ? wire(*name) : capnp::Data::Reader();
}

inline void get(capnp::Text::Reader text, std::string& out) { out.assign(text.begin(), text.size()); }
void get(capnp::Data::Reader name, BlockName& out);
void get(capnp::Data::Reader name, std::optional<BlockName>& out);

// Enumerators have the same numbers on both sides (asserted beside the structs that hold them).
template <class Wire, class E>
requires std::is_enum_v<E> Wire wire(E value) { return static_cast<Wire>(value); }

template <class Wire, class E>
requires std::is_enum_v<Wire> && std::is_enum_v<E>
void get(Wire value, E& out) {
  const auto number = static_cast<std::uint16_t>(value);
  static const capnp::EnumSchema known = capnp::Schema::from<Wire>();
  static const std::uint32_t count = known.getEnumerants().size();
  KJ_REQUIRE(number < count, "an enumerator is out of range", known.getShortDisplayName(), number);
  out = static_cast<E>(number);
}

// Writes the trace context of a message; it is absent if the message belongs to no trace.
template <class M, class Builder>
void put_trace(const M& message, Builder to) {
  if (message.trace != TraceContext{}) put(message.trace, to.initTrace());
}
template <class Reader, class M>
void get_trace(Reader from, M& message) {
  if (from.hasTrace()) get(from.getTrace(), message.trace);
}

// ---- Lists

template <class From, class List>
void put_list(const From& from, List to) {
  using T = std::remove_cvref_t<decltype(from[0])>;
  for (std::uint32_t i = 0; i < from.size(); ++i) {
    if constexpr (std::is_arithmetic_v<T>)
      to.set(i, from[i]);
    else if constexpr (requires { to.set(i, wire(from[i])); })
      to.set(i, wire(from[i]));
    else
      put(from[i], to[i]);
  }
}

// Lists of structs are written inline, a word or more per element. The other forms that a reader
// would accept are refused: reading a list of bytes as structs would allocate a hundred times its
// size.
template <class List>
void check_inline(List structs) {
  KJ_REQUIRE(structs.size() == 0 ||
                 capnp::AnyList::Reader(structs).getElementSize() == capnp::ElementSize::INLINE_COMPOSITE,
             "a list of structs has another form");
}

template <class T, class List>
void get_list(List from, std::vector<T>& to) {
  if constexpr (requires { from[0].totalSize(); }) check_inline(from);
  to.reserve(from.size());
  for (auto element : from) {
    if constexpr (std::is_arithmetic_v<T>)
      to.push_back(element);
    else
      get(element, to.emplace_back());
  }
}

}  // namespace troupe::codec
