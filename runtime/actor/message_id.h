#pragma once
// The id of a message, whatever its kind.
#include "runtime/actor/messages.h"

namespace troupe {

RequestId id_of(const Message& message);  // 0: it has none
void set_id(Message& message, RequestId id);

}  // namespace troupe
