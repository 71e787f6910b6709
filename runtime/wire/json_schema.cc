// Reads JSON along a Cap'n Proto schema, and describes that schema as JSON Schema.
// Each member of a message is thus declared once, for the wire and for HTTP. json_writer.cc writes JSON.
#include "runtime/wire/json_schema.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "kernels/base/check.h"
#include "runtime/actor/row_rules.h"
#include "runtime/wire/json_fault.h"
#include "runtime/wire/json_members.h"
#include "runtime/wire/json_text.h"

namespace troupe::json {
namespace {

using capnp::DynamicList;
using capnp::DynamicStruct;
using capnp::DynamicValue;
using capnp::StructSchema;
using capnp::Type;
using Value = nlohmann::json;

constexpr std::size_t quoted_bytes_max = 64;  // of the client's text that an error quotes

// ---- Values and their positions

// Position in the body; written out only for an error.
struct Path {
  const Path* parent = nullptr;
  std::string_view key;
  std::size_t index = 0;  // array index, when the key is empty

  std::string text() const {
    if (parent == nullptr) return "";
    if (key.empty()) return parent->text() + "[" + std::to_string(index) + "]";
    const std::string before = parent->text();
    return (before.empty() ? "" : before + ".") + std::string(key.substr(0, quoted_bytes_max));
  }
};

std::string place_of(const Path& path) {
  std::string where = path.text();
  return where.empty() ? "body" : where;
}

[[noreturn]] void wrong_value(std::string_view found, const Path& path, std::string expected) {
  std::string where = place_of(path);
  throw Refusal{RefusalKind::malformed, "wrong_type", where + " is " + std::string(found), std::move(where),
                std::move(expected)};
}
[[noreturn]] void wrong_type(const Value& value, const Path& path, std::string expected) {
  wrong_value(value.is_number() ? value.dump() : value.type_name(), path, std::move(expected));
}

// Returns the member that a value belongs to; that of its list, if it is an element.
std::string_view member_of(const Path& path) {
  if (!path.key.empty() || path.parent == nullptr) return path.key;
  return path.parent->key;
}

bool has_rule(const NumberRule& rule) { return rule.least != INT64_MIN || rule.most != INT64_MAX; }

std::string expected_of(Type type) {
  switch (type.which()) {
    case capnp::schema::Type::BOOL:
      return "true or false";
    case capnp::schema::Type::INT32:
      return "a whole number from -2147483648 to 2147483647";
    case capnp::schema::Type::UINT32:
      return "a whole number from 0 to 4294967295";
    case capnp::schema::Type::INT64:
      return "a whole number from -9223372036854775808 to 9223372036854775807";
    case capnp::schema::Type::UINT64:
      return "a whole number from 0 to 18446744073709551615";
    case capnp::schema::Type::FLOAT64:
      return "a number that a double can hold";
    case capnp::schema::Type::TEXT:
      return "a string";
    case capnp::schema::Type::LIST:
      return "an array";
    default:
      return "an object";
  }
}

// Refuses a number that is not written as a whole number, is out of range, or does not belong here.
[[noreturn]] void refuse_written(std::string_view written, Type type, const Path& path) {
  const NumberRule rule = number_rule(member_of(path));
  if (has_rule(rule)) {
    auto read = read_number(written, rule, place_of(path));
    if (auto* refusal = std::get_if<Refusal>(&read)) throw std::move(*refusal);
  }
  wrong_value(written.substr(0, quoted_bytes_max), path, expected_of(type));
}

bool is_integer(Type type) { return type.isInt32() || type.isUInt32() || type.isInt64() || type.isUInt64(); }

template <class Integer>
DynamicValue::Reader integer(const Value& value, Type type, const Path& path) {
  const NumberRule rule = number_rule(member_of(path));
  if (!value.is_number_integer()) {
    if (has_rule(rule)) throw no_number(value.type_name(), rule, place_of(path));
    refuse_written(value.type_name(), type, path);
  }
  const bool fits = value.is_number_unsigned() ? std::in_range<Integer>(value.get<std::uint64_t>())
                                               : std::in_range<Integer>(value.get<std::int64_t>());
  if (!fits) refuse_written(value.dump(), type, path);
  if (has_rule(rule))
    if (auto fault = reject_number(value.get<std::int64_t>(), rule, place_of(path))) throw *std::move(fault);
  return value.get<Integer>();
}

DynamicValue::Reader text(const Value& value, const Path& path) {
  if (!value.is_string()) wrong_type(value, path, "a string");
  const auto& string = value.get_ref<const std::string&>();
  if (string.find('\0') != string.npos)  // the place is written only for a fault
    if (auto fault = reject_text(string, place_of(path))) throw *std::move(fault);
  return capnp::Text::Reader(string.data(), string.size());
}

DynamicValue::Reader scalar(const Value& value, Type type, const Path& path) {
  switch (type.which()) {
    case capnp::schema::Type::BOOL:
      if (!value.is_boolean()) wrong_type(value, path, "true or false");
      return value.get<bool>();
    case capnp::schema::Type::INT32:
      return integer<std::int32_t>(value, type, path);
    case capnp::schema::Type::UINT32:
      return integer<std::uint32_t>(value, type, path);
    case capnp::schema::Type::INT64:
      return integer<std::int64_t>(value, type, path);
    case capnp::schema::Type::UINT64:
      return integer<std::uint64_t>(value, type, path);
    case capnp::schema::Type::FLOAT64:
      if (!value.is_number()) wrong_type(value, path, "a number");
      return value.get<double>();
    case capnp::schema::Type::TEXT:
      return text(value, path);
    default:
      break;
  }
  TROUPE_CHECK(false, "a message that clients send has a member of a type that has no JSON form");
  return {};
}

StructSchema::Field field_named(std::string_view name, StructSchema schema, const Path& path) {
  std::string known;
  for (auto field : schema.getFields()) {
    if (is_internal(field)) continue;
    if (name_of(field) == name) return field;
    known += (known.empty() ? "one of " : ", ") + std::string(name_of(field));
  }
  throw Refusal{RefusalKind::malformed, "unknown_field", "there is no such field", path.text(), known};
}

// Refuses a value that its type cannot hold.
[[noreturn]] void refuse_type(const Value& value, Type type, const Path& path) {
  if (type.isStruct()) wrong_type(value, path, "an object");
  if (type.isList()) wrong_type(value, path, "an array");
  scalar(value, type, path);
  wrong_type(value, path, "another value");
}

std::string_view shown(std::string_view key) { return key.empty() ? "\"\"" : key; }

// ---- Text to values

// Builds a value from the parser's events, along the schema and within the limits of lists. A value
// that a message cannot hold is refused where it begins, before more of it is read and kept, so the
// schema also bounds the depth. The library's own callback parser takes time quadratic in the
// length of an array.
class TreeBuilder {
 public:
  TreeBuilder(std::string_view body, StructSchema root_schema, std::span<const ListLimit> limits,
              const Spellings& spellings, std::vector<RenamedMember>& renamed)
      : body_(body),
        schema_(root_schema),
        limits_(limits),
        spellings_(spellings),
        renamed_(renamed),
        elements_(limits.size()) {}

  Value root;

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(std::int64_t value) { return put(value); }
  bool number_unsigned(std::uint64_t value) { return put(value); }
  bool number_float(double value, const std::string& written) {
    const Type type = type_here();
    put(value);
    if (is_integer(type)) at_path([&](const Path& path) { refuse_written(written, type, path); });
    return true;
  }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Value::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Value::object()); }
  bool start_array(std::size_t) { return open(Value::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    Open& object = open_.back();
    const bool is_id = open_.size() == 1 && !spellings_.id.empty() && name == "id";
    const std::string written = name;
    if (is_id) name = spellings_.id;
    add_member(object, name, written);
    if (is_id) renamed_.push_back({name, "id"});
    if (open_.size() == 1 && is_feature(name))
      object.field = values_of_features();
    else
      at_path([&](const Path& path) { object.field = field_named(name, object.type.asStruct(), path); });
    return true;
  }
  bool parse_error(std::size_t byte, const std::string& token, const nlohmann::detail::exception& error) {
    constexpr int out_of_range_number = 406;
    if (error.id != out_of_range_number) refuse_json(body_, byte);
    const Type type = type_here();
    put(0.0);
    at_path([&](const Path& path) { refuse_written(token, type, path); });
    return false;
  }

 private:
  struct Open {  // an object or array
    Value* value;
    Type type;                           // expected type: a struct or a list
    Value::object_t::iterator member{};  // member of the last key
    StructSchema::Field field{};         // field of the last key
    std::size_t limit = SIZE_MAX;        // index of the array's limit in limits_
  };

  bool put(Value value) {
    append_value(std::move(value));
    return true;
  }
  Value* append_value(Value value) {
    if (open_.empty()) return &(root = std::move(value));
    Open& parent = open_.back();
    if (!parent.value->is_array()) return &(parent.member->second = std::move(value));
    count_element(parent);
    return &parent.value->emplace_back(std::move(value));
  }
  void count_element(const Open& array) {
    if (array.limit == SIZE_MAX) return;
    const ListLimit& limit = limits_[array.limit];
    if (++elements_[array.limit] > limit.max) throw refuse_length(limit);
  }

  void add_member(Open& object, const std::string& name, std::string_view written) {
    const auto [slot, is_new] = object.value->get_ref<Value::object_t&>().emplace(name, nullptr);
    if (!is_new || (open_.size() == 1 && has_feature_list_ && name == features_member))
      throw Refusal{RefusalKind::malformed, "malformed_json", "a key is given twice",
                    std::string(written.substr(0, quoted_bytes_max)), "it once"};
    object.member = slot;
  }
  // Takes a list of "features" as the member that the message has for it.
  void rename_feature_list() {
    if (open_.size() != 1 || spellings_.feature_list == features_member) return;
    Open& object = open_.back();
    if (!object.value->is_object() || object.member->first != features_member) return;
    object.value->get_ref<Value::object_t&>().erase(object.member);
    add_member(object, std::string(spellings_.feature_list), spellings_.feature_list);
    renamed_.push_back({std::string(spellings_.feature_list), std::string(features_member)});
    object.field = feature_list_field();
    has_feature_list_ = true;
  }

  bool open(Value value) {
    if (value.is_array()) rename_feature_list();
    const Type type = type_here();
    const bool is_array = value.is_array();
    Open opened{append_value(std::move(value)), type};
    if (is_array ? !type.isList() : !type.isStruct())
      at_path([&](const Path& path) { refuse_type(*opened.value, type, path); });
    if (is_array) opened.limit = limit_here();
    open_.push_back(opened);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  bool is_feature(std::string_view name) const {
    return std::ranges::find(spellings_.features, name) != spellings_.features.end();
  }
  StructSchema::Field feature_list_field() const {
    return field_named(spellings_.feature_list, schema_.asStruct(), Path{});
  }
  // Returns the field of a feature's values, which a feature's own member has, too.
  StructSchema::Field values_of_features() const {
    const auto list = feature_list_field().getType().asList();
    return list.getElementType().asStruct().getFieldByName("values");
  }

  // Returns the type of the next value.
  Type type_here() const {
    if (open_.empty()) return schema_;
    const Open& parent = open_.back();
    return parent.value->is_array() ? parent.type.asList().getElementType() : parent.field.getType();
  }
  std::size_t limit_here() const {
    if (open_.empty() || !open_.back().value->is_object()) return SIZE_MAX;
    const auto found = std::ranges::find(limits_, name_of(open_.back().field), &ListLimit::list);
    return found == limits_.end() ? SIZE_MAX : static_cast<std::size_t>(found - limits_.begin());
  }
  // Calls `use` with the builder's position.
  template <class Use>
  void at_path(const Use& use) const {
    std::vector<Path> path(1);
    path.reserve(open_.size() + 1);  // each element points at the one before
    for (const Open& open : open_) {
      const Path* parent = &path.back();
      if (open.value->is_array())
        path.push_back({parent, {}, open.value->size() - 1});
      else
        path.push_back({parent, shown(open.member->first)});
    }
    use(path.back());
  }

  std::string_view body_;
  Type schema_;
  std::span<const ListLimit> limits_;
  static constexpr std::string_view features_member = "features";
  const Spellings& spellings_;
  std::vector<RenamedMember>& renamed_;
  bool has_feature_list_ = false;      // the body has a list of "features", which was renamed
  std::vector<std::size_t> elements_;  // elements counted so far for each limit
  std::vector<Open> open_;             // from the root inwards; a parent does not grow while a child is open
};

Value parse(std::string_view body, StructSchema schema, std::span<const ListLimit> limits,
            const Spellings& spellings, std::vector<RenamedMember>& renamed) {
  reject_if_not_text(body);
  TreeBuilder builder(body, schema, limits, spellings, renamed);
  Value::sax_parse(body.begin(), body.end(), &builder);
  return std::move(builder.root);
}

// ---- Values to messages

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

void read_struct(const Value& value, DynamicStruct::Builder out, const Path& path) {
  if (!value.is_object()) wrong_type(value, path, "an object");
  for (const auto& [key, member] : value.get_ref<const Value::object_t&>()) {
    const Path here{&path, shown(key)};
    const auto field = field_named(key, out.getSchema(), here);
    if (field.getType().isList()) {
      if (!member.is_array()) wrong_type(member, here, "an array");
      read_list(member, out.init(field, member.size()).as<DynamicList>(), here);
    } else {
      out.set(field, scalar(member, field.getType(), here));
    }
  }
}

// Moves features that have members of their own to the list of features.
void gather_features(Value& root, const Spellings& spellings) {
  if (!root.is_object()) return;
  const std::string member(spellings.feature_list);
  for (const std::string& name : spellings.features) {
    const auto own = root.find(name);
    if (own == root.end()) continue;
    const Path place{nullptr, {}}, at{&place, name};
    if (!own->is_array()) wrong_type(*own, at, "an array");
    for (std::size_t i = 0; i < own->size(); ++i)
      integer<std::int64_t>((*own)[i], capnp::schema::Type::INT64, Path{&at, {}, i});
    Value feature{{"name", name}, {"values", std::move(*own)}};
    root.erase(own);
    Value& list = root.emplace(member, Value::array()).first.value();
    if (!list.is_array()) wrong_type(list, Path{&place, member}, "an array");
    list.push_back(std::move(feature));
  }
}

}  // namespace

void read(std::string_view body, DynamicStruct::Builder out, std::span<const ListLimit> limits,
          const Spellings& spellings) {
  std::vector<RenamedMember> renamed;
  try {
    Value root = parse(body, out.getSchema(), limits, spellings, renamed);
    gather_features(root, spellings);
    read_struct(root, out, Path{});
  } catch (const Refusal& refusal) {
    throw as_written(refusal, renamed);
  }
}

// ---- The schema itself

namespace {

std::string schema_name(StructSchema of) { return of.getShortDisplayName().cStr(); }

std::string type_schema(Type type, bool written, std::map<std::string, std::string>& schemas) {
  switch (type.which()) {
    case capnp::schema::Type::BOOL:
      return R"({"type":"boolean"})";
    case capnp::schema::Type::INT32:
      return R"({"type":"integer","format":"int32"})";
    case capnp::schema::Type::INT64:
      return R"({"type":"integer","format":"int64"})";
    case capnp::schema::Type::UINT16:
    case capnp::schema::Type::UINT32:
    case capnp::schema::Type::UINT64:
      return R"({"type":"integer","minimum":0})";
    case capnp::schema::Type::FLOAT64:
      return R"({"type":"number"})";
    case capnp::schema::Type::TEXT:
      return R"({"type":"string"})";
    case capnp::schema::Type::LIST:
      return R"({"type":"array","items":)" + type_schema(type.asList().getElementType(), written, schemas) +
             "}";
    case capnp::schema::Type::ENUM: {
      std::string words;
      for (auto word : type.asEnum().getEnumerants())
        append_json_string(words += words.empty() ? "" : ",", name_of(word));
      return R"({"type":"string","enum":[)" + words + "]}";
    }
    case capnp::schema::Type::STRUCT:
      describe(type.asStruct(), written, schemas);
      return R"({"$ref":"#/components/schemas/)" + schema_name(type.asStruct()) + "\"}";
    default:
      TROUPE_CHECK(false, "bodies have no members of this type");
  }
  return "";
}

}  // namespace

void describe(StructSchema of, bool written, std::map<std::string, std::string>& schemas) {
  const auto [at, is_new] = schemas.try_emplace(schema_name(of));
  if (!is_new) return;
  std::string properties, required;
  for (auto field : of.getFields()) {
    if (is_internal(field)) continue;
    append_json_string(properties += properties.empty() ? "" : ",", name_of(field));
    properties += ":" + type_schema(field.getType(), written, schemas);
    if (!written || has_annotation(field, if_any_annotation)) continue;
    append_json_string(required += required.empty() ? "" : ",", name_of(field));
  }
  at->second = R"({"type":"object","properties":{)" + properties + R"(},"required":[)" + required +
               R"(],"additionalProperties":false})";
}

}  // namespace troupe::json
