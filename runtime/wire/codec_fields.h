#pragma once
// Conversion of each struct of messages.h to and from its Cap'n Proto form: `put` fills a builder,
// `get` fills a struct from a reader. Both are generated from the schemas, a statement for each field
// (runtime/wire/generator); this header has what the statements call. A reader may hold hostile
// bytes: `get` throws kj::Exception for invalid values. It reads every pointer once, so that the
// reader's traversal limit bounds the allocated memory. Included only by codec*.cc and json.cc.
//
// A member whose type the schema names ($cppType) is converted by two functions that are written by
// hand and declared here: `wire(member)` returns the value of the bytes, `get(value, member)` reads it.
#include <capnp/any.h>
#include <capnp/schema.h>
#include <kj/debug.h>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/wire/refusal_numbers.h"
#include "runtime/wire/schema/cache.capnp.h"
#include "runtime/wire/schema/cluster.capnp.h"
#include "runtime/wire/schema/envelope.capnp.h"
#include "runtime/wire/schema/serving.capnp.h"

#include "generated/message_codec.h"

namespace troupe::codec {

// A run of tokens that is itself an element of a list.
void put(const Tokens& tokens, schema::TokenList::Builder to);
void get(schema::TokenList::Reader from, Tokens& tokens);

// ---- Scalars

inline capnp::Text::Reader wire(const std::string& text) { return {text.data(), text.size()}; }
inline capnp::Data::Reader wire(const BlockName& name) { return {name.bytes.data(), name.bytes.size()}; }
inline capnp::Data::Reader wire(const std::optional<BlockName>& name) {
  return name ? wire(*name) : capnp::Data::Reader();
}

inline void get(capnp::Text::Reader text, std::string& out) { out.assign(text.begin(), text.size()); }
void get(capnp::Data::Reader name, BlockName& out);
void get(capnp::Data::Reader name, std::optional<BlockName>& out);

inline std::uint16_t wire(RefusalKind kind) { return wire_number(kind); }
inline void get(std::uint16_t number, RefusalKind& out) { out = kind_of_wire_number(number); }

// Options are words in the bytes. A word that this build does not know is `unreadable`, and its receiver
// refuses the request.
template <class Option>
requires requires(Option option) { word_of(option); }
capnp::Text::Reader wire(Option option) {
  const std::string_view word = word_of(option);
  return {word.data(), word.size()};
}
template <class Option>
requires requires(Option option) { word_of(option); }
void get(capnp::Text::Reader from, Option& out) {
  if (read_word({from.begin(), from.size()}, out)) out = Option::unreadable;
}

// Enumerators have the same numbers on both sides: enums are generated, or the generated code asserts it.
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

// True for a member that is omitted from the bytes ($ifAny).
template <class T>
bool is_default(const T& member) {
  return member == T{};
}

// ---- Lists

template <class List>
std::uint32_t list_size(const List& list) {
  return static_cast<std::uint32_t>(list.size());
}
inline std::uint32_t list_size(const VisibleSegments& sees) { return list_size(sees.ranges()); }

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
  to.clear();
  to.reserve(from.size());
  for (auto element : from) {
    if constexpr (std::is_arithmetic_v<T>)
      to.push_back(element);
    else
      get(element, to.emplace_back());
  }
}

}  // namespace troupe::codec
