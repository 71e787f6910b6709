#pragma once
// Refusals of requests that the router has not answered. A client that only asked may ask again; one that
// wrote has to find out whether the write is stored. Pure.
#include <cstdint>

#include "runtime/actor/messages.h"

namespace troupe::server {

bool is_write(const Message& message);  // it may be stored although no answer has come

Refusal no_answer(bool writes, std::int64_t waited_us);
Refusal stopping(bool writes);  // the server stops before the answer

}  // namespace troupe::server
