#pragma once
// Writes the conversion between the C++ structs and their Cap'n Proto form: `put` fills a builder, `get`
// fills a struct from a reader.
#include <string>

#include "runtime/wire/generator/schema_request.h"

namespace troupe::generator {

// Returns the text of generated/message_codec.h, which declares the functions.
std::string codec_declarations(const SchemaRequest& request);

// Returns the text of generated/message_codec.inc, which defines them.
std::string codec_definitions(const SchemaRequest& request);

}  // namespace troupe::generator
