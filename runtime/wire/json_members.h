#pragma once
// Reads the JSON names of members from a Cap'n Proto schema. Included only by json*.cc.
#include <capnp/schema.h>

#include <cstdint>
#include <string_view>

namespace troupe::json {

// Annotation ids: $Json.name of Cap'n Proto's json.capnp, and $internal and $ifAny of
// schema/annotations.capnp.
inline constexpr std::uint64_t name_annotation = 0xfa5b1fd61c2e7c3d;
inline constexpr std::uint64_t internal_annotation = 0xa180aca20b223898;
inline constexpr std::uint64_t if_any_annotation = 0xc3b1f05a92d7e846;

inline bool has_annotation(capnp::StructSchema::Field field, std::uint64_t id) {
  for (auto annotation : field.getProto().getAnnotations())
    if (annotation.getId() == id) return true;
  return false;
}
inline bool is_internal(capnp::StructSchema::Field field) {
  return has_annotation(field, internal_annotation);
}

// Returns the JSON name of a field or an enumerant.
template <class Declaration>
std::string_view name_of(Declaration declaration) {
  const auto proto = declaration.getProto();
  for (auto annotation : proto.getAnnotations())
    if (annotation.getId() == name_annotation) return annotation.getValue().getText().cStr();
  return proto.getName().cStr();
}

}  // namespace troupe::json
