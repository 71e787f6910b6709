#include "runtime/wire/json_schema.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <list>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "kernels/base/check.h"
#include "runtime/wire/json_text.h"

namespace troupe::json {
namespace {

using capnp::DynamicList;
using capnp::DynamicStruct;
using capnp::DynamicValue;
using capnp::StructSchema;
using capnp::Type;
using Value = nlohmann::json;

constexpr std::size_t depth_max = 16;
constexpr std::size_t quoted_bytes_max = 64;  // of a client's text that an error repeats

// Ids of annotations: $Json.name of Cap'n Proto's json.capnp, and $internal of schema/serving.capnp.
constexpr std::uint64_t name_annotation = 0xfa5b1fd61c2e7c3d;
constexpr std::uint64_t internal_annotation = 0xa180aca20b223898;

bool is_internal(StructSchema::Field field) {
  for (auto annotation : field.getProto().getAnnotations())
    if (annotation.getId() == internal_annotation) return true;
  return false;
}

// Of a field or an enumerant.
template <class Declaration>
std::string_view name_of(Declaration declaration) {
  const auto proto = declaration.getProto();
  for (auto annotation : proto.getAnnotations())
    if (annotation.getId() == name_annotation) return annotation.getValue().getText().cStr();
  return proto.getName().cStr();
}

// ---- Text to values
// ----------------------------------------------------------------------------------------

[[noreturn]] void malformed(std::string what, std::size_t byte) {
  throw Refusal{400, "malformed_json", std::move(what), "byte " + std::to_string(byte), "a JSON object"};
}

// Builds a value from the parser's events, and refuses what the parser itself would let pass: depth, keys
// twice. The library's own callback parser takes time quadratic in the length of an array.
class TreeBuilder {
 public:
  Value root;

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(std::int64_t value) { return put(value); }
  bool number_unsigned(std::uint64_t value) { return put(value); }
  bool number_float(double value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Value::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Value::object()); }
  bool start_array(std::size_t) { return open(Value::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    const auto [slot, is_new] = open_.back()->get_ref<Value::object_t&>().emplace(name, nullptr);
    if (!is_new)
      throw Refusal{400, "malformed_json", "a key is given twice", name.substr(0, quoted_bytes_max),
                    "it once"};
    slot_ = &slot->second;
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception& error) {
    // "[json.exception.…] parse error at …: what; last read: '…'": the part between, which has a bounded
    // length.
    std::string_view what = error.what();
    if (const auto end = what.find("] "); end != what.npos) what.remove_prefix(end + 2);
    what = what.substr(0, what.find("; last read"));
    malformed(std::string(what.substr(0, 2 * quoted_bytes_max)), byte);
  }

 private:
  bool put(Value value) {
    place(std::move(value));
    return true;
  }
  Value* place(Value value) {
    if (open_.empty()) return &(root = std::move(value));
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
    return &(*slot_ = std::move(value));
  }
  bool open(Value value) {
    if (open_.size() == depth_max)
      throw Refusal{400, "malformed_json", "the body is nested too deep", "body",
                    "at most " + std::to_string(depth_max) + " levels"};
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<Value*> open_;  // from the root inwards; a parent does not grow while its child is open
  Value* slot_ = nullptr;     // of the last key
};

Value parse(std::string_view body) {
  // The library takes a NUL for the end of the text and would not look at what follows.
  if (const auto nul = body.find('\0'); nul != body.npos) malformed("the body has a NUL byte", nul + 1);
  TreeBuilder builder;
  Value::sax_parse(body.begin(), body.end(), &builder);
  return std::move(builder.root);
}

// ---- Values to messages
// ------------------------------------------------------------------------------------

// Where we are in the body; written out only for an error.
struct Path {
  const Path* parent = nullptr;
  std::string_view key;
  std::size_t index = 0;  // when the key is empty

  std::string text() const {
    if (parent == nullptr) return "";
    if (key.empty()) return parent->text() + "[" + std::to_string(index) + "]";
    const std::string before = parent->text();
    return (before.empty() ? "" : before + ".") + std::string(key.substr(0, quoted_bytes_max));
  }
};

[[noreturn]] void wrong_type(const Value& value, const Path& path, std::string expected) {
  std::string where = path.text();
  if (where.empty()) where = "body";
  std::string what = where + " is " + (value.is_number() ? value.dump() : value.type_name());
  throw Refusal{400, "wrong_type", std::move(what), std::move(where), std::move(expected)};
}

template <class Integer>
DynamicValue::Reader integer(const Value& value, const Path& path) {
  using Limits = std::numeric_limits<Integer>;
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<Integer>(value.get<std::uint64_t>())
                        : value.is_number_integer() && std::in_range<Integer>(value.get<std::int64_t>());
  if (!fits)
    wrong_type(value, path,
               "an integer from " + std::to_string(Limits::min()) + " to " + std::to_string(Limits::max()));
  return value.get<Integer>();
}

DynamicValue::Reader text(const Value& value, const Path& path) {
  if (!value.is_string()) wrong_type(value, path, "a string");
  const auto& string = value.get_ref<const std::string&>();
  // Ids become parts of keys and names elsewhere; none of them has to survive a NUL.
  if (string.find('\0') != string.npos) wrong_type(value, path, "a string without U+0000");
  return capnp::Text::Reader(string.data(), string.size());
}

DynamicValue::Reader scalar(const Value& value, Type type, const Path& path) {
  switch (type.which()) {
    case capnp::schema::Type::BOOL:
      if (!value.is_boolean()) wrong_type(value, path, "true or false");
      return value.get<bool>();
    case capnp::schema::Type::INT32:
      return integer<std::int32_t>(value, path);
    case capnp::schema::Type::UINT32:
      return integer<std::uint32_t>(value, path);
    case capnp::schema::Type::INT64:
      return integer<std::int64_t>(value, path);
    case capnp::schema::Type::UINT64:
      return integer<std::uint64_t>(value, path);
    case capnp::schema::Type::TEXT:
      return text(value, path);
    default:
      break;
  }
  TROUPE_CHECK(false, "a message that clients send has a member of a type that has no JSON form");
  return {};
}

void read_struct(const Value& value, DynamicStruct::Builder out, const Path& path);

void read_list(const Value& value, DynamicList::Builder out, const Path& path) {
  const Type type = out.getSchema().getElementType();
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    const Path here{&path, {}, i};
    if (type.isStruct())
      read_struct(value[i], out[i].as<DynamicStruct>(), here);
    else
      out.set(i, scalar(value[i], type, here));
  }
}

StructSchema::Field field_named(std::string_view name, StructSchema schema, const Path& path) {
  std::string known;
  for (auto field : schema.getFields()) {
    if (is_internal(field)) continue;
    if (name_of(field) == name) return field;
    known += (known.empty() ? "one of " : ", ") + std::string(name_of(field));
  }
  throw Refusal{400, "unknown_field", "there is no such field", path.text(), known};
}

void read_struct(const Value& value, DynamicStruct::Builder out, const Path& path) {
  if (!value.is_object()) wrong_type(value, path, "an object");
  for (const auto& [key, member] : value.get_ref<const Value::object_t&>()) {
    const Path here{&path, key.empty() ? std::string_view("\"\"") : key};
    const auto field = field_named(key, out.getSchema(), here);
    if (field.getType().isList()) {
      if (!member.is_array()) wrong_type(member, here, "an array");
      read_list(member, out.init(field, member.size()).as<DynamicList>(), here);
    } else {
      out.set(field, scalar(member, field.getType(), here));
    }
  }
}

// ---- Messages to text
// --------------------------------------------------------------------------------------

void write_double(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char buffer[32];
  out.append(buffer, std::to_chars(buffer, std::end(buffer), value).ptr);
}

// Writes one message. What a struct's members are called is read from the schema once, for a reply has a thousand
// structs of one kind.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void write(DynamicStruct::Reader from) {
    const StructSchema schema = from.getSchema();
    write(from, members_of(schema));
  }

 private:
  struct Member {
    StructSchema::Field field;
    std::string before;  // its name in quotes with what stands before and behind it
  };
  using Members = std::vector<Member>;

  const Members& members_of(StructSchema schema) {
    for (const auto& [known, members] : forms_)
      if (known == schema) return members;
    Members members;
    for (auto field : schema.getFields()) {
      if (is_internal(field)) continue;
      Member& member = members.emplace_back(Member{field, members.empty() ? "{" : ","});
      append_json_string(member.before, name_of(field));
      member.before += ':';
    }
    TROUPE_CHECK(!members.empty(), "a struct that clients receive has members");
    return forms_.emplace_back(schema, std::move(members)).second;
  }

  void write(DynamicStruct::Reader from, const Members& members) {
    for (const Member& member : members) {
      out_ += member.before;
      write_value(from.get(member.field));
    }
    out_ += '}';
  }

  void write_list(DynamicList::Reader from) {
    const Type type = from.getSchema().getElementType();
    const Members* members = type.isStruct() ? &members_of(type.asStruct()) : nullptr;
    out_ += '[';
    for (std::uint32_t i = 0; i < from.size(); ++i) {
      if (i > 0) out_ += ',';
      if (members)
        write(from[i].as<DynamicStruct>(), *members);
      else
        write_value(from[i]);
    }
    out_ += ']';
  }

  void write_value(DynamicValue::Reader value) {
    switch (value.getType()) {
      case DynamicValue::BOOL:
        out_ += value.as<bool>() ? "true" : "false";
        return;
      case DynamicValue::INT:
        out_ += std::to_string(value.as<std::int64_t>());
        return;
      case DynamicValue::UINT:
        out_ += std::to_string(value.as<std::uint64_t>());
        return;
      case DynamicValue::FLOAT:
        return write_double(value.as<double>(), out_);
      case DynamicValue::TEXT: {
        const auto text = value.as<capnp::Text>();
        return append_json_string(out_, {text.begin(), text.size()});
      }
      case DynamicValue::LIST:
        return write_list(value.as<DynamicList>());
      case DynamicValue::STRUCT:
        return write(value.as<DynamicStruct>());
      case DynamicValue::ENUM:
        KJ_IF_MAYBE (enumerant, value.as<capnp::DynamicEnum>().getEnumerant())
          return append_json_string(out_, name_of(*enumerant));
        break;
      default:
        break;
    }
    TROUPE_CHECK(false, "a message that clients receive has a member of a type that has no JSON form");
  }

  std::string& out_;
  std::list<std::pair<StructSchema, Members>> forms_;  // few; they stay where they are
};

}  // namespace

void read(std::string_view body, DynamicStruct::Builder out) { read_struct(parse(body), out, Path{}); }

void write(DynamicStruct::Reader from, std::string& out) { Writer(out).write(from); }

}  // namespace troupe::json
