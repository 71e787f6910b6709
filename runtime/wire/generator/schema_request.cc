// Reads the Cap'n Proto compiler's request and derives the C++ names and types from the schemas.
#include "runtime/wire/generator/schema_request.h"

#include <algorithm>
#include <cctype>

namespace troupe::generator {
namespace {

// Annotation ids: $Cxx.name of Cap'n Proto's c++.capnp, and those of schema/annotations.capnp.
constexpr std::uint64_t cxx_name = 0xf264a779fef191ce;
constexpr std::uint64_t if_any = 0xc3b1f05a92d7e846;
constexpr std::uint64_t cpp_type_id = 0xa33a8942d7f4af90;
constexpr std::uint64_t cpp_member_id = 0xa7bc3628138b74d8;
constexpr std::uint64_t cpp_default_id = 0xc9a04e5174315676;
constexpr std::uint64_t cpp_members_id = 0xb4df4b4262e8c136;

using Annotations = capnp::List<capnp::schema::Annotation>::Reader;

bool has(Annotations annotations, std::uint64_t id) {
  for (auto annotation : annotations)
    if (annotation.getId() == id) return true;
  return false;
}

std::optional<std::string> text_of(Annotations annotations, std::uint64_t id) {
  for (auto annotation : annotations)
    if (annotation.getId() == id) return annotation.getValue().getText().cStr();
  return std::nullopt;
}

std::string local_name(Node::Reader node) {
  return node.getDisplayName().slice(node.getDisplayNamePrefixLength()).cStr();
}

bool is_obsolete(std::string_view name) {
  return name.starts_with("obsolete") || name.starts_with("Obsolete");
}

std::uint64_t type_id(Type::Reader type) {
  if (type.isList()) return type_id(type.getList().getElementType());
  if (type.isStruct()) return type.getStruct().getTypeId();
  if (type.isEnum()) return type.getEnum().getTypeId();
  return 0;
}

bool has_cpp_form(Type::Reader type) {
  if (type.isList()) return has_cpp_form(type.getList().getElementType());
  return !type.isVoid() && !type.isInterface() && !type.isAnyPointer();
}

// True if a default of the bytes is also written as the member's default.
bool has_cpp_default(Type::Reader type) {
  return !type.isText() && !type.isData() && !type.isList() && !type.isStruct();
}

template <class Proto>
Declaration declaration_of(Proto proto, std::string comment) {
  const auto renamed = text_of(proto.getAnnotations(), cxx_name);
  return {renamed.value_or(proto.getName().cStr()), std::move(comment), proto.getCodeOrder()};
}

}  // namespace

SchemaRequest::SchemaRequest(CodeGeneratorRequest::Reader request) {
  for (auto node : request.getNodes()) nodes_.emplace(node.getId(), node);
  for (auto info : request.getSourceInfo()) infos_.emplace(info.getId(), info);
  for (auto file : request.getRequestedFiles()) files_.emplace(file.getId(), file);
  for (auto file : request.getRequestedFiles()) collect_file(file.getId());
}

// Appends the types of the requested files that a file imports, then its own.
void SchemaRequest::collect_file(std::uint64_t id) {
  const auto file = files_.find(id);
  if (file == files_.end() || !collected_.insert(id).second) return;
  for (auto import : file->second.getImports()) collect_file(import.getId());
  for (auto nested : node(id).getNestedNodes()) collect(node(nested.getId()));
}

// Appends the types that a type contains, then itself.
void SchemaRequest::collect(Node::Reader type) {
  if (!collected_.insert(type.getId()).second || is_obsolete(local_name(type))) return;
  if (type.isEnum()) return types_.push_back(type);
  if (!type.isStruct() || type.getStruct().getDiscriminantCount() > 0) return;
  for (auto nested : type.getNestedNodes()) {
    const Node::Reader inner = node(nested.getId());
    if (!inner.isConst() && !is_handwritten(type))
      throw SchemaError(std::string(inner.getDisplayName().cStr()) +
                        ": a type inside a struct; expected beside it");
    collect(inner);
  }
  for (const Field& field : fields_of(type))
    if (const std::uint64_t id = type_id(field.type); id != 0) collect(node(id));
  types_.push_back(type);
}

Node::Reader SchemaRequest::envelope() const {
  std::optional<Node::Reader> found;
  for (const auto& [id, node] : nodes_) {
    if (!node.isStruct() || node.getStruct().getDiscriminantCount() == 0) continue;
    if (!files_.contains(node.getScopeId())) continue;  // imported, or a group
    if (found)
      throw SchemaError(std::string(node.getDisplayName().cStr()) + ": a second struct with a union");
    found = node;
  }
  if (!found) throw SchemaError("no struct has a union that lists the kinds of messages");
  return *found;
}

Node::Reader SchemaRequest::node(std::uint64_t id) const { return nodes_.at(id); }

std::string SchemaRequest::comment_of(Node::Reader node) const {
  const auto info = infos_.find(node.getId());
  return info == infos_.end() ? "" : info->second.getDocComment().cStr();
}

std::string SchemaRequest::comment_of(Node::Reader node, std::size_t member) const {
  const auto info = infos_.find(node.getId());
  if (info == infos_.end() || member >= info->second.getMembers().size()) return "";
  return info->second.getMembers()[static_cast<unsigned>(member)].getDocComment().cStr();
}

std::vector<Field> SchemaRequest::fields_of(Node::Reader node) const {
  std::vector<Field> fields;
  std::size_t index = 0;
  for (auto proto : node.getStruct().getFields()) {
    const std::string comment = comment_of(node, index++);
    if (is_obsolete(proto.getName().cStr())) continue;
    const std::string where = std::string(node.getDisplayName().cStr()) + "." + proto.getName().cStr();
    if (!proto.isSlot()) throw SchemaError(where + ": a group; expected a struct");
    Field field{declaration_of(proto, comment), proto, proto.getSlot().getType(), {}, {}, {}, false};
    field.cpp_member = text_of(proto.getAnnotations(), cpp_member_id).value_or(snake_case(field.name));
    field.cpp_type = text_of(proto.getAnnotations(), cpp_type_id);
    field.cpp_default = text_of(proto.getAnnotations(), cpp_default_id);
    field.if_any = has(proto.getAnnotations(), if_any);
    if (!has_cpp_form(field.type)) throw SchemaError(where + ": a type that messages do not use");
    if (field.if_any && !field.type.isList() && !field.type.isStruct() && !field.type.isData() &&
        !field.type.isText())
      throw SchemaError(where + ": $ifAny; expected a list, a struct, text or data");
    if (proto.getSlot().getHadExplicitDefault() && !field.cpp_default && !has_cpp_default(field.type))
      throw SchemaError(where + ": a default that is no number; expected none, or $cppDefault");
    fields.push_back(std::move(field));
  }
  std::ranges::sort(fields, {}, &Field::order);
  return fields;
}

std::vector<Declaration> SchemaRequest::enumerators_of(Node::Reader node) const {
  std::vector<Declaration> members;
  for (auto proto : node.getEnum().getEnumerants())
    members.push_back(declaration_of(proto, comment_of(node, members.size())));
  return members;
}

std::optional<std::string> SchemaRequest::cpp_members(Node::Reader node) const {
  return text_of(node.getAnnotations(), cpp_members_id);
}

bool SchemaRequest::is_handwritten(Node::Reader type) const {
  return has(type.getAnnotations(), cpp_type_id) ||
         (!node(type.getScopeId()).isFile() && is_handwritten(node(type.getScopeId())));
}

std::string SchemaRequest::cpp_name(Node::Reader type) const {
  if (const auto name = text_of(type.getAnnotations(), cpp_type_id)) return *name;
  const Node::Reader scope = node(type.getScopeId());
  return (scope.isFile() ? "" : cpp_name(scope) + "::") + local_name(type);
}

std::string SchemaRequest::wire_name(Node::Reader type) const {
  const Node::Reader scope = node(type.getScopeId());
  return (scope.isFile() ? "schema" : wire_name(scope)) + "::" + local_name(type);
}

std::string SchemaRequest::cpp_type(Type::Reader type) const {
  switch (type.which()) {
    case Type::BOOL:
      return "bool";
    case Type::INT8:
      return "std::int8_t";
    case Type::INT16:
      return "std::int16_t";
    case Type::INT32:
      return "std::int32_t";
    case Type::INT64:
      return "std::int64_t";
    case Type::UINT8:
      return "std::uint8_t";
    case Type::UINT16:
      return "std::uint16_t";
    case Type::UINT32:
      return "std::uint32_t";
    case Type::UINT64:
      return "std::uint64_t";
    case Type::FLOAT32:
      return "float";
    case Type::FLOAT64:
      return "double";
    case Type::TEXT:
      return "std::string";
    case Type::DATA:
      return "BlockName";
    case Type::LIST:
      return "std::vector<" + cpp_type(type.getList().getElementType()) + ">";
    case Type::ENUM:
      return cpp_name(node(type.getEnum().getTypeId()));
    case Type::STRUCT:
      return cpp_name(node(type.getStruct().getTypeId()));
    default:
      throw SchemaError("a type has no C++ form");
  }
}

std::string SchemaRequest::cpp_type(const Field& field) const {
  return field.cpp_type ? *field.cpp_type : cpp_type(field.type);
}

std::string snake_case(std::string_view camel_case) {
  std::string out;
  for (const char c : camel_case) {
    if (std::isupper(static_cast<unsigned char>(c)) && !out.empty()) out += '_';
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

std::string upper_case(std::string_view camel_case) {
  std::string out = snake_case(camel_case);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string title_case(std::string_view camel_case) {
  std::string out(camel_case);
  out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  return out;
}

}  // namespace troupe::generator
