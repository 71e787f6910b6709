#pragma once
// Writes the C++ structs and enums of the schemas, and the list of all kinds of messages.
#include <string>

#include "runtime/wire/generator/schema_request.h"

namespace troupe::generator {

// Returns the text of generated/message_structs.h.
std::string message_structs(const SchemaRequest& request);

}  // namespace troupe::generator
