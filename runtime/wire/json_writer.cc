// Writes messages as JSON. Members are read from where the schema places them, without Cap'n Proto's dynamic
// access, which looks up each member's type again.
#include "runtime/wire/json_writer.h"

#include <capnp/dynamic.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/base/check.h"
#include "runtime/wire/json_members.h"
#include "runtime/wire/json_text.h"

namespace troupe::json {
namespace {

using capnp::AnyList;
using capnp::AnyPointer;
using capnp::AnyStruct;
using capnp::StructSchema;
using capnp::Type;
using Kind = capnp::schema::Type::Which;

template <class Number>
void append_number(Number value, std::string& out) {
  char buffer[32];
  out.append(buffer, std::to_chars(buffer, std::end(buffer), value).ptr);
}

void append_double(double value, std::string& out) {
  if (std::isfinite(value))
    append_number(value, out);
  else
    out += "null";
}

void append_bool(bool value, std::string& out) { out += value ? "true" : "false"; }

bool is_number(Kind kind) {
  switch (kind) {
    case Kind::BOOL:
    case Kind::INT32:
    case Kind::UINT32:
    case Kind::INT64:
    case Kind::UINT64:
    case Kind::UINT16:
    case Kind::FLOAT64:
    case Kind::ENUM:
      return true;
    default:
      return false;
  }
}

std::size_t bytes_of(Kind kind) {
  switch (kind) {
    case Kind::UINT16:
    case Kind::ENUM:
      return 2;
    case Kind::INT32:
    case Kind::UINT32:
      return 4;
    default:
      return 8;
  }
}

std::string_view text_of(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

template <class Element, class Append>
void append_list(AnyPointer::Reader from, std::string& out, Append&& append) {
  const auto list = from.getAs<AnyList>().as<capnp::List<Element>>();
  out += '[';
  for (std::uint32_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ',';
    append(list[i], out);
  }
  out += ']';
}

}  // namespace

// The type of a member or of the elements of a list.
struct Writer::Value {
  Kind kind = Kind::VOID;
  const Struct* structs = nullptr;       // of a struct
  std::shared_ptr<const Value> element;  // of a list
  std::vector<std::string> words;        // of an enum, in quotes
};

struct Writer::Member {
  std::string before;   // its name in quotes, with the punctuation before and after it
  bool if_any = false;  // omitted if it is a text, list or struct that is not there; never the first member
  Value value;
  std::uint32_t offset = 0;  // in the data, in units of its size, or among the pointers
};

struct Writer::Struct {
  std::vector<Member> members;
};

Writer::Writer(StructSchema schema) : root_(struct_of(schema)) {}
Writer::~Writer() = default;

Writer::Struct* Writer::struct_of(StructSchema schema) {
  for (const auto& [known, form] : structs_)
    if (known == schema) return form.get();
  Struct& form = *structs_.emplace_back(schema, std::make_unique<Struct>()).second;
  for (auto field : schema.getFields()) {
    if (is_internal(field)) continue;
    const auto proto = field.getProto();
    TROUPE_CHECK(proto.isSlot() && !proto.getSlot().getHadExplicitDefault() &&
                     proto.getDiscriminantValue() == capnp::schema::Field::NO_DISCRIMINANT,
                 "a member that clients receive is in no group or union, and has no default of its own");
    Member member{form.members.empty() ? "{" : ",", has_annotation(field, if_any_annotation),
                  value_of(field.getType()), proto.getSlot().getOffset()};
    TROUPE_CHECK(!member.if_any || !form.members.empty(), "the first member is always there");
    append_json_string(member.before, name_of(field));
    member.before += ':';
    form.members.push_back(std::move(member));
  }
  TROUPE_CHECK(!form.members.empty(), "a struct that clients receive has members");
  return &form;
}

Writer::Value Writer::value_of(Type type) {
  Value value;
  value.kind = type.which();
  if (type.isStruct()) {
    value.structs = struct_of(type.asStruct());
  } else if (type.isList()) {
    value.element = std::make_shared<const Value>(value_of(type.asList().getElementType()));
    const Kind of = value.element->kind;
    TROUPE_CHECK(of != Kind::ENUM && of != Kind::LIST && of != Kind::UINT16,
                 "a list that clients receive has elements of this type");
  } else if (type.isEnum()) {
    for (auto word : type.asEnum().getEnumerants())
      append_json_string(value.words.emplace_back(), name_of(word));
  } else {
    TROUPE_CHECK(value.kind == Kind::TEXT || is_number(value.kind),
                 "a message that clients receive has no member of a type without a JSON form");
  }
  return value;
}

void Writer::write(AnyStruct::Reader from, std::string& out) const { write_struct(*root_, from, out); }

// An empty list may be there as a pointer.
void Writer::write_struct(const Struct& form, AnyStruct::Reader from, std::string& out) {
  const capnp::Data::Reader data = from.getDataSection();
  const auto pointers = from.getPointerSection();
  for (const Member& member : form.members) {
    if (is_number(member.value.kind)) {
      out += member.before;
      write_number(member, data, out);
      continue;
    }
    const AnyPointer::Reader pointer =
        member.offset < pointers.size() ? pointers[member.offset] : AnyPointer::Reader();
    if (member.if_any && (pointer.isNull() || (member.value.element && pointer.getAs<AnyList>().size() == 0)))
      continue;
    out += member.before;
    write_pointer(member.value, pointer, out);
  }
  out += '}';
}

// Data behind the end of a struct is 0.
void Writer::write_number(const Member& member, capnp::Data::Reader data, std::string& out) {
  const Kind kind = member.value.kind;
  if (kind == Kind::BOOL) {
    const std::size_t byte = member.offset / 8;
    return append_bool(byte < data.size() && (data[byte] >> member.offset % 8 & 1) != 0, out);
  }
  const std::size_t bytes = bytes_of(kind), at = member.offset * bytes;
  std::uint64_t bits = 0;  // the wire is little-endian, as all machines that Troupe is built for
  if (at + bytes <= data.size()) std::memcpy(&bits, data.begin() + at, bytes);
  switch (kind) {
    case Kind::INT32:
      return append_number(static_cast<std::int32_t>(bits), out);
    case Kind::INT64:
      return append_number(static_cast<std::int64_t>(bits), out);
    case Kind::FLOAT64:
      return append_double(std::bit_cast<double>(bits), out);
    case Kind::ENUM:
      TROUPE_CHECK(bits < member.value.words.size(), "an enum that clients receive has a word of the schema");
      out += member.value.words[bits];
      return;
    default:
      return append_number(bits, out);
  }
}

void Writer::write_pointer(const Value& value, AnyPointer::Reader from, std::string& out) {
  if (value.kind == Kind::TEXT) return append_json_string(out, text_of(from.getAs<capnp::Text>()));
  if (value.kind == Kind::STRUCT) return write_struct(*value.structs, from.getAs<AnyStruct>(), out);
  write_list(*value.element, from, out);
}

void Writer::write_list(const Value& element, AnyPointer::Reader from, std::string& out) {
  const auto number = [](auto value, std::string& to) { append_number(value, to); };
  switch (element.kind) {
    case Kind::STRUCT:
      return append_list<AnyStruct>(from, out, [&](AnyStruct::Reader each, std::string& to) {
        write_struct(*element.structs, each, to);
      });
    case Kind::TEXT:
      return append_list<capnp::Text>(from, out, [](capnp::Text::Reader each, std::string& to) {
        append_json_string(to, text_of(each));
      });
    case Kind::BOOL:
      return append_list<bool>(from, out, append_bool);
    case Kind::INT32:
      return append_list<std::int32_t>(from, out, number);
    case Kind::UINT32:
      return append_list<std::uint32_t>(from, out, number);
    case Kind::INT64:
      return append_list<std::int64_t>(from, out, number);
    case Kind::UINT64:
      return append_list<std::uint64_t>(from, out, number);
    default:
      return append_list<double>(from, out, append_double);
  }
}

}  // namespace troupe::json
