#pragma once
// The Cap'n Proto compiler's request to the message generator: the types that the schemas define,
// their comments, and the C++ names that follow from them.
#include <capnp/schema.capnp.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::generator {

using capnp::schema::CodeGeneratorRequest;
using capnp::schema::Node;
using capnp::schema::Type;

// A schema that has no C++ form; the text says where.
struct SchemaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A field of a struct, or an enumerator.
struct Declaration {
  std::string name;       // in camelCase, as Cap'n Proto's accessors have it
  std::string comment;    // lines, as in the schema; "" = none
  std::uint16_t order{};  // its position in the schema's text
};

struct Field : Declaration {
  capnp::schema::Field::Reader proto;
  Type::Reader type;
  std::string cpp_member;                  // member of the C++ struct
  std::optional<std::string> cpp_type;     // if it does not follow from the schema
  std::optional<std::string> cpp_default;  // if it differs from the default of the bytes
  bool if_any = false;                     // omitted where it has its default
};

class SchemaRequest {
 public:
  explicit SchemaRequest(CodeGeneratorRequest::Reader request);

  // Structs and enums of the requested files, each after those that it contains. Without the envelope
  // and without types whose names begin with "Obsolete".
  const std::vector<Node::Reader>& types() const { return types_; }
  // The struct whose union lists the kinds of messages.
  Node::Reader envelope() const;

  Node::Reader node(std::uint64_t id) const;
  // Lines of the comment on a type or a constant.
  std::string comment_of(Node::Reader node) const;
  // Fields in the order of the text, without those whose names begin with "obsolete".
  std::vector<Field> fields_of(Node::Reader node) const;
  // Enumerators by number.
  std::vector<Declaration> enumerators_of(Node::Reader node) const;

  // Further members of the struct, as C++.
  std::optional<std::string> cpp_members(Node::Reader node) const;

  bool is_handwritten(Node::Reader node) const;
  // Name of the C++ type, e.g. Search::Normalisation.
  std::string cpp_name(Node::Reader node) const;
  // Name of Cap'n Proto's own C++ type, e.g. schema::Search::Normalisation.
  std::string wire_name(Node::Reader node) const;
  std::string cpp_type(Type::Reader type) const;
  std::string cpp_type(const Field& field) const;

 private:
  void collect_file(std::uint64_t id);
  void collect(Node::Reader node);
  std::string comment_of(Node::Reader node, std::size_t member) const;

  std::map<std::uint64_t, Node::Reader> nodes_;
  std::map<std::uint64_t, Node::SourceInfo::Reader> infos_;
  std::map<std::uint64_t, CodeGeneratorRequest::RequestedFile::Reader> files_;
  std::vector<Node::Reader> types_;
  std::set<std::uint64_t> collected_;
};

std::string snake_case(std::string_view camel_case);  // tokensTotal → tokens_total
std::string upper_case(std::string_view camel_case);  // tokensTotal → TOKENS_TOTAL
std::string title_case(std::string_view camel_case);  // tokensTotal → TokensTotal

}  // namespace troupe::generator
