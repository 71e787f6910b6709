#pragma once
// Reads JSON along a Cap'n Proto schema. Cap'n Proto's own JsonCodec is not used:
// version 0.9.2 reads "\u00e9" as "I", rounds integers above 2^53, takes the last of two equal
// keys, ends at a NUL byte and gives no positions in its errors. Included only by json*.cc.
#include <capnp/dynamic.h>

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "runtime/wire/json.h"

namespace troupe::json {

// Other spellings of members in rows.
struct Spellings {
  std::string_view id;                         // member that "id" stands for; "" = none
  std::span<const std::string> features = {};  // features of events that have members of their own
  // Member with the list of features of events. If it is not "features", that member may be the list, too.
  std::string_view feature_list = "features";
};

// Throws Refusal. Members of `out` that the body does not name stay unchanged.
void read(std::string_view body, capnp::DynamicStruct::Builder out, std::span<const ListLimit> limits,
          const Spellings& spellings = {});

// Describes the struct as JSON Schema: the form that `read` accepts or, with `written`, the form
// that a Writer (json_writer.h) produces. Adds it and all structs in it to `schemas` by name; they refer to
// each other as OpenAPI's components do.
void describe(capnp::StructSchema of, bool written, std::map<std::string, std::string>& schemas);

}  // namespace troupe::json
