// Writes the C++ structs and enums of the schemas with their comments and defaults.
#include "runtime/wire/generator/write_structs.h"

#include <charconv>
#include <sstream>

namespace troupe::generator {
namespace {

constexpr std::size_t columns = 100;

// Joins the lines of a comment's paragraphs and breaks them again at `columns`.
std::string wrapped(const std::string& comment, const std::string& indent) {
  std::istringstream lines(comment);
  std::string out, line;
  const auto end_line = [&] {
    if (!line.empty()) out += line + "\n";
    line.clear();
  };
  for (std::string text; std::getline(lines, text);) {
    if (text.empty()) {
      end_line();
      out += indent + "//\n";
    }
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      if (!line.empty() && line.size() + 1 + word.size() > columns) end_line();
      line += (line.empty() ? indent + "// " : " ") + word;
    }
  }
  end_line();
  return out;
}

// Returns a declaration with its comment: behind it if both fit into one line, otherwise above it.
std::string commented(const std::string& declaration, const std::string& comment) {
  const std::string above = wrapped(comment, "  ");
  if (above.empty()) return "  " + declaration + "\n";
  const bool is_one_line = above.find('\n') + 1 == above.size();
  if (is_one_line && declaration.size() + above.size() <= columns)
    return "  " + declaration + above;  // without the line break, which the comment brings
  return above + "  " + declaration + "\n";
}

// Returns the shortest text that reads back as the same number.
template <class Number>
std::string shortest(Number value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

class StructWriter {
 public:
  explicit StructWriter(const SchemaRequest& request) : request_(request) {}

  std::string text() {
    for (const Node::Reader type : request_.types()) {
      if (request_.is_handwritten(type)) continue;
      write_file_heading(type);
      out_ += wrapped(request_.comment_of(type), "");
      if (type.isEnum())
        write_enum(type);
      else
        write_struct(type);
    }
    write_kinds();
    return std::move(out_);
  }

 private:
  void write_file_heading(Node::Reader type) {
    const std::string file = request_.node(type.getScopeId()).getDisplayName().cStr();
    if (file != file_) out_ += "// ---- " + file + "\n\n";
    file_ = file;
  }

  void write_enum(Node::Reader type) {
    out_ += "enum class " + request_.cpp_name(type) + " : std::uint8_t {\n";
    for (const Declaration& member : request_.enumerators_of(type))
      out_ += commented(snake_case(member.name) + ",", member.comment);
    out_ += "};\n\n";
  }

  void write_struct(Node::Reader type) {
    const std::string name = request_.cpp_name(type);
    out_ += "struct " + name + " {\n";
    for (auto nested : type.getNestedNodes())
      write_constant(request_.node(nested.getId()), nested.getName().cStr());
    for (const Field& field : request_.fields_of(type)) {
      const std::string value = default_of(field);
      out_ += commented(
          request_.cpp_type(field) + " " + field.cpp_member + (value.empty() ? "" : " = " + value) + ";",
          field.comment);
    }
    if (const auto members = request_.cpp_members(type)) out_ += "  " + *members + "\n";
    out_ += "  bool operator==(const " + name + "&) const = default;\n};\n\n";
  }

  void write_constant(Node::Reader node, const std::string& name) {
    const auto constant = node.getConst();
    out_ += commented("static constexpr " + request_.cpp_type(constant.getType()) + " " + snake_case(name) +
                          " = " + value_text(constant.getValue()) + ";",
                      request_.comment_of(node));
  }

  std::string default_of(const Field& field) const {
    if (field.cpp_default) return *field.cpp_default;
    if (field.cpp_type) return "{}";
    const auto value = field.proto.getSlot().getDefaultValue();
    if (!field.type.isEnum()) return value_text(value);
    const Node::Reader type = request_.node(field.type.getEnum().getTypeId());
    return request_.cpp_name(type) +
           "::" + snake_case(request_.enumerators_of(type).at(value.getEnum()).name);
  }

  // Returns a number or a truth value as C++, and "" for what is empty by default.
  static std::string value_text(capnp::schema::Value::Reader value) {
    using Value = capnp::schema::Value;
    switch (value.which()) {
      case Value::BOOL:
        return value.getBool() ? "true" : "false";
      case Value::INT8:
        return std::to_string(value.getInt8());
      case Value::INT16:
        return std::to_string(value.getInt16());
      case Value::INT32:
        return std::to_string(value.getInt32());
      case Value::INT64:
        return std::to_string(value.getInt64());
      case Value::UINT8:
        return std::to_string(value.getUint8());
      case Value::UINT16:
        return std::to_string(value.getUint16());
      case Value::UINT32:
        return std::to_string(value.getUint32());
      case Value::UINT64:
        return std::to_string(value.getUint64());
      case Value::FLOAT32:
        return shortest(value.getFloat32());
      case Value::FLOAT64:
        return shortest(value.getFloat64());
      default:
        return "";
    }
  }

  void write_kinds() {
    std::string types, names;
    for (const Field& kind : request_.fields_of(request_.envelope())) {
      if (kind.proto.getDiscriminantValue() == capnp::schema::Field::NO_DISCRIMINANT) continue;
      const std::string name = request_.cpp_type(kind);
      types += (types.empty() ? "\n    " : ",\n    ") + name;
      names += (names.empty() ? "\n    \"" : ",\n    \"") + name + "\"";
    }
    out_ += "// ---- All kinds of messages, in the order of the envelope's union\n\n";
    out_ += "using AnyMessage = std::variant<" + types + ">;\n\n";
    out_ += "inline constexpr const char* message_names[] = {" + names + "};\n\n";
  }

  const SchemaRequest& request_;
  std::string out_, file_;
};

}  // namespace

std::string message_structs(const SchemaRequest& request) {
  return R"(#pragma once
// Generated by runtime/wire/generator from the schemas of runtime/wire/schema. Included only by
// runtime/actor/messages.h, after the types that the members have.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

)" + StructWriter(request).text() +
         "}  // namespace troupe\n";
}

}  // namespace troupe::generator
