#pragma once
// Reads and sets the id of a message of any kind.
#include "runtime/actor/messages.h"

namespace troupe {

RequestId id_of(const Message& message);  // 0 = the kind has no id
void set_id(Message& message, RequestId id);

}  // namespace troupe
