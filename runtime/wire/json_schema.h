#pragma once
// JSON along a Cap'n Proto schema, in both directions. Not Cap'n Proto's own JsonCodec: that of 0.9.2 reads
// "\u00e9" as "I", rounds integers above 2^53, takes the last of two equal keys, ends at a NUL byte and has
// no positions in its errors. Included only by json*.cc.
#include <capnp/dynamic.h>

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "runtime/wire/json.h"

namespace troupe::json {

// Throws Refusal. What the body does not name stays as it is in `out`.
void read(std::string_view body, capnp::DynamicStruct::Builder out, std::span<const ListLimit> limits);

void write(capnp::DynamicStruct::Reader from, std::string& out);

// The same as JSON Schema has it: what `read` takes, or, with `written`, what `write` gives. By name, with
// all structs in it, which refer to each other as OpenAPI's components do.
void describe(capnp::StructSchema of, bool written, std::map<std::string, std::string>& schemas);

}  // namespace troupe::json
