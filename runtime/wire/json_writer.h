#pragma once
// Writes messages as JSON along their Cap'n Proto schema. Included only by json*.cc.
#include <capnp/any.h>
#include <capnp/schema.h>

#include <list>
#include <memory>
#include <string>
#include <utility>

namespace troupe::json {

// Writes structs of one kind. Names, types and places of their members are read from the schema once: reading
// them again for each of the thousand structs of a reply took most of the time of writing it. Immutable, so
// that threads share a writer.
class Writer {
 public:
  explicit Writer(capnp::StructSchema schema);
  ~Writer();

  void write(capnp::AnyStruct::Reader from, std::string& out) const;

 private:
  struct Value;
  struct Member;
  struct Struct;

  Struct* struct_of(capnp::StructSchema schema);
  Value value_of(capnp::Type type);
  static void write_struct(const Struct& form, capnp::AnyStruct::Reader from, std::string& out);
  static void write_number(const Member& member, capnp::Data::Reader data, std::string& out);
  static void write_pointer(const Value& value, capnp::AnyPointer::Reader from, std::string& out);
  static void write_list(const Value& element, capnp::AnyPointer::Reader from, std::string& out);

  std::list<std::pair<capnp::StructSchema, std::unique_ptr<Struct>>> structs_;  // of all kinds, once each
  const Struct* root_;
};

}  // namespace troupe::json
